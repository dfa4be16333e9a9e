"""What pictures of machines and of systems share: where labels stand, the frame, the wires that lead out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rooflab import units
from rooflab.types.machine import Link
from rooflab.views.common.drawing import Box, Item, Line, Text
from rooflab.views.common.theme import BOLD, FONT_SIZE, shorten, text_width

FRAME_TOP, PAD = 26.0, 12.0
_GUTTER, _LINE, _SMALL = 228.0, 15.0, FONT_SIZE - 0.5
_STACKED = 600  # pixels: below, labels stand above their boxes instead of beside them


class Page(NamedTuple):
    """Where things go in a picture of that width."""

    width: float
    left: float
    inner: float
    stacked: bool

    @classmethod
    def of(cls, width: float) -> Page:
        """The page of a picture `width` pixels wide."""
        stacked = width < _STACKED
        left = PAD if stacked else _GUTTER
        return cls(width, left, width - left - PAD, stacked)

    def wrapped(self, facts: Sequence[str]) -> tuple[str, ...]:
        """`facts` as lines that fit beside a row, or above it."""
        room, lines = (self.inner - 6 if self.stacked else _GUTTER - PAD - 8), []
        for fact in facts:
            line = ""
            for word in fact.split(" "):
                longer = f"{line} {word}".strip()
                if line and text_width(longer, _SMALL) > room:
                    lines.append(line)
                    longer = word
                line = longer
            lines.append(line)
        return tuple(lines)

    def label_height(self, facts: int, least: float) -> float:
        """How high a row of boxes is beside so many lines."""
        return least if self.stacked else max(least, (1 + facts) * _LINE + 6)

    def label(
        self, items: list[Item], name: str, facts: Sequence[str], role: str, y: float, height: float
    ) -> float:
        """Write what a row is beside it, or above it: where its boxes begin then."""
        if not self.stacked:
            top, room = y + (height - (1 + len(facts)) * _LINE) / 2 + 11.5, _GUTTER - PAD - 8
            items.append(Text(PAD, top, shorten(name, room / BOLD, 12.5), role, 12.5, bold=True))
            for number, fact in enumerate(facts, 1):
                items.append(Text(PAD, top + number * _LINE, shorten(fact, room, _SMALL), "muted", _SMALL))
            return y
        items.append(Text(PAD + 3, y + 10, shorten(name, (self.inner - 6) / BOLD, 12.5), role, 12.5, bold=True))
        for number, fact in enumerate(facts, 1):
            items.append(
                Text(PAD + 3, y + 12 + number * _LINE, shorten(fact, self.inner - 6, _SMALL), "muted", _SMALL)
            )
        return y + 20 + len(facts) * _LINE


def frame(width: float, end: float) -> Box:
    """What holds everything that lies in the machine."""
    return Box(0.6, FRAME_TOP, width - 1.2, end - FRAME_TOP, None, "ink", thick=1.2, round=6)


def links(items: list[Item], found: Sequence[Link], width: float, y: float) -> float:
    """What lies outside: a box for each link below the frame, and the wire to it; where they end."""
    if not found:
        return y
    rows = [list(found)] if width >= _STACKED and len(found) <= 3 else [[link] for link in found]
    for row in rows:
        each = width / len(row)
        for number, link in enumerate(row):
            x = number * each + 18
            room = each - 34
            items.append(Line(((x, y), (x, y + 46)), "point", 2.0))
            items.append(Text(x + 8, y + 16, shorten(link.name, room / BOLD, FONT_SIZE), bold=True))
            said = ", ".join(link_facts(link))
            items.append(Text(x + 8, y + 31, shorten(said, room, _SMALL), "muted", _SMALL, tip=said))
            box = min(room + 8, max(text_width(link.to) + 24, 90))
            items.append(Box(x - 8, y + 46, box, 26, "muted", "muted", 0.1))
            items.append(Text(x - 8 + box / 2, y + 63, shorten(link.to, box - 6, FONT_SIZE), anchor="middle"))
        y += 82
    return y


def link_facts(link: Link) -> list[str]:
    """A link's rate and latency, and how it is laid."""
    facts = ["rate not stated"]
    if link.each_way_bytes_per_s is not None:
        within = link.to in ("local memory", "remote memory")
        facts = [f"{units.si(link.each_way_bytes_per_s, 'B/s')} {'read by one core' if within else 'each way'}"]
    if link.latency_s is not None:
        facts.append(f"latency {units.duration(link.latency_s)}")
    return [*facts, *([link.topology] if link.topology else [])]
