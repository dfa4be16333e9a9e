"""What is shown of a simulation of caches: what every level did, then the same by array."""

from __future__ import annotations

from rooflab import units
from rooflab.types.simulation import LevelCounts, ReferenceCounts, Simulation
from rooflab.views.common.advice import said
from rooflab.views.common.lines import Lines
from rooflab.views.common.sheet import Sheet
from rooflab.views.common.table import UNKNOWN, Table

_KINDS = ("compulsory", "capacity", "conflict")


def sheet_of(simulation: Simulation) -> Sheet:
    """What is shown of `simulation`."""
    return Sheet(
        simulation.name,
        "caches",
        warnings=simulation.warnings,
        sentences=(_summary(simulation),),
        tables=tuple(tables(simulation)),
        notes=simulation.assumptions,
        advice=said(simulation.advice),
    )


def tables(simulation: Simulation) -> list[Table]:
    """A table of the levels, one of TLBs where there are any, and one for each level by array."""
    shown = [_table("Levels", "level", simulation.levels)]
    if simulation.tlbs:
        shown.append(_table("Translation look-aside buffers", "level", simulation.tlbs))
    if simulation.times:
        shown.append(_times(simulation))
    for level in simulation.levels:
        if len(level.arrays) > 1:
            shown.append(_table(f"{level.name} by array", "array", level.arrays))
    return shown


def _table(title: str, what: str, rows: tuple[ReferenceCounts, ...] | tuple[LevelCounts, ...]) -> Table:
    classified = any(row.compulsory is not None for row in rows)
    columns = (what, "hits", "misses", "hit rate", *(_KINDS if classified else ()))
    columns += ("evictions", "write-backs", "read", "written")
    return Table(title, columns, tuple(_cells(row, classified) for row in rows), words=1)


def _times(simulation: Simulation) -> Table:
    rows = [
        (
            each.name,
            units.si(each.nbytes, "B"),
            UNKNOWN if each.bytes_per_s is None else units.si(each.bytes_per_s, "B/s"),
            UNKNOWN if each.time_s is None else units.duration(each.time_s),
            UNKNOWN if each.latency_s is None else units.duration(each.latency_s),
            UNKNOWN if each.serial_s is None else units.duration(each.serial_s),
        )
        for each in simulation.times
    ]
    columns = ("level", "bytes", "bandwidth", "time", "latency", "one by one")
    note = (
        "Time: bytes over one core's bandwidth (all of the memory's where no core's is stated). "
        "One by one: if each request waited for the one before."
    )
    return Table("Time by level", columns, tuple(rows), words=1, note=note)


def _cells(row: ReferenceCounts, classified: bool) -> tuple[str, ...]:
    rate = UNKNOWN if row.hit_rate is None else units.percent(row.hit_rate, 2)
    kinds = [_count(getattr(row, kind)) for kind in _KINDS] if classified else []
    return (
        row.name,
        _count(row.hits),
        _count(row.misses),
        rate,
        *kinds,
        _count(row.evictions),
        _count(row.writebacks),
        units.si(row.read_bytes, "B"),
        units.si(row.write_bytes, "B"),
    )


def _count(number: int | None) -> str:
    return UNKNOWN if number is None else f"{number:,}"


def _summary(simulation: Simulation) -> str:
    sentences = [f"{simulation.accesses:,} accesses, simulated exactly"]
    if simulation.seconds:
        rate = units.si(simulation.accesses / simulation.seconds, "accesses/s")
        sentences.append(f"in {units.duration(simulation.seconds)} ({rate})")
    if not simulation.complete:
        sentences.append("stopped early: counts are of what ran")
    if simulation.dropped:
        sentences.append("lines dropped: " + ", ".join(f"{n:,} {why}" for why, n in simulation.dropped.items()))
    return "; ".join(sentences) + "."


def lines(simulation: Simulation) -> Lines:
    """A line for each level, then for each array at it, in plain numbers; unknown is empty."""
    fields = ("hits", "misses", *_KINDS, "evictions", "writebacks", "read_bytes", "write_bytes")
    rows = []
    for level in (*simulation.levels, *simulation.tlbs):
        for name, counts in (("", level), *((array.name, array) for array in level.arrays)):
            rows.append((level.name, name, *(getattr(counts, field) for field in fields)))
    return Lines(("level", "array", *fields), rows)
