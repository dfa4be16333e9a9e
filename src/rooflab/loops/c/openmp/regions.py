"""How the work of parallel regions divides among threads: counted with teams of several sizes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from rooflab.loops.c.openmp import team as teams
from rooflab.loops.c.source import CNames, CSource
from rooflab.types.loop import Region

THREADS = (2, 4, 8, 16, 32, 64)
_PATIENCE_S = 1.0  # for all sizes together, beyond the first


class Divided(NamedTuple):
    """The regions of a function, and the first run of a team, its accesses recorded; or why there are none."""

    regions: tuple[Region, ...] = ()
    first: teams.Ran | None = None
    why: str = ""


def of(team: teams.Team, source: CSource, first: int, room: int, limit_s: float) -> Divided:
    """The regions of one run.

    Args:
        team: the function.
        source: of it.
        first: threads of the run that is recorded, 2 or more.
        room: how many of its accesses are.
        limit_s: of each run.
    """
    begun = time.perf_counter()
    recorded = teams.run(team, first, room, limit_s)
    if isinstance(recorded, str):
        return Divided(why=f"by a team of {first} threads it {recorded}")
    taken = time.perf_counter() - begun
    runs = [recorded]
    for threads in THREADS:
        if threads == first:
            continue
        if time.perf_counter() - begun > taken + _PATIENCE_S:
            break
        found = teams.run(team, threads, 0, limit_s)
        if not isinstance(found, str):
            runs.append(found)
    runs.sort(key=lambda each: each.threads)
    names = CNames(source, {}, {})
    made = tuple(_region(number, place, runs, names) for number, place in enumerate(team.places))
    return Divided(tuple(each for each in made if each.entries), recorded)


def _region(number: int, place: teams.Place, runs: Sequence[teams.Ran], names: CNames) -> Region:
    rows = [each.regions[number].tolist() for each in runs]
    shares = [row[teams.LONGEST] / row[teams.WORK] if row[teams.WORK] else 1.0 for row in rows]
    lines = range(place.line, place.last_line + 1)
    return Region(
        line=place.line,
        last_line=place.last_line,
        variable=next((name for line in lines if (name := names.variable(line))), ""),
        entries=rows[0][teams.ENTRIES],
        trips=rows[0][teams.TRIPS],
        chunks=rows[0][teams.CHUNKS],
        threads=tuple(each.threads for each in runs),
        shares=tuple(shares),
    )
