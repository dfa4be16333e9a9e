"""The topology of a machine as a picture: who shares which cache, memory, links, the parts of a system."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, TextIO

from rooflab import units
from rooflab.errors import RooflabError
from rooflab.machines.topology import Segment, Shared, Topology, segments, topology
from rooflab.types.machine import Basis, Level, Machine, is_main_memory
from rooflab.views.common import page
from rooflab.views.common.console import console
from rooflab.views.common.drawing import Box, Drawing, Item, Line, Picture, Text, heading, picture, writers
from rooflab.views.common.files import Writer, json_text
from rooflab.views.common.table import UNKNOWN, capacity
from rooflab.views.common.theme import FONT_SIZE, shorten, text_width
from rooflab.views.machine import tables, topology_parts

WIDE, NARROW = 880, 350
_GAP, _LINE = 6, 15
_MOST_LANES = 512
_LEAST_COLUMN = 62  # pixels: "core 127" and "512 KiB" fit


class Cell(NamedTuple):
    """One box of a row: over the columns from `first` to before `stop`; `more` instances folded into it, or 0."""

    first: int
    stop: int
    more: int


class Row(NamedTuple):
    """A row of the picture: the units, or a level of the memory hierarchy.

    Attributes:
        name: what it is.
        facts: its numbers, in words.
        inside: what stands in each of its boxes, the longest form first.
        cells: its boxes.
        shared: of a level; None for the units.
        role: its colour.
    """

    name: str
    facts: tuple[str, ...]
    inside: tuple[str, ...]
    cells: tuple[Cell, ...]
    shared: Shared | None
    role: str


def grid(found: Topology, most: int) -> tuple[tuple[Segment, ...], tuple[Row, ...]]:
    """The columns and rows of a picture of `found` with at most `most` columns."""
    sizes = [each.units for each in found.shared if each.units is not None]
    sizes += [found.parts[0].count] if found.mixed else []
    columns = segments(found.units or 1, sizes, most)
    unit = found.unit or "unit"
    roles, caches = {}, 0
    for each in found.shared:
        roles[each.level.name] = "memory" if is_main_memory(each.level) else f"cache{caches % 4}"
        caches += 0 if is_main_memory(each.level) else 1
    rows = [Row(_unit_title(found), tuple(_unit_facts(found)), (), _cells(columns, 1), None, "ink")]
    for each in found.shared:
        over = each.units if each.units is not None else found.units or 1
        name, size = each.level.name, _size(each.level)
        inside = tuple(filter(None, dict.fromkeys((f"{name} {size}".strip(), size, name))))
        facts = tuple(_level_facts(each, found, unit))
        rows.append(Row(each.level.name, facts, inside, _cells(columns, over), each, roles[each.level.name]))
    return columns, tuple(rows)


def drawing(machine: Machine, *, width: int = WIDE) -> Drawing:
    """The picture of `machine`, `width` pixels wide."""
    found = topology(machine)
    if machine.kind == "system" and found.parts:
        from rooflab.views.machine.system import drawing as of_system

        return of_system(found, width)
    return _of_units(found, width)


def narrow(machine: Machine) -> Drawing:
    """The same for a phone's page."""
    return drawing(machine, width=NARROW)


def said(found: Topology) -> tuple[str, ...]:
    """What a reader of the picture must know: what is folded, what each level's note says, what is not stated."""
    notes = [f"{each.level.name}: {each.level.note}." for each in found.shared if each.level.note]
    notes += [f"{link.name}: {link.note}." for link in found.links if link.note]
    notes += [f"{part.name}: {part.note}." for part in found.parts if part.note]
    return (*notes, *found.unknown)


