"""The ranks of one run side by side: where the time of each went, and which one the others waited for."""

from __future__ import annotations

import msgspec


class RankTime(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The time of one rank; its devices together.

    Attributes:
        rank: its number, as recorded, else by the order of files.
        name: of the profile.
        span_s, busy_s: from the first activity to the last, and when anything ran.
        compute_s, exposed_collective_s, exposed_copy_s, idle_s: as in `DeviceTime`.
        waited_s: in collectives, until the last rank had come; None where none could be matched.
        exposed_waited_s: of that, what nothing that computes ran beside.
        last: collectives that it came to last.
        awaited_s: that the others waited for it in those, on average.
        zero_s: what its trace calls 0, on the clock of the first rank; None where no collective tells.
    """

    rank: int
    name: str
    span_s: float
    busy_s: float
    compute_s: float
    exposed_collective_s: float
    exposed_copy_s: float
    idle_s: float
    waited_s: float | None = None
    exposed_waited_s: float | None = None
    last: int = 0
    awaited_s: float = 0.0
    zero_s: float | None = None


class Ranks(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ranks of one run.

    Attributes:
        ranks: by number.
        size: of the run, as recorded; there may be fewer files.
        collectives: that were matched across ranks.
        unmatched: kernels of collectives that could not be, all ranks together.
        steps: of the run; None where they are not known or differ.
        ends_apart_s: how much the ends of a collective differ between ranks once their clocks are aligned, median:
            the error of all waiting here; None without two collectives.
        warnings: why what ranks waited may not be believed.
        notes: what was assumed and left out.
    """

    ranks: tuple[RankTime, ...]
    size: int | None = None
    collectives: int = 0
    unmatched: int = 0
    steps: int | None = None
    ends_apart_s: float | None = None
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def straggler(self) -> RankTime | None:
        """The rank that the others waited for most; None where nobody waited."""
        most = max(self.ranks, key=lambda one: one.awaited_s)
        return most if most.awaited_s > 0 else None

    @property
    def imbalance(self) -> float | None:
        """How much longer than the mean the rank that computes most does so: 0 for a balanced run."""
        times = [one.compute_s for one in self.ranks]
        mean = sum(times) / len(times)
        return max(times) / mean - 1 if mean > 0 else None
