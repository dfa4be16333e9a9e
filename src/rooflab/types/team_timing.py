"""How long it takes to start and join a team of threads, by their number."""

from __future__ import annotations

import msgspec

from rooflab.types.source import Source


class TeamTiming(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one loop over prange that computes nothing takes.

    Attributes:
        layer: numba's threading layer: "omp", "tbb" or "workqueue".
        threads, pinned_s: numbers of threads, each on a CPU of its own, and seconds of one start and join: the
            median of many, one after the other, at each of several moments, and of those the median.
        alone_s: the same of a team of one thread: what a loop over prange takes beside its work; None where that
            was not measured.
        free_s: of the most threads, left to the scheduler: the slowest of several stretches of calls; None where
            that was not tried.
        piece_s: what a thread takes to ask for one piece of a loop that is handed out, where all do so; None where
            that was not measured.
        source: of all of it; None where it was measured for use at once.
    """

    layer: str
    threads: tuple[int, ...]
    pinned_s: tuple[float, ...]
    alone_s: float | None = None
    free_s: float | None = None
    piece_s: float | None = None
    source: Source | None = None
