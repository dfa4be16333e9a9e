"""How long a core waits for accesses whose place data decide: as many at once as its window and its buffers hold.

A core begins what it has room for, in order, and leaves in order: behind the oldest load that waits it begins no
more instructions than its window holds, and of what misses L1 no more than it has buffers for. An access that
takes its place from the one before begins when that is there. Such accesses are looked at one after the other,
each served by a level in the order of a die that was thrown: rare ones of the memory among many of a cache hold up
all that are behind them, and several of them within a window wait together.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

_ACCESSES = 3000  # that are looked at
_TURN = 0.618  # multiples of it, less whole numbers, are spread evenly


class Picked(NamedTuple):
    """Accesses that miss L1 at places that data decide.

    Attributes:
        served: (share of them, cycles beyond those of L1), by what serves them.
        chained: the share that takes its place from the access before.
        cycles: of the core's own from one to the next.
        instructions: from one to the next.
    """

    served: tuple[tuple[float, float], ...]
    chained: float
    cycles: float
    instructions: float


def waited(picked: Picked, window: float, buffers: int) -> float:
    """Cycles beyond the core's own of each access, in the mean.

    Args:
        picked: the accesses.
        window: instructions begun and not finished, at most.
        buffers: misses under way, at most.
    """
    later = drawn(picked.served, _ACCESSES)
    within = max(1.0, window / max(picked.instructions, 1e-9))
    entered = retired = came = 0.0
    left: list[float] = []
    under_way: list[float] = []
    for number, more in enumerate(later):
        entered += picked.cycles
        behind = number - int(within + number * _TURN % 1.0)
        if behind >= 0:
            entered = max(entered, left[behind])
        begins = max(entered, came) if (number + 1) * picked.chained % 1.0 < picked.chained else entered
        if len(under_way) >= buffers:
            begins = max(begins, heapq.heappop(under_way))
        came = begins + more
        heapq.heappush(under_way, came)
        retired = max(retired, came)
        left.append(retired)
    half = len(later) // 2
    return max(0.0, (left[-1] - left[half]) / (len(later) - 1 - half) - picked.cycles)


def drawn(served: Sequence[tuple[float, float]], count: int) -> list[float]:
    """Cycles of `count` accesses in the shares of `served`, in an order without order; 0 of the rest."""
    ends = np.cumsum([share for share, _ in served])
    at = np.searchsorted(ends, (np.arange(count) + 0.5) / count)
    cycles = np.array([each for _, each in served] + [0.0])[at]
    return [float(each) for each in np.random.default_rng(0).permutation(cycles)]
