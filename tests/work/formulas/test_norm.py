"""Norms, their gradients and dropout against loops that count."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooflab.errors import UnknownNameError
from rooflab.work.formulas import cost

size = st.integers(1, 6)


def normalise(tally, x, y, row, width, weight, bias, root):
    """One row of layer or, with `root`, RMS norm."""
    at = [(row, i) for i in range(width)]
    if root:
        spread = tally.fold((x[one] for one in at), lambda total, v: total + v * v) * 0.1
        scale = (spread + 1e-5).rsqrt()
    else:
        mean = tally.sum(x[one] for one in at) * 0.1
        spread = tally.fold((x[one] for one in at), lambda total, v: total + (lambda d: d * d)(v - mean))
        scale = (spread * 0.1 + 1e-5).rsqrt()
    for i, one in enumerate(at):
        value = x[one] * scale if root else (x[one] - mean) * scale
        if weight is not None:
            value = value * weight[i]
        if bias is not None:
            value = value + bias[i]
        y[one] = value


@given(size, size, st.sampled_from(["layer", "rms"]), st.booleans(), st.booleans())
def test_layer_and_rms_norm_are_what_their_loops_count(by_hand, rows, width, name, weighted, biased):
    biased = biased and weighted and name == "layer"
    tally = by_hand.Tally()
    x, y, weight, bias = tally.array(rows, width), tally.array(rows, width), tally.array(width), tally.array(width)
    for row in range(rows):
        normalise(tally, x, y, row, width, weight if weighted else None, bias if biased else None, name == "rms")
    inputs = [by_hand.spec(rows, width)] + [by_hand.spec(width)] * (weighted + biased)
    found = cost("norm", tuple(inputs), (by_hand.spec(rows, width),), {"function": name})
    assert by_hand.flop(found, "vector") == tally.vector
    assert by_hand.flop(found, "special") == tally.special == rows
    assert found.accessed.read_bytes == 4 * (x.loads + weight.loads + bias.loads)
    assert found.accessed.write_bytes == 4 * y.stores
    assert found.compulsory.read_bytes == 4 * (len(x.read) + len(weight.read) + len(bias.read))


@given(size, size, st.integers(1, 2), st.sampled_from(["batch", "group", "instance"]))
def test_other_norms_share_a_mean_over_other_elements(by_hand, batch, group, groups, name):
    channels, pixels = group * groups, 3
    spec = by_hand.spec
    x, affine = spec(batch, channels, pixels), (spec(channels), spec(channels))
    means = {"batch": channels, "group": batch * groups, "instance": batch * channels}[name]
    found = cost("norm", (x, *affine), (spec(batch, channels, pixels),), {"function": name, "groups": groups})
    assert by_hand.flop(found, "special") == means
    updates = 6 * channels if name == "batch" else 0  # (1 − m)·old + m·new of two statistics
    assert by_hand.flop(found, "vector") == 8 * x.elements + 3 * means + updates


def test_batch_norm_with_given_statistics_is_one_pass(by_hand):
    spec = by_hand.spec
    x, channel = spec(2, 3, 5), (spec(3), spec(3), spec(3), spec(3))
    found = cost("norm", (x, *channel), (spec(2, 3, 5),), {"function": "batch", "training": False})
    assert by_hand.flop(found, "vector") == 4 * 30 + 3  # (x − mean)·rstd·weight + bias; eps per channel
    assert by_hand.flop(found, "special") == 3
    assert found.compulsory.nbytes == 4 * (30 + 12 + 30)
    assert found.accessed.read_bytes == 4 * 30 * 5


def test_batch_norm_in_training_writes_its_running_statistics(by_hand):
    spec = by_hand.spec
    inputs = (spec(2, 3, 5), spec(3), spec(3), spec(3), spec(3))
    outputs = (spec(2, 3, 5), spec(3), spec(3))
    found = cost("norm", inputs, outputs, {"function": "batch", "training": True})
    assert found.compulsory.write_bytes == 4 * (30 + 6 + 6)
    bare = (inputs[0], *inputs[3:])
    found = cost("norm", bare, outputs, {"function": "batch", "weight": False, "bias": False})
    assert found.compulsory.write_bytes == 4 * (30 + 6 + 6)
    found = cost("norm", inputs[:3], outputs, {"function": "batch"})  # none are kept
    assert found.compulsory.write_bytes == 4 * (30 + 6)


@given(size, size, st.booleans(), st.booleans())
def test_layer_norm_s_gradient_is_what_its_loops_count(by_hand, rows, width, weighted, biased):
    biased = biased and weighted
    tally = by_hand.Tally()
    n = tally.number
    g, x, out = (tally.array(rows, width) for _ in range(3))
    for row in range(rows):
        mean, rstd, first, second = n(), n(), n(), n()
        kept = []
        for i in range(width):
            grad, hat = g[row, i], (x[row, i] - mean) * rstd
            if weighted:
                n() + grad * hat  # weight's gradient
            if biased:
                n() + grad
            scaled = grad * n() if weighted else grad
            first, second = first + scaled, second + scaled * hat
            kept.append((scaled, hat))
        first, second = first * 0.1, second * 0.1
        for i in range(width):
            g[row, i], x[row, i]
            scaled, hat = kept[i]
            out[row, i] = rstd * (scaled - first - hat * second)
    spec = by_hand.spec
    full, stats, weight = (spec(rows, width) for _ in range(2)), (spec(rows), spec(rows)), (spec(width),)
    outputs = (spec(rows, width), *[spec(width)] * (weighted + biased))
    found = cost("norm_backward", (*full, *stats, *weight), outputs, {"function": "layer"})
    assert found.total_flop == tally.vector
    assert found.accessed.read_bytes == 4 * (g.loads + x.loads + 2 * rows + width)


@pytest.mark.parametrize(
    ("attrs", "outputs", "per_element", "per_row"),
    [
        ({"function": "rms"}, 2, 9, 1),  # x̂ 1, weight's 2, g·w 1, the sum 2, result 3
        ({"function": "rms"}, 1, 6, 1),
        ({"function": "batch"}, 3, 9, 2),  # x̂ 2, sums 3, result 4
        ({"function": "batch", "training": False}, 3, 6, 1),  # x̂ 2, weight's 2, bias's 1, result 1
    ],
)
def test_gradients_of_other_norms(by_hand, attrs, outputs, per_element, per_row):
    spec = by_hand.spec
    x = spec(4, 8)
    rows = 8 if attrs["function"] == "batch" else 4
    found = cost("norm_backward", (x, spec(4, 8), spec(8)), (x, *[spec(8)] * (outputs - 1)), attrs)
    assert found.total_flop == per_element * 32 + per_row * rows


def test_dropout_multiplies_by_mask_and_scale(by_hand):
    found = cost("dropout", (by_hand.spec(8),), (by_hand.spec(8), by_hand.spec(8, dtype="bool")), {"p": 0.1})
    assert found.total_flop == 16
    assert found.compulsory.nbytes == 32 + 32 + 8


@pytest.mark.parametrize(
    ("kind", "attrs", "message"),
    [
        ("norm", {"function": "laier"}, "unknown normalisation 'laier'; did you mean layer"),
        ("norm_backward", {"function": "x"}, "unknown normalisation 'x'"),
    ],
)
def test_unknown_names_are_errors_not_zero(by_hand, kind, attrs, message):
    x = by_hand.spec(4, 4)
    with pytest.raises(UnknownNameError, match=message):
        cost(kind, (x, x), (x,), attrs)
