"""What is shown of a profile's memory: the peak of each device, and what was live then."""

from __future__ import annotations

from rooflab.types.memory import MemoryUse
from rooflab.units import duration, percent, si
from rooflab.views.common.table import Table
from rooflab.views.common.text_bars import bars

_SHOWN = 15  # operators; the files hold more


def sentences(uses: tuple[MemoryUse, ...]) -> list[str]:
    """The peak of each device, and what its allocator kept back."""
    return [_sentence(one) for one in uses]


def _sentence(one: MemoryUse) -> str:
    line = f"Memory of {_name(one)}: {si(one.peak_bytes, 'B')} at most, at {duration(one.at_s)}"
    if one.curve_bytes:
        line += f"; over time {bars(one.curve_bytes)}"
    if one.reserved_bytes is not None and one.unused_bytes is not None:
        line += f"; {si(one.reserved_bytes, 'B')} reserved then, {si(one.unused_bytes, 'B')} of it not in use"
        if one.most_unused_bytes is not None and one.most_unused_bytes > one.unused_bytes:
            line += f" ({si(one.most_unused_bytes, 'B')} at another time)"
    return f"{line}."


def _name(one: MemoryUse) -> str:
    return "the host" if one.device is None else f"device {one.device}"


def tables(uses: tuple[MemoryUse, ...]) -> list[Table]:
    """For each device what was live at its peak, by the operator that took it."""
    return [_table(one) for one in uses if one.live or one.earlier_bytes]


def _table(one: MemoryUse) -> Table:
    rows = [
        (each.operator or "no operator", each.phase, str(each.blocks), each.nbytes) for each in one.live[:_SHOWN]
    ]
    if one.earlier_bytes > 0:
        rows.append(("taken before the recording", "", "", one.earlier_bytes))
    rest = one.live[_SHOWN:]
    note = f"{len(rest)} more operators, {si(sum(each.nbytes for each in rest), 'B')}." if rest else ""
    peak = one.peak_bytes
    lines = tuple(
        (*words, si(nbytes, "B"), percent(nbytes / peak, 1) if peak > 0 else "")
        for *words, nbytes in sorted(rows, key=lambda row: -row[3])
    )
    columns = ("operator", "phase", "blocks", "bytes", "of the peak")
    return Table(f"Live at the peak of {_name(one)}", columns, lines, words=2, note=note)
