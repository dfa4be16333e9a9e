"""Pooling and resampling against loops that count."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooflab.errors import UnknownNameError
from rooflab.work.formulas import cost
from rooflab.work.formulas.pooling import MODES

size = st.integers(1, 6)


@given(size, st.integers(1, 3), st.integers(1, 3), st.sampled_from(["max", "avg"]))
def test_pooling_is_what_its_loops_count(by_hand, out, kernel, stride, name):
    tally = by_hand.Tally()
    wide = (out - 1) * stride + kernel
    x, y = tally.array(2, wide, wide), tally.array(2, out, out)
    for channel, row, column in by_hand.every(2, out, out):
        total = tally.number()
        for i, j in by_hand.every(kernel, kernel):
            value = x[channel, row * stride + i, column * stride + j]
            total = total + value if name == "avg" else total.larger(value)
        y[channel, row, column] = total * 0.1 if name == "avg" else total
    specs = by_hand.spec(2, wide, wide), by_hand.spec(2, out, out)
    found = cost("pool", specs[:1], specs[1:], {"function": name, "window": kernel**2})
    assert found.total_flop == tally.vector
    assert found.accessed.read_bytes == 4 * x.loads
    back = cost("pool_backward", specs[1:], specs[:1], {"function": "avg", "window": kernel**2})
    assert back.accessed.read_bytes == specs[1].nbytes * (1 + kernel**2)  # grad, and what it is added to
    assert back.total_flop == 2 * out * out * (kernel**2 + 1)
    assert back.compulsory.nbytes == specs[0].nbytes + specs[1].nbytes


def test_max_pooling_s_gradient_adds_once_and_does_not_read_the_input(by_hand):
    spec = by_hand.spec
    inputs = (spec(2, 4, 4), spec(2, 8, 8), spec(2, 4, 4, dtype="int64"))
    found = cost("pool_backward", inputs, (spec(2, 8, 8),), {"function": "max"})
    assert found.total_flop == 32
    assert found.compulsory.read_bytes == 128 + 256
    found = cost(
        "pool_backward", (spec(2, 4, 4), spec(2, 4, 4, dtype="int64")), (spec(2, 8, 8),), {"function": "max"}
    )
    assert found.compulsory.read_bytes == 128 + 256
    assert found.accessed.read_bytes == 128 + 256 + 128  # and what each is added to
    assert found.accessed.write_bytes == 512 + 128


def test_adaptive_pooling_takes_its_window_from_the_shapes(by_hand):
    found = cost("pool", (by_hand.spec(2, 7, 7),), (by_hand.spec(2, 1, 1),), {"function": "adaptive_avg"})
    assert found.total_flop == 2 * (49 + 1)


def lerp(a, b):
    return a + 0.5 * (b - a)


def bilinear(taps):
    return lerp(lerp(next(taps), next(taps)), lerp(next(taps), next(taps)))


def weighted(values):
    first, *rest = (0.1 * value for value in values)
    for value in rest:
        first = first + value
    return first


RESAMPLED = {  # of the loads of an endless row of taps
    "nearest": next,
    "linear": lambda taps: lerp(next(taps), next(taps)),
    "bilinear": bilinear,
    "trilinear": lambda taps: lerp(bilinear(taps), bilinear(taps)),
    "bicubic": lambda taps: weighted([weighted([next(taps) for _ in range(4)]) for _ in range(4)]),
}


@pytest.mark.parametrize("mode", MODES)
def test_resampling_is_what_its_loops_count(by_hand, mode):
    tally = by_hand.Tally()
    x, y = tally.array(1), tally.array(8, 8)
    for index in by_hand.every(8, 8):
        y[index] = RESAMPLED[mode](iter(lambda: x[0,], None))
    spec = by_hand.spec
    found = cost("interpolate", (spec(4, 4),), (spec(8, 8),), {"mode": mode})
    assert found.total_flop == tally.vector
    assert found.accessed.read_bytes == 4 * x.loads
    assert found.compulsory.nbytes == 4 * (16 + 64)
    taps = x.loads // 64
    back = cost("interpolate_backward", (spec(8, 8),), (spec(4, 4),), {"mode": mode})
    assert back.total_flop == 64 * (1 if taps == 1 else 2 * taps)  # weighted and added at each tap
    assert back.accessed.read_bytes == 4 * (64 + 64 * taps)
    assert back.compulsory.nbytes == 4 * (16 + 64)


def test_resampling_to_less_reads_what_it_needs(by_hand):
    found = cost("interpolate", (by_hand.spec(64, 64),), (by_hand.spec(8, 8),), {"mode": "nearest"})
    assert found.compulsory.nbytes == 4 * (64 + 64)


@pytest.mark.parametrize(
    ("kind", "attrs", "message"),
    [
        ("pool", {"function": "maxx"}, "unknown pooling 'maxx'; did you mean max"),
        ("interpolate", {"mode": "cubic2"}, "unknown interpolation 'cubic2'"),
    ],
)
def test_unknown_names_are_errors_not_zero(by_hand, kind, attrs, message):
    x = by_hand.spec(4, 4)
    with pytest.raises(UnknownNameError, match=message):
        cost(kind, (x, x), (x,), attrs)
