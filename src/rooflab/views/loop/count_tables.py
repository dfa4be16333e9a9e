"""The tables of a loop that only its page has room for: counts by level, array and access; times; the compiler."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rooflab.types.loop import LoopReport, Timed
from rooflab.types.simulation import LevelCounts, ReferenceCounts
from rooflab.units import percent, si
from rooflab.views.common.table import UNKNOWN, Table, lasting
from rooflab.views.loop.tables import short

KINDS = ("compulsory", "capacity", "conflict")


def every(report: LoopReport) -> tuple[Table, ...]:
    """All of them that have a row, in reading order."""
    every_table = (
        times(report),
        caches(report),
        arrays(report),
        references(report),
        lines(report),
        compiler(report),
    )
    return tuple(table for table in every_table if table.rows)


def times(report: LoopReport) -> Table:
    """Each way of running the loop: measured beside predicted."""
    rows = [_time(report, run) for run in report.runs]
    if not rows:
        rows = [
            (_who(each.threads), "warm", UNKNOWN, UNKNOWN, UNKNOWN, *_ends(report, each.threads), UNKNOWN)
            for each in report.predictions
        ]
    columns = ("run", "caches", "best", "median", "spread", "predicted", "all overlaps", "nothing does", "ratio")
    note = (
        f"Ratio: measured median ÷ predicted. A cold run is not predicted. {report.spread_by}: {report.parallel}."
    )
    if any(each.disturbed for each in report.runs):
        note += (
            " Where half of the runs took a quarter longer than the best, something else had a part of the cores:"
            " other programs, or guests of the host, which no load here shows. The ratio is of the best there, as"
            " predictions are of cores at rest."
        )
    return Table("Measured and predicted", columns, tuple(rows), words=2, note=note)


def _time(report: LoopReport, run: Timed) -> tuple[str, ...]:
    warm = run.cache == "warm"
    prediction = next((each for each in report.predictions if each.threads == run.threads and warm), None)
    ratio = UNKNOWN if prediction is None or not prediction.time_s else f"{run.time_s / prediction.time_s:.2f} ×"
    predicted = _ends(report, run.threads) if warm else (UNKNOWN,) * 3
    measured = (lasting(run.best_s), lasting(run.median_s), f"{percent(run.spread)} of {run.runs}")
    return (_who(run.threads), run.cache, *measured, *predicted, ratio)


def _ends(report: LoopReport, threads: int) -> tuple[str, str, str]:
    prediction = next((each for each in report.predictions if each.threads == threads), None)
    if prediction is None:
        return UNKNOWN, UNKNOWN, UNKNOWN
    return lasting(prediction.time_s), lasting(prediction.overlapped_s), lasting(prediction.serial_s)


def _who(threads: int) -> str:
    return "one core" if threads == 1 else f"{threads} threads"


def caches(report: LoopReport) -> Table:
    """What every cache did, from empty caches and in the steady state."""
    runs = [("empty", report.simulation.levels)]
    if report.warm is not None:
        runs.append(("warm", report.warm.levels))
    rows = [(level.name, start, level) for start, levels in runs for level in levels]
    rows.sort(key=lambda row: [each.name for each in report.simulation.levels].index(row[0]))
    note = (
        "Requests of the nearer side, write-backs among them. Empty: from empty caches. Warm: in the steady state."
    )
    return _counts("Caches", ("level", "begins"), rows, note)


def arrays(report: LoopReport) -> Table:
    """Hits and misses of each array that was accessed at every level, from empty caches."""
    levels = report.simulation.levels
    met = {each.name for each in levels[0].arrays if each.hits + each.misses}
    rows = [(each.name, level.name, each) for level in levels for each in level.arrays if each.name in met]
    names = list(dict.fromkeys(row[0] for row in rows))
    rows.sort(key=lambda row: names.index(row[0]))
    return _counts("By array, from empty caches", ("array", "level"), rows)


def references(report: LoopReport) -> Table:
    """Hits and misses of each access in the source at every level, from empty caches."""
    levels = report.simulation.levels
    if not levels[0].references:
        return Table("", (), ())
    columns = ["access", f"{levels[0].name} hits"]
    for level in levels:
        columns += [f"{level.name} misses", *(f"{level.name} {kind}" for kind in _kinds(level.references))]
    columns += [f"{level.name} write-backs" for level in levels]
    rows = []
    still = 0
    for number, first in enumerate(levels[0].references):
        if not first.hits + first.misses:
            still += 1
            continue
        row = [first.name, short(first.hits)]
        for level in levels:
            each = level.references[number]
            row += [short(each.misses), *(_count(getattr(each, kind)) for kind in _kinds(level.references))]
        row += [short(level.references[number].writebacks) for level in levels]
        rows.append(tuple(row))
    note = "Line: access; those that store end in =. A write-back counts with the access that last stored there."
    if still:
        note += f" Left out: {still} {'access' if still == 1 else 'accesses'} of code that did not run."
    return Table("By access, from empty caches", tuple(columns), tuple(rows), note=note)


def lines(report: LoopReport) -> Table:
    """Each kind of miss of every line of the source; without a row unless the simulation is classified."""
    columns = ("line", "level", "misses", *KINDS)
    return Table("Kinds of misses by line, from empty caches", columns, tuple(_kinds_of_lines(report)))


def kinds(report: LoopReport) -> Table:
    """Each kind of miss, of all accesses, by array, by line and by access; without a row unless classified."""
    levels = report.simulation.levels
    if not _kinds(levels):
        return Table("", (), ())
    rows = [("all", *_split(level.name, level)) for level in levels]
    names = [each.name for each in levels[0].arrays]
    rows += [(name, *_split(level.name, level.arrays[n])) for n, name in enumerate(names) for level in levels]
    rows += [(f"line {line}", *counts) for line, *counts in _kinds_of_lines(report)]
    rows += [
        (each.name, *_split(level.name, level.references[n]))
        for n, each in enumerate(levels[0].references)
        for level in levels
    ]
    note = (
        "Compulsory: lines never asked for before. Capacity: a fully associative LRU cache of that size would miss"
        " them too. Conflict: the rest, lines that fall into the same set."
    )
    columns = ("misses of", "level", "misses", *KINDS)
    return Table("Kinds of misses, from empty caches", columns, tuple(rows), words=2, note=note)


def _kinds_of_lines(report: LoopReport) -> Iterator[tuple[str, ...]]:
    for each in report.lines:
        if each.compulsory is not None and each.capacity is not None and each.conflict is not None:
            for name, misses in each.misses.items():
                counts = (misses, each.compulsory[name], each.capacity[name], each.conflict[name])
                yield (str(each.line), name, *map(short, counts))


def _split(level: str, counts: ReferenceCounts) -> tuple[str, ...]:
    return (level, short(counts.misses), *(_count(getattr(counts, kind)) for kind in KINDS))


def _kinds(rows: Sequence[ReferenceCounts]) -> tuple[str, ...]:
    return KINDS if any(each.compulsory is not None for each in rows) else ()


def _counts(
    title: str,
    names: tuple[str, str],
    rows: Sequence[tuple[str, str, LevelCounts | ReferenceCounts]],
    note: str = "",
) -> Table:
    kinds = _kinds([each for *_, each in rows])
    columns = (*names, "hits", "misses", "hit rate", *kinds, "evictions", "write-backs", "read", "written")
    cells = tuple(
        (
            first,
            second,
            short(each.hits),
            short(each.misses),
            UNKNOWN if each.hit_rate is None else percent(each.hit_rate, 2),
            *(_count(getattr(each, kind)) for kind in kinds),
            short(each.evictions),
            short(each.writebacks),
            si(each.read_bytes, "B"),
            si(each.write_bytes, "B"),
        )
        for first, second, each in rows
    )
    return Table(title, columns, cells, words=2, note=note)


def _count(number: int | None) -> str:
    return UNKNOWN if number is None else short(number)


def compiler(report: LoopReport) -> Table:
    """What the compiler made of the innermost loop."""
    code = report.code
    if code is None:
        return Table("", (), ())
    rows = [("vectorised", f"yes, {code.lanes} elements an instruction" if code.vectorised else "no")]
    if code.why_not is not None:
        rows.append(("why not", code.why_not))
    rows.append(("one pass", f"{code.loads} loads, {code.stores} stores, {code.flop} FLOP"))
    rows.append(("instructions", f"{code.instructions} in a pass, in the compiler's intermediate form"))
    if code.passes is not None:
        rows.append(("passes", f"{code.passes:,.0f}"))
    if code.gathers:
        rows.append(("gathers", f"{code.gathers} of scattered elements in a pass"))
    if code.chain:
        rows.append(("chain", f"{code.chain:,} operations that wait for one another"))
    if code.calls:
        rows.append(("calls", ", ".join(code.calls)))
    if code.read_bytes is not None and code.write_bytes is not None:
        left = f"{si(code.read_bytes, 'B')} loaded and {si(code.write_bytes, 'B')} stored in all"
        source = f"of {si(report.accessed_bytes, 'B')} that the source names; the rest stays in registers"
        rows.append(("accesses left", f"{left}, {source}"))
    return Table("What the compiler left of the innermost loop", ("", ""), tuple(rows), words=2)
