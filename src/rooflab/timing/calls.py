"""A callable called many times in rounds of a calibrated length: best, median and spread of a call."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rooflab.errors import RooflabError

CALIBRATED_RUN_S = 0.02
_ALIKE = 1.02  # rounds that differ by less took equally long
_SHORTEST = 0.1  # of the rounds, that must be alike before they end


def check_time_limit(time_limit_s: object) -> None:
    """Return where `time_limit_s` is a time, or None for no limit.

    Raises:
        RooflabError: anything else.
    """
    number = isinstance(time_limit_s, (int, float)) and not isinstance(time_limit_s, bool) and time_limit_s > 0
    if time_limit_s is not None and not number:
        raise RooflabError(f"time_limit_s is {time_limit_s!r}, expected a positive number of seconds")


@dataclass(frozen=True)
class Series:
    """Several runs of one measurement, larger is better.

    Attributes:
        values: in the order they were taken.
    """

    values: tuple[float, ...]

    @property
    def best(self) -> float:
        """The largest: what nothing disturbed."""
        return max(self.values)

    @property
    def median(self) -> float:
        """The median run."""
        return statistics.median(self.values)

    @property
    def spread(self) -> float:
        """(best − median) / best: how far below the best a typical run fell."""
        return (self.best - self.median) / self.best if self.best else 0.0

    @property
    def runs(self) -> int:
        """How many runs."""
        return len(self.values)


@dataclass(frozen=True)
class Timing:
    """Seconds per call of something that was called many times.

    Attributes:
        best_s, median_s: over the rounds.
        spread: (median − best) / median.
        runs: rounds; `calls` calls each.
    """

    best_s: float
    median_s: float
    spread: float
    runs: int
    calls: int


def time_call(
    call: Callable[[], object],
    *,
    rounds: int = 5,
    run_s: float = CALIBRATED_RUN_S,
    more: int = 0,
    clock: Callable[[], float] = time.perf_counter,
) -> Timing:
    """Seconds per call of `call`, with the cost of a loop over an empty Python function taken off.

    So what a lambda around the thing to time costs is taken off too: give one, or its cost is missed.

    One call warms up; then the number of calls per round is doubled until a round takes `run_s`.

    Args:
        rounds: timed rounds, at least 1.
        run_s: shortest round, in seconds.
        more: rounds that may follow until a tenth of them, and two at least, come near the best: that one was no
            lucky moment.
        clock: returns seconds; an argument so that tests can decide what time it is.
    """
    call()
    calls = 1
    while (elapsed := _elapsed(call, calls, clock)) < run_s:
        calls *= 2 if elapsed <= 0 else max(2, min(16, round(1.1 * run_s / elapsed)))
    empty = min(_elapsed(_nothing, calls, clock) for _ in range(3)) / calls
    each = [max(0.0, _elapsed(call, calls, clock) / calls - empty) for _ in range(rounds)]
    while len(each) < rounds + more and not _confirmed(each):
        each.append(max(0.0, _elapsed(call, calls, clock) / calls - empty))
    best, median = min(each), statistics.median(each)
    return Timing(best, median, (median - best) / median if median else 0.0, len(each), calls)


def time_once(call: Callable[[], object], calls: int, clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds per call of `calls` calls one after the other, the cost of calling an empty function taken off."""
    elapsed = _elapsed(call, calls, clock) / calls
    return max(0.0, elapsed - min(_elapsed(_nothing, calls, clock) for _ in range(3)) / calls)


def _confirmed(each: Sequence[float]) -> bool:
    """Whether the shortest tenth of the rounds, and two at least, are alike."""
    ordered = sorted(each)
    last = max(2, math.ceil(len(ordered) * _SHORTEST)) - 1
    return last < len(ordered) and ordered[last] <= _ALIKE * ordered[0]


def best_of(series: Sequence[Series]) -> Series:
    """The series with the largest best value."""
    return max(series, key=lambda one: one.best)


def _elapsed(call: Callable[[], object], calls: int, clock: Callable[[], float]) -> float:
    start = clock()
    for _ in range(calls):
        call()
    return clock() - start


def _nothing() -> None:
    """What an empty timing loop calls."""
