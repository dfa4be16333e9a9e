"""Timed runs in stretches some time apart: what a neighbour of the host takes for a while spoils one, not all.

On a machine that others share, the last cache was seen to serve a fifth of what it does for a quarter of a second
at a time: all rounds of one stretch then agree on a time that is several times too long. What the cache and the
memory give meanwhile may be looked at between stretches (`watched`): it then changes as it does for the runs.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from rooflab.timing import Timing

PART = 1 / 3  # of the rounds of the first stretch, that each further one has
_ALIKE = 1.07  # bests of two stretches that differ by less: neither was disturbed, or both as all else is
_MOST, _PAUSE_S, _BUDGET_S = 6, 0.06, 0.6
_LONG_S = 0.1  # of a call, which outlasts what disturbs it


class Watch(Protocol):
    """What looks at the machine between stretches of runs on so many threads; what it saw can be handed over."""

    def look(self, threads: int) -> None: ...  # noqa: D102

    def seen(self) -> Any: ...  # noqa: D102

    def see(self, seen: Any) -> None: ...  # noqa: D102


_WATCH: ContextVar[Watch | None] = ContextVar("_WATCH", default=None)


@contextmanager
def watched(watch: Watch | None) -> Iterator[None]:
    """Within it, `watch` looks at the machine between stretches of runs; None: nobody does."""
    token = _WATCH.set(watch)
    try:
        yield
    finally:
        _WATCH.reset(token)


def look(threads: int) -> float:
    """Let the watch look, where one is set; the seconds that it took."""
    watch, begun = _WATCH.get(), time.monotonic()
    if watch is not None:
        watch.look(threads)
    return time.monotonic() - begun


def seen() -> Any:
    """What the watch has seen, for another process that has it too; None without one."""
    watch = _WATCH.get()
    return None if watch is None else watch.seen()


def see(what: Any) -> None:
    """Give the watch what it has seen in another process."""
    watch = _WATCH.get()
    if watch is not None and what is not None:
        watch.see(what)


def steadied(first: Timing, again: Callable[[], Timing], threads: int = 1) -> Timing:
    """The timing of several stretches together: as many as it takes until the two best are alike.

    Args:
        first: the stretch that was taken.
        again: takes one more.
        threads: that they run on.
    """
    stretches, until = [first], time.monotonic() + _BUDGET_S
    looked_s = look(threads)
    if first.best_s > _LONG_S:
        return first
    while True:
        if len(stretches) > 1:
            time.sleep(max(0.0, _PAUSE_S - looked_s))
        stretches.append(again())
        best, second, *_ = sorted(each.best_s for each in stretches)
        if second <= _ALIKE * best or len(stretches) >= _MOST or time.monotonic() > until:
            return _together(stretches)
        looked_s = look(threads)


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
