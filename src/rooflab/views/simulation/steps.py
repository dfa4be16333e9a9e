"""The first accesses of a simulation as a picture: what each cache holds after each, what hits, what leaves."""

from __future__ import annotations

from collections.abc import Sequence

from rooflab.errors import RooflabError
from rooflab.types.simulation import CacheStep, Simulation
from rooflab.views.common.drawing import Box, Drawing, Item, Picture, Text, heading, picture
from rooflab.views.common.theme import FONT_SIZE, shorten, text_width

WIDE, NARROW = 880, 350
SHOWN = 32  # accesses: what fits a page of paper
_ROW, _SMALL, _WORDS, _SAID = 26.0, FONT_SIZE - 0.5, 128.0, 226.0
_HIT, _MISS = "cache2", "point"


def drawing(simulation: Simulation, *, width: int = WIDE) -> Drawing:
    """An access a row: the lines that each level holds after it, the newest of a set first.

    Raises:
        RooflabError: no accesses are kept in this result.
    """
    steps = simulation.steps[:SHOWN]
    if not steps:
        raise RooflabError(
            f"{simulation.name}: holds no accesses one by one; simulate with --steps (steps=True) for the picture"
        )
    stacked = width < 600
    items: list[Item] = [heading(simulation.name, width)]
    left = 0.0 if stacked else _WORDS
    area = (width - left - (0 if stacked else _SAID)) / (1 if stacked else len(simulation.levels))
    # Columns are as wide as what stands in them: what happened is read beside it.
    areas = [area if stacked else min(area, _needed(simulation, level)) for level in range(len(simulation.levels))]
    lefts = [left if stacked else left + sum(areas[:level]) for level in range(len(simulation.levels))]
    told_x = 0.0 if stacked else left + sum(areas) + 8
    y = 30.0
    if not stacked:
        for number, level in enumerate(simulation.levels):
            name = shorten(level.name, areas[number], FONT_SIZE)
            items.append(Text(lefts[number], y + 10, name, bold=True))
        y += 18
    before: Sequence[Sequence[int]] = [() for _ in simulation.levels]
    for number, step in enumerate(steps, 1):
        said = f"{number}  {step.operation} {step.item}"
        told = happened(simulation, step, before)
        role = _MISS if step.missed[0] else "muted"
        if stacked:
            items.append(Text(0, y + 12, shorten(said, width * 0.42, FONT_SIZE), bold=True))
            items.append(Text(width * 0.44, y + 12, shorten(told, width * 0.56, _SMALL), role, _SMALL, tip=told))
            y += 18
        else:
            items.append(Text(0, y + 16, shorten(said, _WORDS - 8, FONT_SIZE)))
            text = shorten(told, width - told_x, _SMALL)
            items.append(Text(told_x, y + 16, text, role, _SMALL, tip=told))
        for level in range(len(simulation.levels)):
            items += _held(simulation, step, level, before[level], (lefts[level], y, areas[level] - 10))
            y += _ROW if stacked else 0
        y += 4 if stacked else _ROW
        before = step.held
    return Drawing(f"{simulation.name}, access by access", width, y + 4, tuple(items))


def pictures(simulation: Simulation) -> list[Picture]:
    """The picture on a page, where accesses are kept."""
    if not simulation.steps:
        return []
    wide, narrow = drawing(simulation), drawing(simulation, width=NARROW)
    return [picture("Access by access", wide, narrow, notes(simulation))]


def notes(simulation: Simulation) -> tuple[str, ...]:
    """How to read the picture, and what it leaves out."""
    said = [
        "A box is a line that the cache holds, named by the items in it; of an LRU set the newest comes first.",
        "Framed: the line of this access; red where it was brought in, green where it was there.",
    ]
    if simulation.accesses > SHOWN:
        said.append(f"The first {SHOWN} of {simulation.accesses:,} accesses; the tables count all of them.")
    return tuple(said)


