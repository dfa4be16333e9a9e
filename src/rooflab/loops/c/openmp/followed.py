"""A function of C run by OpenMP's teams, thread by thread; what of OpenMP is not followed, in sentences."""

from __future__ import annotations

from typing import NamedTuple

from rooflab.loops.c import flags, lower, rehearsal, source
from rooflab.loops.c.arguments import Bound
from rooflab.loops.c.build import Built
from rooflab.loops.c.debug_info import Subprogram
from rooflab.loops.c.openmp import regions, runtime, shared, team
from rooflab.types.loop import LoopReport, Region
from rooflab.types.shared_lines import SharedLines
from rooflab.types.team_timing import TeamTiming
from rooflab.units import percent

_RECORDED, SHORT_S = 1 << 22, 10.0  # accesses of a team that are recorded; seconds of a run


def left_out(given: flags.Flags, shown: source.CSource) -> list[str]:
    """A sentence where pragmas stand in what is compiled without them."""
    lines = [str(n) for n, text in shown.lines.items() if source.PRAGMA.match(text)]
    if not lines or given.openmp or flags.SIMD in given.given:
        return []
    where = f"line{'s' if len(lines) > 1 else ''} {', '.join(lines)}"
    return [
        f"OpenMP pragmas ({where}) are not followed: counted and timed in sequence, on one core, as it is compiled"
        ' without -fopenmp: --cflags "-O3 -march=native -fopenmp" has them followed'
    ]


class Shared(NamedTuple):
    """What teams of threads did: their regions, sentences, the cache lines that they take from one another."""

    regions: tuple[Region, ...] = ()
    said: tuple[str, ...] = ()
    lines: tuple[SharedLines, ...] = ()


def by_teams(
    built: Built,
    main: Subprogram,
    bound: Bound,
    read: source.CSource,
    threads: int | None,
    counted_s: float,
    line_bytes: int,
) -> Shared:
    """The function run by teams of OpenMP's, thread by thread."""
    said: list[str] = []
    lowered = lower.lower(built.team, main)
    if line := team.line_of(lowered.ir, "__kmpc_push_num_threads", main.file):
        said.append(f"line {line}: num_threads is not followed: teams of 1, 2, 4, … threads are run and predicted")
    if why := team.beyond(lowered.ir):
        return Shared(said=(*said, f"OpenMP's {why}: counted in sequence, and not predicted on several threads:"
            " expected parallel for, sections, single, critical, atomic; or leave -fopenmp out"))  # fmt: skip
    made = team.make(built, lowered, main, bound)
    if not made.places:
        return Shared(said=tuple(said))
    first = max(2, min(threads or (built.runtime.most if built.runtime else 2), team.MOST))
    limit_s = max(SHORT_S, 10 * counted_s)
    divided = regions.of(made, read, first, _RECORDED, limit_s)
    if divided.why:
        said.append(f"OpenMP: {divided.why}: not predicted on several threads")
    found: tuple[SharedLines, ...] = ()
    if divided.first is not None:
        found = shared.of(made, divided.first, line_bytes)
        if found and divided.first.recorded < 1:
            said.append(
                f"lines that threads take from one another: of the first {percent(divided.first.recorded)} of the"
                " accesses, and taken to go on so"
            )
    return Shared(divided.regions, tuple(said), found)


def team_timing(report: LoopReport) -> TeamTiming | None:
    """What starting and joining the teams of a report takes here; None where it has none."""
    found = runtime.find() if report.regions and report.run(threads=2) else None
    if found is None:
        return None
    most = max(each.threads for each in report.runs)
    return rehearsal.brought(lambda: runtime.measure(found, most), SHORT_S).result
