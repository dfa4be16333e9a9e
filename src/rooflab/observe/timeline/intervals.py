"""Intervals of time joined to those in which at least one is open, and asked many times at once."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from rooflab.types.trace import Trace

Array = NDArray[np.float64]


class Cover:
    """The moments in which at least one interval is open, as intervals that do not touch.

    Attributes:
        start_s, end_s: of those, in order.
    """

    def __init__(self, start_s: Array, end_s: Array) -> None:
        order = np.argsort(start_s, kind="stable")
        start_s, end_s = start_s[order], np.maximum.accumulate(end_s[order]) if len(order) else end_s
        first = np.ones(len(start_s), bool)
        first[1:] = start_s[1:] > end_s[:-1]
        self.start_s = start_s[first]
        self.end_s = end_s[np.append(np.flatnonzero(first)[1:] - 1, len(end_s) - 1)] if len(end_s) else end_s
        self._before = np.concatenate(([0.0], np.cumsum(self.end_s - self.start_s)))

    def until(self, moments: Array) -> Array:
        """Seconds that are covered before each of `moments`."""
        at = np.searchsorted(self.start_s, moments, side="right") - 1
        if not len(self.start_s):
            return np.zeros(len(moments))
        inside = np.minimum(moments, self.end_s[at]) - self.start_s[at]
        return np.where(at >= 0, self._before[at] + inside, 0.0)

    def within(self, begin_s: Array, end_s: Array) -> Array:
        """Seconds that are covered between each of `begin_s` and the `end_s` with it."""
        return self.until(end_s) - self.until(begin_s)

    def at(self, moments: Array) -> NDArray[np.bool_]:
        """Whether each of `moments` is covered; ends count."""
        at = np.searchsorted(self.start_s, moments, side="right") - 1
        if not len(self.start_s):
            return np.zeros(len(moments), bool)
        return (at >= 0) & (moments <= self.end_s[at])


def union_s(start_s: Array, end_s: Array) -> float:
    """Seconds in which at least one of the intervals, sorted by start, is open."""
    if not len(start_s):
        return 0.0
    reached = np.maximum.accumulate(end_s)
    before = np.concatenate(([-np.inf], reached[:-1]))
    return float(np.maximum(0.0, end_s - np.maximum(before, start_s)).sum())


def named(trace: Trace, name: NDArray[np.int32], pattern: re.Pattern[str]) -> NDArray[np.bool_]:
    """Which of `name`, numbers in `trace.names`, fit `pattern`."""
    fitting = [number for number in np.unique(name).tolist() if pattern.search(trace.names[number])]
    return np.isin(name, fitting)
