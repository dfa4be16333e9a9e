"""Cache lines that the threads of a loop over prange take from one another, by line of the source and array.

Only where it may matter: each thread has few trips of an entry, so that most of what it writes may lie on lines of
its neighbours. With many trips a thread, the edges of shares are all that is shared.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from rooflab.errors import RooflabError
from rooflab.loops import parallel, shared_lines
from rooflab.loops.read.understood import Understood
from rooflab.types.loop import Region
from rooflab.types.shared_lines import SharedLines
from rooflab.types.simulation import Simulation

_FEW_TRIPS = 64  # of a thread in an entry: from then on the edges of its share are a few lines of many
_MOST_ACCESSES, _LIMIT_S = 1 << 23, 10.0


def may_matter(regions: Sequence[Region], threads: int, accesses: int) -> bool:
    """Whether a thread has few trips of a loop, so that its lines may be its neighbours', of few accesses."""
    few = any(each.entries and each.trips <= _FEW_TRIPS * threads * each.entries for each in regions)
    return few and accesses <= _MOST_ACCESSES


def of(
    loop: Understood, tree: ast.FunctionDef, regions: Sequence[Region], threads: int, simulation: Simulation
) -> tuple[SharedLines, ...]:
    """The lines that are taken within loops over prange; empty where it cannot matter or not be recorded.

    Args:
        loop: read and understood.
        tree: it, with loops over prange.
        regions: those loops.
        threads: of the team.
        simulation: of a run on one core.
    """
    if threads < 2 or not may_matter(regions, threads, simulation.accesses):
        return ()
    line_bytes = simulation.levels[0].cache.line_bytes
    try:
        ran = parallel.recorded(loop, tree, _LIMIT_S, _MOST_ACCESSES)
    except RooflabError:
        # too long, or what no twin is made of: nothing is said of it
        return ()
    owners, phases = parallel.whose(ran, threads)
    chosen = (owners >= 0) & (phases % 2 == 1)
    recorded = shared_lines.Recorded(ran.records[chosen], ran.refs[chosen], owners[chosen], phases[chosen])

    def array_at(address: int) -> str:
        for each in ran.arrays:
            # a line that begins before it may hold its first bytes
            if each.base - line_bytes < address < each.end:
                return each.name
        return "memory of its own"

    return shared_lines.of(recorded, threads, line_bytes, ran.lines, array_at)
