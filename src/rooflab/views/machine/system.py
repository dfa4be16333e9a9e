"""The topology of a system of several processors: its GPUs, the switches and adapters around them, its host."""

from __future__ import annotations

from typing import NamedTuple

from rooflab import units
from rooflab.errors import RooflabError
from rooflab.machines.topology import Topology
from rooflab.types.machine import Link, Machine, Part, is_main_memory
from rooflab.views.common.drawing import Box, Drawing, Item, Line, Text, heading
from rooflab.views.common.table import capacity
from rooflab.views.common.theme import shorten, text_width
from rooflab.views.machine import topology_parts as parts_of

_BOX = 40.0


class Rank(NamedTuple):
    """A row of components.

    Attributes:
        name, facts: what they are called, what is known of them.
        link: what joins them to the row above.
    """

    name: str
    facts: tuple[str, ...]
    parts: tuple[Part, ...]
    link: Link | None

    @property
    def boxes(self) -> int:
        """How many boxes stand in it."""
        return sum(part.count for part in self.parts)


def drawing(found: Topology, width: int) -> Drawing:
    """The parts of a system in rows, joined by its links: a bus, since nothing says which hangs on which."""
    page = parts_of.Page.of(width)
    items: list[Item] = [heading(found.machine.name, width)]
    y = parts_of.FRAME_TOP + parts_of.PAD
    above: list[tuple[float, float]] = []
    for rank in ranks(found):
        if rank.link is not None and above:
            y = _bus(items, page, rank, above, y)
        y, above = _rank(items, page, rank, y)
        y += 14
    items.insert(0, parts_of.frame(width, y))
    outside = tuple(link for link in found.links if link not in {rank.link for rank in ranks(found)})
    y = parts_of.links(items, outside, width, y)
    return Drawing(f"Topology of {found.machine.name}", width, y + 2, tuple(items))


def ranks(found: Topology) -> tuple[Rank, ...]:
    """The rows of boxes: switches, processors, host, then disks and adapters, whose way to it nothing states."""

    def named(*names: str) -> tuple[Part, ...]:
        return tuple(part for part in found.parts if any(name in part.name.lower() for name in names))

    switches, disks, adapters = named("switch"), named("storage", "disk"), named("network", "adapter")
    processors = tuple(part for part in found.parts if part.machine is not None or part.name == found.unit)
    known = (*switches, *disks, *adapters, *processors)
    host = tuple(part for part in found.parts if part not in known)
    to_peer = next((link for link in found.links if link.to == found.unit), None) if switches else None
    to_host = next((link for link in found.links if link.to == "host"), None) if host else None
    rows = ((switches, None), (processors, to_peer), (host, to_host), (disks, None), (adapters, None))
    return tuple(_ranked(parts, link) for parts, link in rows if parts)


def _ranked(parts: tuple[Part, ...], link: Link | None) -> Rank:
    if len(parts) == 1:
        (part,) = parts
        return Rank(_counted(part), tuple(_facts(part)), parts, link)
    facts = [_counted(part) for part in parts]
    said = [", ".join((fact, *_facts(part))) for fact, part in zip(facts, parts, strict=True)]
    return Rank("host", tuple(said), parts, link)


def _counted(part: Part) -> str:
    """How many there are: 8 GPUs, 4 NVSwitches, 8 × NVMe storage."""
    if part.count == 1:
        return part.name
    if part.name.endswith(("storage", "memory", "s")):
        return f"{part.count} × {part.name}"
    return f"{part.count} {part.name}{'es' if part.name.endswith('ch') else 's'}"


def _facts(part: Part) -> list[str]:
    """What is known of a part: its machine's memory, its own note."""
    facts, machine = [], _machine(part)
    if machine is not None:
        facts.append(machine.name)
        memory = next((level for level in machine.levels if is_main_memory(level)), None)
        if memory is not None and memory.capacity_bytes is not None:
            rate = memory.rate(basis="theoretical")
            speed = "" if rate is None else f", {units.si(rate.value, 'B/s')}"
            facts.append(f"{memory.name} {capacity(memory.capacity_bytes)}{speed} each")
    return [*facts, *([part.note] if part.note else [])]


def _machine(part: Part) -> Machine | None:
    from rooflab.machines import catalog

    if part.machine is None:
        return None
    try:
        return catalog.named(part.machine)
    except RooflabError:
        return None  # a file of one's own may name a part that this catalogue does not have


def _rank(items: list[Item], page: parts_of.Page, rank: Rank, y: float) -> tuple[float, list[tuple[float, float]]]:
    """The boxes of a row: where it ends, and each box's centre and lower edge."""
    role = (
        "cache1" if rank.parts[0].machine else "cache2" if rank.link is None and "witch" in rank.name else "muted"
    )
    facts = page.wrapped(rank.facts)
    height = page.label_height(len(facts), _BOX)
    y = page.label(items, rank.name, facts, "ink", y, height)
    each, number, centres = page.inner / rank.boxes, 0, []
    for part in rank.parts:
        for n in range(part.count):
            x = page.left + number * each
            items.append(
                Box(x + 2, y, each - 4, height, role, role, 0.13, tip="; ".join((part.name, *_facts(part))))
            )
            texts = (f"{part.name} {n}" if part.count > 1 else part.name, str(n) if part.count > 1 else "")
            text = next((text for text in texts if text_width(text) <= each - 8), "")
            if not text and part.count == 1:
                text = shorten(part.name, each - 6, 11.5)
            items.append(Text(x + each / 2, y + height / 2 + 4, text, anchor="middle"))
            centres.append((x + each / 2, y + height))
            number += 1
    return y + height, centres


def _bus(items: list[Item], page: parts_of.Page, rank: Rank, above: list[tuple[float, float]], y: float) -> float:
    """A bus between two rows, with what it is beside it."""
    assert rank.link is not None
    facts = page.wrapped(parts_of.link_facts(rank.link))
    height = page.label_height(len(facts), 36)
    top = page.label(items, rank.link.name, facts, "point", y, height)
    middle = top + height / 2 if not page.stacked else top + 6
    low = top + height + 14 if not page.stacked else top + 12
    centres = [page.left + (n + 0.5) * page.inner / rank.boxes for n in range(rank.boxes)]
    if not page.stacked:
        items += [Line(((x, edge), (x, middle)), "muted") for x, edge in above]
        items += [Line(((x, middle), (x, low)), "muted") for x in centres]
    ends = [*(x for x, _ in above), *centres]
    items.append(Line(((min(ends), middle), (max(ends), middle)), "point", 2.4))
    return low
