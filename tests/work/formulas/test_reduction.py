"""Reductions, softmax and scans against loops that count."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooflab.errors import UnknownNameError
from rooflab.work.formulas import cost
from rooflab.work.formulas.reduction import COMPLEX_REDUCTIONS
from rooflab.work.formulas.reduction import REDUCTIONS as TABLE

size = st.integers(1, 6)


def add_exp(peak):
    return lambda total, value: total + (value - peak).exp()


def variance(tally, row):
    mean = tally.sum(row()) * (1 / 3)
    return tally.fold(row(), lambda total, x: total + (lambda d: d * d)(x - mean)) * (1 / 3)


REDUCTIONS = {
    "sum": lambda tally, row: tally.sum(row()),
    "mean": lambda tally, row: tally.sum(row()) * 0.1,
    "prod": lambda tally, row: tally.fold(row(), lambda total, x: total * x),
    "max": lambda tally, row: tally.largest(row()),
    "argmax": lambda tally, row: tally.largest(row()),
    "norm": lambda tally, row: tally.fold(row(), lambda total, x: total + x * x).sqrt(),
    "norm1": lambda tally, row: tally.fold(row(), lambda total, x: total + abs(x)),
    "sum_of_squares": lambda tally, row: tally.fold(row(), lambda total, x: total + x * x),
    "var": variance,
    "std": lambda tally, row: variance(tally, row).sqrt(),
    "norm_p": lambda tally, row: (
        0.5 * tally.fold(row(), lambda total, x: total + (3 * abs(x).log()).exp()).log()
    ).exp(),
}


def log_sum_exp(tally, row):
    peak = tally.largest(row())
    return tally.fold(row(), add_exp(peak)).log() + peak


REDUCTIONS["logsumexp"] = log_sum_exp


@pytest.mark.parametrize("name", REDUCTIONS)
@given(rows=size, width=size)
def test_reductions_are_what_their_loops_count(by_hand, name, rows, width):
    tally = by_hand.Tally()
    x, y = tally.array(rows, width), tally.array(rows)
    for row in range(rows):
        y[row] = REDUCTIONS[name](tally, lambda row=row: (x[row, i] for i in range(width)))
    found = cost("reduction", (by_hand.spec(rows, width),), (by_hand.spec(rows),), {"function": name})
    assert by_hand.flop(found, "vector") == tally.vector
    assert by_hand.flop(found, "special") == tally.special
    assert found.accessed.read_bytes == 4 * x.loads
    assert found.accessed.write_bytes == 4 * y.stores
    assert found.compulsory.read_bytes == 4 * len(x.read)


def test_reductions_of_integers_and_logic_are_bytes_alone(by_hand):
    x = by_hand.spec(8, dtype="int64")
    assert cost("reduction", (x,), (by_hand.spec(dtype="int64"),), {"function": "sum"}).flop == ()
    b = by_hand.spec(8, dtype="bool")
    assert cost("reduction", (b,), (by_hand.spec(dtype="bool"),), {"function": "any"}).compulsory.nbytes == 9


def test_forms_of_one_reduction_share_its_count():
    for table in (TABLE, COMPLEX_REDUCTIONS):
        assert table["var"] == table["var_mean"]
        assert table["std"] == table["std_mean"]
        assert table["any"] == table["all"] == (0, 0, 0, 0)
    assert TABLE["min"] == TABLE["argmin"] == TABLE["max"]
    assert TABLE["norm_inf"] == TABLE["norm1"]  # |x|, then max or sum
    assert TABLE["aminmax"] == (2, 0, 0, 0)
    assert TABLE["log_sum"] == (1, 0, 0, 1)


def test_indices_are_written_too(by_hand):
    outputs = (by_hand.spec(4), by_hand.spec(4, dtype="int64"))
    found = cost("reduction", (by_hand.spec(4, 8),), outputs, {"function": "max"})
    assert found.compulsory.write_bytes == 16 + 32


@given(size, size, st.booleans())
def test_softmax_is_what_its_loops_count(by_hand, rows, width, log):
    tally = by_hand.Tally()
    x, y = tally.array(rows, width), tally.array(rows, width)
    for row in range(rows):
        peak = tally.largest(x[row, i] for i in range(width))
        total = tally.fold((x[row, i] for i in range(width)), add_exp(peak))
        if log:
            base = total.log()
        for i in range(width):
            # x − peak (log-softmax) and its exponential are counted once, in the pass before
            y[row, i] = x[row, i] - base if log else x[row, i] / total
    found = cost("softmax", (by_hand.spec(rows, width),), (by_hand.spec(rows, width),), {"log": log})
    logarithms = rows if log else 0  # left out, as the rows are not known
    assert by_hand.flop(found, "special") == tally.special - logarithms
    assert by_hand.flop(found, "vector") == tally.vector
    assert found.accessed.read_bytes == 4 * x.loads
    assert found.accessed.write_bytes == 4 * y.stores


@given(size, size, st.booleans())
def test_softmax_s_gradient_is_what_its_loops_count(by_hand, rows, width, log):
    tally = by_hand.Tally()
    g, y, out = (tally.array(rows, width) for _ in range(3))
    for row in range(rows):
        total = tally.number()
        for i in range(width):
            total = total + (g[row, i] if log else g[row, i] * y[row, i])
        for i in range(width):
            if log:
                out[row, i] = g[row, i] - y[row, i].exp() * total
            else:
                out[row, i] = y[row, i] * (g[row, i] - total)
    x = [by_hand.spec(rows, width) for _ in range(3)]
    found = cost("softmax_backward", (x[0], x[1]), (x[2],), {"log": log})
    assert by_hand.flop(found, "vector") == tally.vector
    assert by_hand.flop(found, "special") == tally.special
    assert found.accessed.read_bytes == 4 * (g.loads + y.loads)


@pytest.mark.parametrize(
    ("name", "vector", "special", "inputs"),
    [("cumsum", 1, 0, 1), ("cumprod", 1, 0, 1), ("logcumsumexp", 6, 2, 1), ("associative", 2, 0, 2)],
)
def test_scans_combine_once_per_element(by_hand, name, vector, special, inputs):
    x = by_hand.spec(3, 5)
    found = cost("scan", tuple(by_hand.spec(3, 5) for _ in range(inputs)), (x,), {"function": name})
    assert by_hand.flop(found, "vector") == 15 * vector
    assert by_hand.flop(found, "special") == 15 * special
    assert found.compulsory.nbytes == 60 * (inputs + 1)


@pytest.mark.parametrize(
    ("kind", "name", "per_element"),
    [
        ("reduction", "sum", 2),
        ("reduction", "prod", 6),  # a complex product
        ("reduction", "sum_of_squares", 4),  # |z|², added
        ("reduction", "var", 8 + 3 / 7),  # sum 2; subtract 2, |d|² 3, add 1; two means of 2 and 1 parts
        ("reduction", "norm", 4 + 1 / 7),  # |z|², added; a root
        ("reduction", "norm1", 5),  # |z| with its root, added
        ("reduction", "mean", 2 + 2 / 7),
        ("scan", "cumsum", 2),
        ("scan", "cumprod", 6),
        ("scan", "associative", 8),  # a complex multiply-add
    ],
)
def test_complex_numbers_are_counted_in_real_operations(by_hand, kind, name, per_element):
    x = by_hand.spec(7, dtype="complex64")
    y = by_hand.spec(dtype="complex64") if kind == "reduction" else x
    assert cost(kind, (x,), (y,), {"function": name}).total_flop == pytest.approx(per_element * 7)


def test_complex_numbers_have_no_maximum(by_hand):
    x = by_hand.spec(7, dtype="complex64")
    with pytest.raises(UnknownNameError, match="unknown reduction 'max'"):
        cost("reduction", (x,), (x,), {"function": "max"})


@pytest.mark.parametrize(
    ("kind", "attrs", "message"),
    [
        ("reduction", {"function": "summ"}, "unknown reduction 'summ'; did you mean sum"),
        ("scan", {"function": "cumsam"}, "unknown scan 'cumsam'; did you mean cumsum"),
    ],
)
def test_unknown_names_are_errors_not_zero(by_hand, kind, attrs, message):
    x = by_hand.spec(4, 4)
    with pytest.raises(UnknownNameError, match=message):
        cost(kind, (x, x), (x,), attrs)
