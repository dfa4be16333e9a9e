"""How long it takes to start and join a team of threads, by their number."""

from __future__ import annotations

import msgspec
import numpy as np


class TeamTiming(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one loop over prange that computes nothing takes.

    Attributes:
        layer: numba's threading layer: "omp", "tbb" or "workqueue".
        threads, pinned_s: numbers of threads, each on a CPU of its own, and seconds of one start and join: the
            median of many, one after the other.
        free_s: of the most threads, left to the scheduler: the slowest of several stretches of calls; None where
            that was not tried.
    """

    layer: str
    threads: tuple[int, ...]
    pinned_s: tuple[float, ...]
    free_s: float | None = None

    def fork_s(self, threads: int, each_further_s: float) -> float:
        """Seconds of one start and join of so many threads.

        Args:
            threads: 1 starts nothing.
            each_further_s: that a thread more than were measured adds: a barrier hands one line to each.
        """
        if threads == 1:
            return 0.0
        known = float(np.interp(threads, self.threads, self.pinned_s))
        return known + max(0, threads - self.threads[-1]) * each_further_s
