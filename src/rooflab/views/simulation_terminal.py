"""A simulation of caches in the terminal: what every level did, then the same by array."""

from __future__ import annotations

from typing import TextIO

from rooflab import units
from rooflab.types.simulation import LevelCounts, MissCurve, ReferenceCounts, Simulation
from rooflab.views.tables import UNKNOWN, Table
from rooflab.views.terminal import console, drawn_table

_KINDS = ("compulsory", "capacity", "conflict")


def show(simulation: Simulation, file: TextIO | None = None) -> None:
    """Print `simulation`."""
    from rich.text import Text

    out = console(file)
    out.print(Text(simulation.name, style="bold"))
    out.print(Text(_summary(simulation)))
    for table in tables(simulation):
        out.print(Text(""))
        for part in drawn_table(table, out.width):
            out.print(part)
    for line in simulation.assumptions:
        out.print(Text(f"- {line}", style="dim"))


def show_curve(curve: MissCurve, file: TextIO | None = None) -> None:
    """Print the misses of `curve` at every power of two of capacity."""
    from rich.text import Text

    out = console(file)
    out.print(Text(f"{curve.name}: misses of a fully associative LRU cache", style="bold"))
    for part in drawn_table(curve_table(curve), out.width):
        out.print(part)


def curve_table(curve: MissCurve) -> Table:
    """Misses by capacity, from one line to the first power of two that holds everything."""
    rows, capacity = [], curve.line_bytes
    while True:
        misses, ratio = curve.misses(capacity), curve.miss_ratio(capacity)
        shown = UNKNOWN if ratio is None else f"{ratio * 100:.3f} %"
        rows.append((units.iec(capacity, 3), f"{misses:,}", shown, units.si(misses * curve.line_bytes, "B")))
        if misses <= curve.compulsory:
            break
        capacity *= 2
    return Table("", ("capacity", "misses", "miss ratio", "read"), tuple(rows), words=1)


def tables(simulation: Simulation) -> list[Table]:
    """A table of the levels, one of TLBs where there are any, and one for each level by array."""
    found = [_table("Levels", "level", simulation.levels)]
    if simulation.tlbs:
        found.append(_table("Translation look-aside buffers", "level", simulation.tlbs))
    if simulation.times:
        found.append(_times(simulation))
    for level in simulation.levels:
        if len(level.arrays) > 1:
            found.append(_table(f"{level.name} by array", "array", level.arrays))
    return found


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
    rate = UNKNOWN if row.hit_rate is None else f"{row.hit_rate * 100:.2f} %"
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
    told = [f"{simulation.accesses:,} accesses, simulated exactly"]
    if simulation.seconds:
        rate = units.si(simulation.accesses / simulation.seconds, "accesses/s")
        told.append(f"in {units.duration(simulation.seconds)} ({rate})")
    if not simulation.complete:
        told.append("stopped early: counts are of what ran")
    if simulation.dropped:
        told.append("lines dropped: " + ", ".join(f"{n:,} {why}" for why, n in simulation.dropped.items()))
    return "; ".join(told) + "."
