"""Timed runs in stretches some time apart: what a neighbour of the host takes for a while spoils one, not all.

On a machine that others share, the last cache was seen to serve a fifth of what it does for a quarter of a second
at a time: all rounds of one stretch then agree on a time that is several times too long.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from rooflab.timing import Timing

PART = 1 / 3  # of the rounds of the first stretch, that each further one has
_ALIKE = 1.07  # bests of two stretches that differ by less: neither was disturbed, or both as all else is
_MOST, _PAUSE_S, _BUDGET_S = 6, 0.06, 0.6
_LONG_S = 0.1  # of a call, which outlasts what disturbs it


def steadied(first: Timing, again: Callable[[], Timing]) -> Timing:
    """The timing of several stretches together: as many as it takes until the two best are alike.

    Args:
        first: the stretch that was taken.
        again: takes one more.
    """
    stretches, until = [first], time.monotonic() + _BUDGET_S
    if first.best_s > _LONG_S:
        return first
    while True:
        stretches.append(again())
        best, second, *_ = sorted(each.best_s for each in stretches)
        if second <= _ALIKE * best or len(stretches) >= _MOST or time.monotonic() > until:
            return _together(stretches)
        time.sleep(_PAUSE_S)


def _together(stretches: list[Timing]) -> Timing:
    best = min(each.best_s for each in stretches)
    median = statistics.median(each.median_s for each in stretches)
    return Timing(
        best,
        median,
        (median - best) / median if median else 0.0,
        sum(each.runs for each in stretches),
        max(each.calls for each in stretches),
    )
