"""What several cores move when they share the trips of loops over prange: caches of their own, kept coherent.

The run is recorded once, on one core, and its accesses dealt to the cores (`loops/parallel.py`). They are
simulated once and twice over, from empty caches: what the second time adds is a warm run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rooflab.cachesim.coherence import simulate as coherence
from rooflab.errors import RooflabError
from rooflab.loops import parallel
from rooflab.loops.read.understood import Understood
from rooflab.types.core_simulation import CoreSimulation
from rooflab.types.simulation import Cache

MOST_ACCESSES, MOST_SIMULATED = 1 << 24, 1 << 27  # of a run; of all runs together
_LIMIT_S = 20.0
_ONCE, _TWICE = 1, 2


class TeamTraffic(NamedTuple):
    """Bytes of one warm run on so many cores.

    Attributes:
        threads: each on a core of its own.
        memory_bytes: to and from the main memory.
        between_bytes: of lines that a core gets out of another's caches.
    """

    threads: int
    memory_bytes: int
    between_bytes: int


class Found(NamedTuple):
    """Traffic by ascending threads, and in a sentence why of some there is none; "" where there is of all."""

    traffic: tuple[TeamTraffic, ...]
    why: str


def of(
    loop: Understood, tree: ast.FunctionDef, threads: Iterable[int], caches: Sequence[Cache], sharers: int
) -> Found:
    """The traffic of `loop` on each number of threads above 1, as far as so many share the last cache.

    Args:
        loop: read and understood.
        tree: it, with loops over prange.
        threads: numbers of them.
        caches: private ones, then the one that all of them share.
        sharers: how many do.
    """
    wanted, found = sorted({each for each in threads if each > 1}), list[TeamTraffic]()
    counts = [each for each in wanted if each <= sharers]
    why = f"no more share one {caches[-1].name}" if len(counts) < len(wanted) else ""
    if len(caches) < 2:
        counts, why = [], "no cache is shared"
    try:
        if counts:
            ran, left = parallel.recorded(loop, tree, _LIMIT_S, MOST_ACCESSES), MOST_SIMULATED
            for each in counts:
                left -= (_ONCE + _TWICE) * len(ran.records)
                if left < 0:
                    why = "it takes long"
                    break
                once, twice = (
                    coherence.simulate(parallel.dealt(ran, loop.source.name, each, rounds), caches, races=False)
                    for rounds in (_ONCE, _TWICE)
                )
                found.append(TeamTraffic(each, _memory(twice) - _memory(once), _handed(twice) - _handed(once)))
    except RooflabError as error:
        why = str(error)
    if not wanted or not why:
        return Found(tuple(found), "")
    most = found[-1].threads if found else 1
    return Found(tuple(found), f"memory traffic of more than {most} cores is not simulated: {why}")


def _memory(run: CoreSimulation) -> int:
    return 0 if run.shared is None else run.shared.read_bytes + run.shared.write_bytes


def _handed(run: CoreSimulation) -> int:
    return sum(each.received for each in run.cores) * (run.line_bytes or 0)
