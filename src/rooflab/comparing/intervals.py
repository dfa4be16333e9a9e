"""Whether a difference is beyond the error bars: bars of one number, of predictions that share errors, of rows."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from rooflab.types.comparison import Measure, Value, Verdict

_EQUAL = 1e-9  # relative: what arithmetic in another order may differ by


class Bar(NamedTuple):
    """A difference and what it is in about four of five cases; `low` and `high` are None where not known."""

    change: float
    low: float | None
    high: float | None


def between(base: Value, other: Value) -> Bar:
    """The difference of two numbers whose errors have nothing to do with each other."""
    change = other.value - base.value
    if base.low is None or base.high is None or other.low is None or other.high is None:
        return Bar(change, None, None)
    down = math.hypot(other.value - other.low, base.high - base.value)
    up = math.hypot(other.high - other.value, base.value - base.low)
    return Bar(change, change - down, change + up)


def of_rows(base: Measure | None, other: Measure | None, shared: bool) -> Bar | None:
    """The difference in time of two operations, or of one that is in one side alone; None where a time is unknown.

    Args:
        base, other: the two.
        shared: whether both are predictions whose error is the same factor: the same mechanism of the same model
            on the same machine. A factor k on both times is a factor k on their difference: it changes its size,
            never its sign, and equal operations differ by nothing at all.
    """
    if base is None or other is None:
        one, sign = (other, 1.0) if base is None else (base, -1.0)
        if one is None or one.time_s is None:
            return None
        ends = [None if end is None else sign * end for end in (one.low_s, one.high_s)]
        low, high = ends if sign > 0 else ends[::-1]
        return Bar(sign * one.time_s, low, high)
    if base.time_s is None or other.time_s is None:
        return None
    change = other.time_s - base.time_s
    if not shared or not base.time_s or not other.time_s:
        one = Value(value=base.time_s, low=base.low_s, high=base.high_s)
        return between(one, Value(value=other.time_s, low=other.low_s, high=other.high_s))
    if abs(change) <= _EQUAL * base.time_s:
        return Bar(change, change, change)
    wide = other if change > 0 else base
    if wide.low_s is None or wide.high_s is None or not wide.time_s:
        return Bar(change, None, None)
    ends = sorted((change * wide.low_s / wide.time_s, change * wide.high_s / wide.time_s))
    return Bar(change, *ends)


def together(shared: Iterable[Bar], apart: Bar | None) -> Bar:
    """Differences of rows as one.

    Args:
        shared: those whose bars come of one model: what is wrong for one of a sort is for all, so bars add.
        apart: those of sides that err on their own, already added for each side.
    """
    parts = [*shared, *(() if apart is None else (apart,))]
    change = math.fsum(one.change for one in parts)
    if any(one.low is None or one.high is None for one in parts):
        return Bar(change, None, None)
    down = math.fsum(one.change - one.low for one in parts if one.low is not None)
    up = math.fsum(one.high - one.change for one in parts if one.high is not None)
    return Bar(change, change - down, change + up)


def verdict(bar: Bar, size: float) -> tuple[Verdict, str]:
    """What a difference of `bar` in numbers of that `size` says, and why."""
    if abs(bar.change) <= _EQUAL * abs(size):
        return "same", ""
    if bar.low is None or bar.high is None:
        return "unsure", "spread not known"
    if bar.low <= 0 <= bar.high:
        return "same", "no change beyond the error bars"
    return ("more" if bar.change > 0 else "less"), ""


def exact(base: float, other: float) -> Verdict:
    """The verdict on numbers that are exact."""
    if math.isclose(base, other, rel_tol=_EQUAL, abs_tol=0.0):
        return "same"
    return "more" if other > base else "less"
