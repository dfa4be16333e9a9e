"""What is shown of a miss-ratio curve: the misses at every power of two of capacity."""

from __future__ import annotations

from rooflab import units
from rooflab.types.simulation import MissCurve
from rooflab.views.common.lines import Lines
from rooflab.views.common.sheet import Sheet
from rooflab.views.common.table import UNKNOWN, Table


def sheet_of(curve: MissCurve) -> Sheet:
    """What is shown of `curve`."""
    name = f"{curve.name}: misses of a fully associative LRU cache"
    return Sheet(name, "miss-ratio curve", tables=(table(curve),))


def table(curve: MissCurve) -> Table:
    """Misses by capacity, from one line to the first power of two that holds everything."""
    rows, capacity = [], curve.line_bytes
    while True:
        misses, ratio = curve.misses(capacity), curve.miss_ratio(capacity)
        shown = UNKNOWN if ratio is None else units.percent(ratio, 3)
        rows.append((units.iec(capacity, 3), f"{misses:,}", shown, units.si(misses * curve.line_bytes, "B")))
        if misses <= curve.compulsory:
            break
        capacity *= 2
    return Table("By capacity", ("capacity", "misses", "miss ratio", "read"), tuple(rows), words=1)


def lines(curve: MissCurve) -> Lines:
    """A line for each capacity at which the misses change, ascending; the least of all is one line."""
    held = sorted({1, *(distance + 1 for distance in curve.distances)})
    rows = []
    for size in (count * curve.line_bytes for count in held):
        misses = curve.misses(size)
        rows.append((size, misses, curve.miss_ratio(size), misses * curve.line_bytes))
    return Lines(("capacity_bytes", "misses", "miss_ratio", "read_bytes"), rows)