def happened(simulation: Simulation, step: CacheStep, before: Sequence[Sequence[int]]) -> str:
    """Where an access was answered, and which lines left."""
    answering = [level.name for level, missed in zip(simulation.levels, step.missed, strict=True) if not missed]
    first = simulation.levels[0].name
    parts = [f"{first} hit" if not step.missed[0] else f"miss, from {answering[0] if answering else 'memory'}"]
    for number, level in enumerate(simulation.levels):
        gone = [line for line in before[number] if line not in step.held[number]]
        if gone:
            parts.append(f"{', '.join(label(simulation, number, line) for line in gone)} leaves {level.name}")
    return "; ".join(parts)


def label(simulation: Simulation, level: int, line: int) -> str:
    """A line's name: the items of the kept accesses that lie in it, "x[0–4]", else its number."""
    size = _line_bytes(simulation, level)
    inside: dict[str, set[int]] = {}
    for step in simulation.steps:
        if step.address // size <= line <= (step.address + step.nbytes - 1) // size:
            name, _, index = step.item.partition("[")
            inside.setdefault(name, set()).add(int(index.rstrip("]")))
    if not inside:
        return f"line {line}"
    texts = []
    for name, indices in inside.items():
        low, high = min(indices), max(indices)
        texts.append(f"{name}[{low}]" if low == high else f"{name}[{low}–{high}]")
    return ", ".join(texts)


def _line_bytes(simulation: Simulation, level: int) -> int:
    cache = simulation.levels[level].cache
    return 64 if cache is None else cache.line_bytes


def _needed(simulation: Simulation, level: int) -> float:
    """Pixels that the boxes of a level's lines take at most."""
    boxes = [
        sum(text_width(label(simulation, level, line), _SMALL) + 16 for line in step.held[level])
        for step in simulation.steps[:SHOWN]
    ]
    return max(boxes, default=0.0) + 30


def _held(
    simulation: Simulation, step: CacheStep, level: int, before: Sequence[int], at: tuple[float, float, float]
) -> list[Item]:
    """The lines of a level as boxes, as many as there is room for."""
    left, y, room = at
    size = _line_bytes(simulation, level)
    touched = range(step.address // size, (step.address + step.nbytes - 1) // size + 1)
    lines, items, x = list(step.held[level]), [], left
    for number, line in enumerate(lines):
        text = shorten(label(simulation, level, line), room - 20, _SMALL)
        wide = text_width(text, _SMALL) + 12
        more = f"+{len(lines) - number}"
        if x + wide > left + room - (text_width(more, _SMALL) + 4 if number + 1 < len(lines) else 0):
            items.append(Text(x + 2, y + 16, more, "muted", _SMALL))
            break
        role = "muted"
        if line in touched:
            role = _MISS if line not in before else _HIT
        items.append(
            Box(x, y + 3, wide, 19, role, role, 0.15, thick=2.0 if line in touched else 1.0, tip=f"line {line}")
        )
        items.append(Text(x + wide / 2, y + 16, text, role, _SMALL, "middle", bold=line not in before))
        x += wide + 4
    if not lines:
        items.append(Text(left, y + 16, "empty", "muted", _SMALL))
    return items


def words(simulation: Simulation) -> list[str]:
    """The picture in characters: an access a line."""
    before: Sequence[Sequence[int]] = [() for _ in simulation.levels]
    lines = []
    for number, step in enumerate(simulation.steps[:SHOWN], 1):
        held = [
            f"{level.name}: {', '.join(label(simulation, place, line) for line in step.held[place]) or 'empty'}"
            for place, level in enumerate(simulation.levels)
        ]
        said = f"{step.operation} {step.item}"
        lines.append(f"{number:>3}  {said:<16} {happened(simulation, step, before):<40} {'; '.join(held)}")
        before = step.held
    if simulation.accesses > SHOWN:
        lines.append(f"The first {SHOWN} of {simulation.accesses:,} accesses.")
    return lines
