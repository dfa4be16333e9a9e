"""Losses and their gradients against loops that count."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooflab.errors import UnknownNameError
from rooflab.work.formulas import cost
from rooflab.work.formulas.loss import ELEMENTWISE

size = st.integers(1, 6)


def add_exp(peak):
    return lambda total, value: total + (value - peak).exp()


@given(size, size)
def test_cross_entropy_is_what_its_loops_count(by_hand, rows, classes):
    tally = by_hand.Tally()
    x, total = tally.array(rows, classes), tally.number()
    for row in range(rows):
        peak = tally.largest(x[row, i] for i in range(classes))
        spread = tally.fold((x[row, i] for i in range(classes)), add_exp(peak))
        total = total - (tally.number() - peak - spread.log())  # of the target's logit
    spec = by_hand.spec
    found = cost(
        "loss", (spec(rows, classes), spec(rows, dtype="int64")), (spec(),), {"function": "cross_entropy"}
    )
    assert by_hand.flop(found, "vector") == tally.vector
    assert by_hand.flop(found, "special") == tally.special
    assert found.compulsory.nbytes == 4 * rows * classes + 8 * rows + 4


def test_nll_touches_one_element_of_each_row(by_hand):
    spec = by_hand.spec
    found = cost("loss", (spec(8, 1000), spec(8, dtype="int64")), (spec(),), {"function": "nll"})
    assert found.compulsory.read_bytes == 8 * 4 + 8 * 8
    inputs = (spec(), spec(8, 1000), spec(8, dtype="int64"))
    back = cost("loss", inputs, (spec(8, 1000),), {"function": "nll", "backward": True})
    assert (back.compulsory.read_bytes, back.compulsory.write_bytes) == (4 + 64, 32000)


@pytest.mark.parametrize(
    ("name", "attrs", "vector", "special"),
    [
        ("mse", {"reduction": "none"}, 2 * 8, 0),  # (x − t)²
        ("mse", {"reduction": "sum"}, 3 * 8, 0),
        ("mse", {}, 3 * 8 + 1, 0),
        ("mse", {"backward": True}, 3 * 8, 0),  # 2·(x − t)·g
        ("l1", {}, 3 * 8 + 1, 0),
        ("bce", {"reduction": "none"}, 6 * 8, 2 * 8),
        ("bce_with_logits", {"backward": True}, 4 * 8, 2 * 8),
    ],
)
def test_losses_of_single_elements(by_hand, name, attrs, vector, special):
    x, grad = (by_hand.spec(8), by_hand.spec(8)), ((by_hand.spec(),) if attrs.get("backward") else ())
    found = cost("loss", (*grad, *x), (by_hand.spec(),), {"function": name, **attrs})
    assert by_hand.flop(found, "vector") == vector
    assert by_hand.flop(found, "special") == special


def smooth(x, t, scaled=False):
    d = abs(x - t)
    d.larger(1)  # which branch
    linear = d - 0.5
    return 0.5 * d * d, linear * 1.0 if scaled else linear


def smooth_slope(x, t, g):
    d = x - t
    abs(d).larger(1)
    return d * 2 * g


def hinge_slope(x, t, g):
    t.larger(1), (1 - x).larger(0)
    return -g


def soft_margin_slope(x, t, g):
    minus = -t
    z = (minus * x).exp()
    return minus * z / (1 + z) * g


LOSSES = {  # forward of (x, t), derivative of (x, t, g)
    "mse": (lambda x, t: (lambda d: d * d)(x - t), lambda x, t, g: 2 * (x - t) * g),
    "l1": (lambda x, t: abs(x - t), lambda x, t, g: (x - t).larger(0) * g),
    "smooth_l1": (smooth, smooth_slope),
    "huber": (lambda x, t: smooth(x, t, scaled=True), smooth_slope),
    "bce": (
        lambda x, t: -(t * x.log() + (1 - t) * (1 - x).log()),
        lambda x, t, g: g * (x - t) / (x * (1 - x)),
    ),
    "bce_with_logits": (
        lambda x, t: x.larger(0) - x * t + (1 + (-abs(x)).exp()).log(),
        lambda x, t, g: (1 / (1 + (-x).exp()) - t) * g,
    ),
    "kl_div": (lambda x, t: t * (t.log() - x), lambda x, t, g: -t * g),
    "soft_margin": (lambda x, t: (1 + (-t * x).exp()).log(), soft_margin_slope),
    "hinge_embedding": (lambda x, t: (t.larger(1), (1 - x).larger(0)), hinge_slope),
    "poisson_nll": (lambda x, t: x.exp() - t * x, lambda x, t, g: (x.exp() - t) * g),
}


@pytest.mark.parametrize("name", ELEMENTWISE)
@pytest.mark.parametrize("backward", [False, True])
def test_losses_count_what_their_expressions_do(by_hand, name, backward):
    tally = by_hand.Tally()
    forward, derivative = LOSSES[name]
    (derivative if backward else forward)(*(tally.number() for _ in range(3 if backward else 2)))
    x, grad = (by_hand.spec(8), by_hand.spec(8)), ((by_hand.spec(),) if backward else ())
    attrs = {"function": name, "backward": backward, "reduction": "none"}
    found = cost("loss", (*grad, *x), (by_hand.spec(8),), attrs)
    assert by_hand.flop(found, "vector") == 8 * tally.vector
    assert by_hand.flop(found, "special") == 8 * tally.special
    assert found.accessed.read_bytes == found.compulsory.read_bytes == 64 + 4 * backward


@pytest.mark.parametrize(
    ("kind", "attrs", "message"),
    [
        ("loss", {"function": "mes"}, "unknown loss 'mes'"),
    ],
)
def test_unknown_names_are_errors_not_zero(by_hand, kind, attrs, message):
    x = by_hand.spec(4, 4)
    with pytest.raises(UnknownNameError, match=message):
        cost(kind, (x, x), (x,), attrs)
