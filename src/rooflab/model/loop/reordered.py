"""A loop that the compiler runs in another order than the source: vectors along what the source steps over.

Misses are simulated in the source's order. Where an outer loop's trips become a vector's lanes, a line that the
source comes back to at each trip is loaded once: the compiled loop then makes fewer accesses than the source's
order misses, which nothing else does.
"""

from __future__ import annotations

from msgspec.structs import replace

from rooflab.types.loop import LoopReport
from rooflab.types.simulation import LevelCounts, Simulation

_MATHS = (" fp64", " fp32")
_ACCESSES = ("load", "load integer", "store", "store integer", "gather", "scatter", "load split", "store split")


def accesses(report: LoopReport) -> float:
    """Loads and stores of the compiled code, twice where they lie across two lines; 0 where that is not known.

    It is not where functions are called, but for those of the maths library: what they access is not counted here.
    """
    called = {kind for loop in report.core_loops for kind in loop.operations if kind.startswith("call ")}
    if any(not each.endswith(_MATHS) for each in called):
        return 0.0
    return sum(
        count
        for loop in report.core_loops
        for kind, count in loop.operations.items()
        if kind.removesuffix(" vector").removesuffix(" wide") in _ACCESSES
    )


def is_reordered(report: LoopReport) -> bool:
    """Whether more lines are missed in the source's order than the compiled loop accesses at all."""
    made = accesses(report)
    return 0 < made < (report.warm or report.simulation).levels[0].misses


def as_compiled(report: LoopReport) -> LoopReport:
    """`report` with at most one miss for each access of the compiled loop, whose lines then come in order."""
    if not is_reordered(report):
        return report
    made = accesses(report)

    def of(simulation: Simulation) -> Simulation:
        return replace(simulation, levels=tuple(_at_most(each, made) for each in simulation.levels))

    return replace(
        report,
        simulation=of(report.simulation),
        warm=None if report.warm is None else of(report.warm),
        strided={},
        jumps={},
        walks=(),
    )


def _at_most(level: LevelCounts, made: float) -> LevelCounts:
    share = min(1.0, made / level.misses) if level.misses else 1.0
    return replace(
        level,
        misses=round(share * level.misses),
        read_bytes=round(share * level.read_bytes),
        write_bytes=round(share * level.write_bytes),
    )
