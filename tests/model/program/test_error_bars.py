"""Error bars: which way a slower host or slower kernels move the time, and by how much."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooflab.model.program import error_bars
from rooflab.model.program.error_bars import Parts

SLOWER = math.exp(1.28 * 0.3)


def parts(
    host_s: list[float], device_s: list[float], host: float = 0.3, device: float = 0.0, cpu: bool = False
) -> Parts:
    return Parts(np.array(host_s), np.array(device_s), host, np.full(len(host_s), device), not cpu)


def of_program(made: Parts) -> tuple[float, float]:
    bars = error_bars.bars_of_program(made)
    return float(bars.low_s[0]), float(bars.high_s[0])


def test_bars_hold_four_of_five() -> None:
    """1.28 standard deviations of a normal distribution each way: 80 %."""
    assert math.erf(error_bars.BAR_SIGMAS / math.sqrt(2)) == pytest.approx(0.8, abs=0.002)


def test_where_the_host_binds_its_spread_is_the_program_s() -> None:
    """A hundred calls of 10 µs with kernels of 1 µs: 1000 µs of host, then the last kernel."""
    low, high = of_program(parts([10.0] * 100, [1.0] * 100))
    assert low == pytest.approx(1000 / SLOWER + 1)
    assert high == pytest.approx(1000 * SLOWER + 1)


def test_where_kernels_bind_a_faster_host_gains_nothing() -> None:
    """Kernels of 12 µs: 10 + 1200 µs. A host that takes 14.68 µs a call binds; a faster one only starts sooner."""
    low, high = of_program(parts([10.0] * 100, [12.0] * 100))
    assert low == pytest.approx(10 / SLOWER + 1200)
    assert high == pytest.approx(1000 * SLOWER + 12)
    assert high / 1210 - 1 > 10 * (1 - low / 1210)


def test_errors_of_host_and_kernels_are_independent() -> None:
    """A CPU's calls and kernels add. ln of (5 + 5 x) / 10 for each alone, and the root of their squares."""
    low, high = of_program(parts([5.0], [5.0], host=0.3, device=0.3, cpu=True))
    up, down = math.log((1 + SLOWER) / 2), math.log((1 + 1 / SLOWER) / 2)
    assert high == pytest.approx(10 * math.exp(math.sqrt(2) * up))
    assert low == pytest.approx(10 * math.exp(math.sqrt(2) * down))


def test_without_a_host_the_kernels_own_spread_is_left() -> None:
    """A graph: 0.2 of all kernels, wrong together, so that 1.28 × 0.2 is the program's too."""
    made = parts([0.0] * 3, [1.0, 2.0, 4.0], host=0.5, device=0.2)
    low, high = of_program(made)
    assert (low, high) == (pytest.approx(7 * math.exp(-0.256)), pytest.approx(7 * math.exp(0.256)))
    rows = error_bars.bars_of_rows(made)
    assert rows.high_s == pytest.approx(made.device_s * math.exp(0.256))


_S = st.floats(0, 1e-3)


@given(st.lists(st.tuples(_S, _S), min_size=1, max_size=20), st.floats(0, 0.5), st.floats(0, 0.5), st.booleans())
def test_bars_enclose_what_is_predicted(
    calls: list[tuple[float, float]], host: float, device: float, cpu: bool
) -> None:
    """Of every row and of the program; wider where the host is less known."""
    made = parts([one for one, _ in calls], [one for _, one in calls], host, device, cpu)
    still = made._replace(host_spread=0.0, device_spreads=np.zeros(len(calls)))
    for bars_of in (error_bars.bars_of_rows, error_bars.bars_of_program):
        low, high = bars_of(made)
        best = bars_of(still).low_s
        assert np.all(low <= best * (1 + 1e-12))
        assert np.all(best <= high * (1 + 1e-12))
    low, high = of_program(made)
    wider_low, wider_high = of_program(made._replace(host_spread=host + 0.2))
    assert wider_low <= low * (1 + 1e-12)
    assert wider_high >= high * (1 - 1e-12)
