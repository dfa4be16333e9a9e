"""What crosses to the memory where the last cache keeps a part of data that are larger than it.

A simulated cache has one capacity and keeps by last use: of arrays that are gone round in turn, and larger, it
keeps nothing, and of smaller ones all, however long it takes to come round. What the real one keeps of so many
bytes, and what neighbours put into it meanwhile, was measured (`machines/served_share.py`). All bytes that the
loop touches lie between two uses of one, for as long as the run takes to fetch them once.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from rooflab.machines import served_share
from rooflab.model.loop import crossings
from rooflab.types.loop import LoopReport
from rooflab.types.machine import Machine, Scope
from rooflab.types.simulation import LevelCounts, Simulation

_SAME = 0.05  # of a level's capacity, within which the simulated one is that


class Kept(NamedTuple):
    """Shares that a real last cache serves.

    Attributes:
        missed: of accesses in order that miss the simulated one.
        scattered: of those that miss it, and whose place data decide: any byte is as likely to be kept.
        hit: of accesses in order that hit the simulated one.
        again: of those that hit it, and whose place data decide: their few lines come round often.
    """

    missed: float
    scattered: float
    hit: float
    again: float = 1.0

    @property
    def is_all(self) -> bool:
        """Whether all that the simulated cache has room for is found in the real one too."""
        return not self.missed and self.hit == self.again == 1.0


AS_SIMULATED = Kept(0.0, 0.0, 1.0)


def of_run(
    report: LoopReport, machine: Machine, time_s: float = 0.0, threads: int = 1, *, crowd: float = 1.0
) -> Kept:
    """What the last cache of `machine` was measured to serve of what `report` asks of it.

    Args:
        report: of a loop, with the bytes that it touches.
        machine: a CPU; as simulated where no sweep of it shows more.
        time_s: how long a run takes.
        threads: that share the cache, each with a part of the bytes.
        crowd: how many times as many bytes come between as when the machine was measured.
    """
    scope: Scope = "core" if threads == 1 else "all"
    served = served_share.of_last_cache(machine, scope) or served_share.of_last_cache(machine)
    rows = served_share.of_rows(machine, scope) or served_share.of_rows(machine) or served
    levels = (report.warm or report.simulation).levels
    last = levels[-1]
    level = crossings.level(machine, last.name)
    if served is None or rows is None or level is None or last.name != served.level or not report.footprint_bytes:
        return AS_SIMULATED
    capacity, touched = float(last.cache.capacity_bytes), float(report.footprint_bytes)
    if abs(capacity / (level.capacity_bytes or 1.0) - 1) > _SAME or not last.requests:
        return AS_SIMULATED
    asked = (last.hits + last.misses) * last.cache.line_bytes
    # of data that are larger, what hits comes round sooner: after half of the cache, in the mean
    within = touched if touched <= capacity else capacity / 2

    def share(nbytes: float) -> float:
        round_s = time_s * min(1.0, nbytes / asked)
        return served_share.between(served, rows, report.side_by_side, crowd * nbytes, crowd * round_s)

    hit = share(within)
    often = min(within, asked / _rounds(report))
    again = max(hit, served.of(crowd * often, crowd * time_s * min(1.0, often / asked)))
    if touched <= capacity:
        # lines at picked places that the simulated cache had no room for in their sets: the measured share holds
        return Kept(0.0, again, hit, again)
    missed = share(touched)
    # the simulated cache hits a part of these: what is kept is counted of all
    scattered = max(0.0, 1 - (1 - missed) / (1 - capacity / touched))
    return Kept(missed, scattered, hit, again)


def _rounds(report: LoopReport) -> float:
    """How often a run asks the last cache for each line that data pick, in the mean; once where it does not."""
    *nearer, last = (report.warm or report.simulation).levels
    if not nearer or not report.scattered_bytes:
        return 1.0
    asked = _picked(report, nearer[-1].name)
    return max(1.0, asked * last.cache.line_bytes / report.scattered_bytes)


def _picked(report: LoopReport, level: str) -> int:
    """Misses in a level of what data pick."""
    return report.gathered.get(level, 0) + report.chased.get(level, 0)


def expected(report: LoopReport, kept: Kept) -> LoopReport:
    """`report` with the misses of its last cache that the real one is expected to have."""
    if kept == AS_SIMULATED:
        return report

    def of(simulation: Simulation) -> Simulation:
        *nearer, last = simulation.levels
        near = nearer[-1] if nearer else None
        return replace(simulation, levels=(*nearer, _of_level(report, near, last, kept)))

    return replace(
        report,
        simulation=of(report.simulation),
        warm=None if report.warm is None else of(report.warm),
        strided=_of_misses(report, report.strided, 1 - kept.missed, 1 - kept.hit),
        jumps=_of_misses(report, report.jumps, 1 - kept.missed, 1 - kept.hit),
        gathered=_of_misses(report, report.gathered, 1 - kept.scattered, 1 - kept.again),
        chased=_of_misses(report, report.chased, 1 - kept.scattered, 1 - kept.again),
    )


def _of_level(report: LoopReport, near: LevelCounts | None, last: LevelCounts, kept: Kept) -> LevelCounts:
    picked = _picked(report, last.name)
    share = min(1.0, picked / last.misses) if last.misses else 0.0
    left = (1 - share) * (1 - kept.missed) + share * (1 - kept.scattered)
    found = max(0, _picked(report, near.name) - picked) if near else 0
    share = min(1.0, found / last.hits) if last.hits else 0.0
    lost = (1 - share) * (1 - kept.hit) + share * (1 - kept.again)
    asked = near or last
    read, written = (
        left * own + lost * max(0, every - own)
        for own, every in ((last.read_bytes, asked.read_bytes), (last.write_bytes, asked.write_bytes))
    )
    misses = left * last.misses + lost * last.hits
    return replace(last, misses=round(misses), read_bytes=round(read), write_bytes=round(written))


def _of_misses(report: LoopReport, misses: dict[str, int], left: float, lost: float) -> dict[str, int]:
    *nearer, last = (each.name for each in report.simulation.levels)
    if last not in misses:
        return misses
    own = misses[last]
    asked = misses.get(nearer[-1], own) if nearer else own
    return {**misses, last: round(left * own + lost * max(0, asked - own))}
