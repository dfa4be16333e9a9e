"""Which of several intervals hold others: calls around calls, loops around what they run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence


def holders(intervals: Sequence[tuple[float, float, Hashable]]) -> set[int]:
    """The numbers of those that hold another on the same thread.

    Args:
        intervals: start, duration and thread of each.
    """
    found: set[int] = set()
    by_thread: dict[Hashable, list[int]] = defaultdict(list)
    for number, (_, _, thread) in enumerate(intervals):
        by_thread[thread].append(number)
    for numbers in by_thread.values():
        numbers.sort(key=lambda number: (intervals[number][0], -intervals[number][1]))
        around: list[tuple[int, float, float]] = []
        for number in numbers:
            start, duration, _ = intervals[number]
            end = start + duration
            while around and around[-1][1] <= start:
                around.pop()
            # Clocks have steps: what has no length at another's edge is beside it.
            if around and duration > 0 and end <= around[-1][1] and around[-1][2] > duration:
                found.add(around[-1][0])
            around.append((number, end, duration))
    return found
