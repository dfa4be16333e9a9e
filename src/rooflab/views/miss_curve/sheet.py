"""What is shown of a miss-ratio curve: the misses at every power of two of capacity."""

from __future__ import annotations

from rooflab import units
from rooflab.types.simulation import MissCurve
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
        shown = UNKNOWN if ratio is None else f"{ratio * 100:.3f} %"
        rows.append((units.iec(capacity, 3), f"{misses:,}", shown, units.si(misses * curve.line_bytes, "B")))
        if misses <= curve.compulsory:
            break
        capacity *= 2
    return Table("", ("capacity", "misses", "miss ratio", "read"), tuple(rows), words=1)
