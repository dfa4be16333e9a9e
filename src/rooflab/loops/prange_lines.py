"""Cache lines that the threads of a loop over prange take from one another, by line of the source and array.

Only where it may matter: each thread has few trips of an entry, so that most of what it writes may lie on lines of
its neighbours. With many trips a thread, or where each trip writes rows of its own and those of a thread take many
lines, the edges of shares are all that is shared.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from rooflab.errors import RooflabError
from rooflab.loops import parallel, shared_lines
from rooflab.loops.read.understood import Understood
from rooflab.loops.read.value_types import indices, root
from rooflab.types.loop import Region
from rooflab.types.shared_lines import SharedLines
from rooflab.types.simulation import Simulation

_FEW_TRIPS = 64  # of a thread in an entry: from then on the edges of its share are a few lines of many
_MANY_BYTES = 8 * _FEW_TRIPS  # of rows of a thread's own: as many lines as so many trips write of doubles
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
    if all(_writes_own_rows(loop, tree, each, threads) for each in regions if each.entries):
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


def _writes_own_rows(loop: Understood, tree: ast.FunctionDef, region: Region, threads: int) -> bool:
    """Whether each trip of a loop over prange writes to rows of its own alone, and a thread's take many lines.

    Rows are what the first index picks of an array that lies row by row; that index is the loop's own variable.
    """
    nodes = (each for each in ast.walk(tree) if isinstance(each, ast.For) and each.lineno == region.line)
    node = next(nodes, None)
    if node is None or not isinstance(node.target, ast.Name):
        return False
    variable, arrays = node.target.id, loop.arguments.arrays()
    written = [
        each for part in node.body for each in ast.walk(part) if isinstance(getattr(each, "ctx", 0), ast.Store)
    ]
    for each in written:
        if isinstance(each, ast.Name):
            if each.id == variable:
                return False
            continue
        base = root(each) if isinstance(each, ast.Subscript) else None
        array = arrays.get(base.id) if isinstance(base, ast.Name) else None
        if array is None or not array.flags.c_contiguous or not isinstance(each, ast.Subscript):
            return False
        first = indices(each)[0]
        trips = region.trips / region.entries / threads
        if not isinstance(first, ast.Name) or first.id != variable or trips * array.strides[0] < _MANY_BYTES:
            return False
    return True