def words(machine: Machine, width: int = 80) -> list[str]:
    """The picture in characters, at most `width` of them on a line."""
    found = topology(machine)
    label = 10
    columns, rows = grid(found, max((width - label) // 9, 3))
    each = (width - label) // len(columns)
    lines = []
    for row in rows:
        line = (
            row.name[: label - 1].ljust(label) if row.shared else (found.unit or "unit")[: label - 1].ljust(label)
        )
        for cell in row.cells:
            room = each * (cell.stop - cell.first) - 3
            line += f"[{_fitting(_inside(row, cell, columns, found), room).center(room)}] "
        lines.append(line.rstrip())
    for link in (*found.links, *found.nodes):
        lines.append(
            "link".ljust(label) + f"{link.name} to {link.to}: {', '.join(topology_parts.link_facts(link))}"
        )
    for part in found.parts:
        lines.append(
            "part".ljust(label) + f"{part.count} × {part.name}" + (f" ({part.note})" if part.note else "")
        )
    return lines


def _fitting(texts: Sequence[str], room: int) -> str:
    return next((text for text in texts if len(text) <= room), texts[-1][: max(room, 0)] if texts else "")


def _inside(row: Row, cell: Cell, columns: Sequence[Segment], found: Topology) -> tuple[str, ...]:
    """What stands in a box, the longest form first."""
    if cell.more and found.mixed and columns[cell.first].first >= found.parts[0].count:
        kind = found.parts[1].name if len(found.parts) == 2 else "others"
        return (f"{cell.more:,} {kind}", f"+{cell.more:,}") if row.shared is None else ("not drawn", UNKNOWN)
    if cell.more:
        return (f"{cell.more:,} more", f"+{cell.more:,}")
    if row.shared is not None:
        return row.inside
    first = columns[cell.first].first
    unit = found.unit or "unit"
    return (f"{unit} {first}", f"{unit.rpartition(' ')[2]} {first}", str(first))


def _of_units(found: Topology, width: int) -> Drawing:
    room = topology_parts.Page.of(width)
    columns, rows = grid(found, max(int(room.inner // (_LEAST_COLUMN + _GAP)), 3))
    items: list[Item] = [heading(found.machine.name, width)]
    y = topology_parts.FRAME_TOP + topology_parts.PAD
    above: list[tuple[float, float]] = []  # centre and lower edge of the boxes of the row above
    for row in rows:
        height = room.label_height(len(row.facts), _height(row, found))
        y = room.label(items, row.name, row.facts, row.role, y, height)
        centres = []
        for cell in row.cells:
            each = room.inner / len(columns)
            x0, x1 = room.left + cell.first * each + _GAP / 2, room.left + cell.stop * each - _GAP / 2
            items += _cell(row, cell, columns, found, (x0, y, x1 - x0, height))
            if not room.stacked:
                items += [Line(((x, low), (x, y)), "muted", 1.0) for x, low in above if x0 <= x <= x1]
            centres.append(((x0 + x1) / 2, y + height))
        above = centres
        y += height + 14
    y += _parts(items, found, topology_parts.PAD, y, width - 2 * topology_parts.PAD)
    items.insert(0, topology_parts.frame(width, y))
    y = topology_parts.links(items, (*found.links, *found.nodes), width, y)
    return Drawing(f"Topology of {found.machine.name}", width, y + 2, tuple(items))


def _height(row: Row, found: Topology) -> float:
    return 62.0 if row.shared is None and found.lanes and found.lanes <= _MOST_LANES else 30.0


def _cell(
    row: Row, cell: Cell, columns: Sequence[Segment], found: Topology, at: tuple[float, float, float, float]
) -> list[Item]:
    x, y, width, height = at
    texts = _inside(row, cell, columns, found)
    text = next(
        (each for each in texts if text_width(each) <= width - 11), shorten(texts[-1], width - 4, FONT_SIZE)
    )
    unknown = row.shared is not None and row.shared.units is None and not is_main_memory(row.shared.level)
    tip = "; ".join((row.name, *row.facts))
    items: list[Item] = [
        Box(
            x,
            y,
            width,
            height,
            row.role,
            row.role,
            0.0 if cell.more else 0.13,
            dashed=bool(cell.more) or unknown,
            tip=tip,
        )
    ]
    middle = y + height / 2 + 4
    if (
        row.shared is None
        and not cell.more
        and found.lanes
        and found.lanes <= _MOST_LANES
        and found.lanes % 1 == 0
    ):
        items += _lanes(int(found.lanes), x, y + 20, width, height - 24)
        middle = y + 14
    colour = "muted" if cell.more else row.role
    items.append(Text(x + width / 2, middle, text, colour, anchor="middle"))
    return items


def _lanes(count: int, x: float, y: float, width: float, height: float) -> list[Item]:
    """A square for each lane of a unit."""
    across = next(n for n in (4, 8, 16, 32) if n * height >= 0.55 * (width - 12) * math.ceil(count / n) or n == 32)
    across = min(across, count)
    down = math.ceil(count / across)
    step = min((width - 12) / across, (height - 2) / down, 9.0)
    x0, y0 = x + (width - across * step) / 2, y + (height - down * step) / 2
    return [
        Box(
            x0 + n % across * step, y0 + n // across * step, step * 0.72, step * 0.72, "muted", None, 0.75, round=0
        )
        for n in range(count)
    ]


def _parts(items: list[Item], found: Topology, x: float, y: float, inner: float) -> float:
    """Kinds of component, a line each: how high they are."""
    for number, part in enumerate(found.parts):
        text = f"{part.count} × {part.name}" + (f": {part.note}" if part.note else "")
        items.append(Text(x, y + 6 + number * _LINE, shorten(text, inner, FONT_SIZE), "ink"))
    return len(found.parts) * _LINE + (6 if found.parts else 0)


def _unit_title(found: Topology) -> str:
    unit = found.unit or "unit"
    if found.units is None:
        return f"{unit}s (how many is not stated)"
    return f"{found.units:,} {unit}{'s' if found.units != 1 else ''}"


def _unit_facts(found: Topology) -> list[str]:
    facts = []
    if found.lanes:
        facts.append(f"{found.lanes:g} fp32 lanes each")
    if found.matrix:
        facts.append(f"{found.matrix[0]:,g} {found.matrix[1]} matrix FLOP a clock")
    clock = next((clock for clock in found.machine.clocks if clock.what in ("boost", "GPU", "base")), None)
    if clock is not None:
        facts.append(f"{clock.what} clock {units.si(clock.value, 'Hz')}")
    return facts


def _level_facts(each: Shared, found: Topology, unit: str) -> list[str]:
    level, facts = each.level, []
    size = _size(level)
    if size:
        many = each.instances is not None and each.instances > 1
        facts.append(f"{size} each, {each.instances:,} of them" if many else size)
    if not is_main_memory(level):
        facts.append(_who(each, found, unit))
    elif level.memory_type or level.bus_bits:
        facts.append(", ".join(filter(None, (level.memory_type, _bus(level)))))
    bases: tuple[tuple[Basis, str], ...] = (("attained", "attained"), ("theoretical", "in theory"))
    for basis, word in bases:
        rate = level.rate(scope="all", basis=basis)
        if rate is not None:
            facts.append(f"{units.si(rate.value, 'B/s')}, all, {word}")
    if level.latency_s is not None:
        facts.append(f"latency {units.duration(level.latency_s)}")
    return facts


def _bus(level: Level) -> str:
    """Width times data rate, such as 256 bits × 6.40 GT/s, where both are stated."""
    if level.bus_bits is None or level.transfers_per_s is None:
        return ""
    return f"{level.bus_bits:,} bits × {units.si(level.transfers_per_s, 'T/s')}"


def _who(each: Shared, found: Topology, unit: str) -> str:
    if each.units is None:
        return "who shares it is not stated"
    if found.mixed and each.units != found.units:
        return each.level.note or f"of the {found.parts[0].name}"
    if each.units == 1:
        return f"one for each {unit}"
    if found.units is not None and each.units >= found.units:
        if each.units > found.units:
            return f"shared by {each.units} {unit}s, {found.units} granted"
        return f"shared by all {found.units} {unit}s"
    return f"shared by {each.units:,} {unit}s"


def _size(level: Level) -> str:
    return "" if level.capacity_bytes is None else capacity(level.capacity_bytes)


def _cells(columns: Sequence[Segment], over: int) -> tuple[Cell, ...]:
    """The boxes of a row whose instances are each shared by `over` units."""
    cells: list[Cell] = []
    last = -1
    for number, column in enumerate(columns):
        first, end = column.first // over, (column.stop - 1) // over
        if first == end and first == last:
            cells[-1] = cells[-1]._replace(stop=number + 1)
        elif first == end and (column.units == 1 or over > 1):
            cells.append(Cell(number, number + 1, 0))
        else:
            cells.append(Cell(number, number + 1, end - first + 1))
        last = end if not cells[-1].more else -1
    return tuple(cells)


def pictures(machine: Machine) -> list[Picture]:
    """The picture on a page, where there is anything to draw."""
    found = topology(machine)
    if found.empty:
        return []
    return [picture("Topology", drawing(machine), narrow(machine), said(found))]


def html(machine: Machine) -> str:
    """A page of the picture alone."""
    return page.render(
        machine.name,
        "topology",
        facts=("Who shares what: caches, memory, links, from near to far.",),
        pictures=pictures(machine),
        tables=(tables.levels(machine), tables.links(machine), tables.parts(machine)),
        sources=machine.sources,
    )


def as_dict(machine: Machine) -> dict[str, object]:
    """What the picture shows, as plain data: unknown is None."""
    found = topology(machine)
    return {
        "type": "Topology",
        "schema": 1,
        "machine": machine.name,
        "unit": found.unit,
        "units": found.units,
        "fp32_lanes_of_a_unit": found.lanes,
        "levels": [
            {
                "name": each.level.name,
                "capacity_bytes": each.level.capacity_bytes,
                "shared_by": each.units,
                "instances": each.instances,
            }
            for each in found.shared
        ],
        "links": [
            {"name": link.name, "to": link.to, "each_way_bytes_per_s": link.each_way_bytes_per_s}
            for link in (*found.links, *found.nodes)
        ],
        "parts": [{"name": part.name, "count": part.count, "machine": part.machine} for part in found.parts],
        "unknown": list(found.unknown),
    }


def _drawn(machine: Machine, *, width: int = WIDE) -> Drawing:
    if topology(machine).empty:
        raise RooflabError(f"{machine.name}: states no units, memory or parts, so no topology can be drawn")
    return drawing(machine, width=width)


WRITERS: dict[str, Writer] = {
    ".json": lambda machine: json_text(as_dict(machine)).encode(),
    ".html": lambda machine: html(machine).encode(),
    **writers(_drawn),
}


def show(machine: Machine, file: TextIO | None = None) -> None:
    """Print the picture in characters."""
    from rich.text import Text as RichText

    out = console(file)
    out.print(RichText(machine.name, style="bold"))
    for line in words(machine, min(out.width, 120)):
        out.print(RichText(line, no_wrap=line.startswith("link") is False))
    found = topology(machine)
    out.print(RichText(""))
    for line in said(found):
        out.print(RichText(f"- {line}", style="dim"))
