"""The first operations of several cores as a picture: the states of the line, who takes whose copy away."""

from __future__ import annotations

from collections.abc import Sequence

from rooflab.errors import RooflabError
from rooflab.types.core_simulation import CoreSimulation, CoreStep
from rooflab.views.common.drawing import Box, Drawing, Item, Line, Picture, Text, heading, picture
from rooflab.views.common.theme import FONT_SIZE, shorten, text_width

WIDE, NARROW = 880, 350
SHOWN = 24  # operations: what fits a page of paper
MOST_CORES = 8
_ROW, _SMALL = 27.0, FONT_SIZE - 0.5
_ROLES = {"M": "point", "O": "memory", "E": "cache1", "S": "cache2", "I": "muted"}
STATE_NAMES = {
    "M": "modified: the only copy, newer than memory",
    "O": "owned: shared, newer than memory, this core supplies it",
    "E": "exclusive: the only copy, as in memory",
    "S": "shared: others may hold it too",
    "I": "invalid: no copy",
}
_DONE = {
    "load": "loads",
    "store": "stores",
    "atomic": "changes",
    "acquire": "acquires",
    "release": "releases",
    "barrier": "reaches the barrier",
}


def drawing(simulation: CoreSimulation, *, width: int = WIDE) -> Drawing:
    """The lines as they are divided between cores, then an operation a row with every core's state after it.

    Raises:
        RooflabError: no operations are kept in this result.
    """
    steps, cores = simulation.steps[:SHOWN], min(len(simulation.cores), MOST_CORES)
    if not steps:
        raise RooflabError(
            f"{simulation.name}: holds no operations one by one, so there is no picture; simulate it again"
        )
    stacked = width < 600
    items: list[Item] = [heading(simulation.name, width)]
    y = _strips(items, simulation, steps, width, 34.0)
    words_x = 0.0 if stacked else 210.0
    column = min(78.0, (width - words_x) / cores) if stacked else min(78.0, (width - words_x - 300.0) / cores)
    xs = [words_x + (n + 0.5) * column for n in range(cores)]
    for n, x in enumerate(xs):
        items.append(Text(x, y + 10, f"core {n}" if column > 44 else str(n), bold=True, anchor="middle"))
        items.append(Line(((x, y + 16), (x, y + 20 + len(steps) * (_ROW + (30 if stacked else 0)))), "grid", 1.0))
    y += 20
    for number, step in enumerate(steps, 1):
        said = f"{number}  {action(step)}"
        if stacked:
            y += 30
            items.append(Text(0, y - 15, shorten(said, width, FONT_SIZE), bold=True))
            items.append(
                Text(0, y - 1, shorten(happened(step), width, _SMALL), "muted", _SMALL, tip=happened(step))
            )
            y += 4
        else:
            items.append(Text(0, y + 17, shorten(said, words_x - 10, FONT_SIZE)))
        items += _states(step, xs, y, column)
        if not stacked:
            x = words_x + cores * column + 16
            text = happened(step)
            role = "point" if step.false_sharing else "muted"
            items.append(Text(x, y + 17, shorten(text, width - x, _SMALL), role, _SMALL, tip=text))
        y += _ROW if not stacked else _ROW - 4
    return Drawing(f"Coherence of {simulation.name}, operation by operation", width, y + 6, tuple(items))


def pictures(simulation: CoreSimulation) -> list[Picture]:
    """The picture on a page, where operations are kept."""
    if not simulation.steps:
        return []
    wide, narrow = drawing(simulation), drawing(simulation, width=NARROW)
    return [picture("Operation by operation", wide, narrow, notes(simulation))]


def notes(simulation: CoreSimulation) -> tuple[str, ...]:
    """What the letters mean, and what the picture leaves out."""
    steps = simulation.steps[:SHOWN]
    seen = {letter for step in steps for letter in (*step.before, *step.states)}
    said = [f"{letter}: {text}." for letter, text in STATE_NAMES.items() if letter in seen]
    said.append(
        "Blue arrows: a copy is supplied. Red arrows: a copy is taken away. The ring is the core that acts."
    )
    total = simulation.accesses
    if total > len(steps):
        said.append(f"The first {len(steps)} operations of {total:,} accesses; the tables count all of them.")
    if len(simulation.cores) > MOST_CORES:
        said.append(f"The first {MOST_CORES} of {len(simulation.cores)} cores are drawn.")
    return tuple(said)


def action(step: CoreStep) -> str:
    """What a core does: "core 0 stores count[0]"."""
    return f"core {step.core} {_DONE.get(step.operation, step.operation)} {step.item}".rstrip()


def happened(step: CoreStep) -> str:
    """What came of it, in words."""
    if step.line is None:
        return "waits until every core is there"
    if step.hit:
        parts = ["asks for ownership" if step.upgrade else "hit"]
    else:
        beyond = "the shared level or memory"
        parts = [f"miss, from {beyond if step.supplier is None else f'core {step.supplier}'}"]
    parts += [f"core {n} writes it back" for n in step.written_back]
    if len(step.invalidated) == 1:
        parts.append(f"core {step.invalidated[0]} loses it")
    elif step.invalidated:
        parts.append(f"{len(step.invalidated)} cores lose it")
    parts += ["true sharing"] if step.true_sharing else []
    # Those who lose a copy that had brought them nothing new.
    whose = f"core{'s' if len(step.false_sharing) > 1 else ''} {', '.join(map(str, step.false_sharing))}"
    parts += [f"for {whose} it was false sharing"] if step.false_sharing else []
    return ", ".join(parts)


def _states(step: CoreStep, xs: Sequence[float], y: float, column: float) -> list[Item]:
    """A box for each core's state after the step, and the arrows between them."""
    items: list[Item] = []
    wide, high = min(26.0, column - 8), 19.0
    if step.line is None:
        items.append(Line(((xs[0] - wide, y + 12), (xs[-1] + wide, y + 12)), "ink", 1.6, dashed=True))
        return items
    for n, x in enumerate(xs):
        letter = step.states[n]
        role = _ROLES[letter]
        fill, tint = ("paper", 1.0) if letter == "I" else (role, 0.18)
        acting = n == step.core
        changed = step.before[n] != letter
        items.append(
            Box(
                x - wide / 2,
                y + 3,
                wide,
                high,
                fill,
                "ink" if acting else role,
                tint,
                thick=2.2 if acting else 1.0,
                dashed=letter == "I" and not acting,
                round=9,
                tip=f"core {n}: {step.before[n]} before, {letter} after",
            )
        )
        items.append(Text(x, y + 17, letter, role, FONT_SIZE, "middle", bold=changed))
    middle = y + 12.5
    if step.supplier is not None and step.supplier < len(xs) and step.core < len(xs):
        items.append(_between(xs[step.supplier], xs[step.core], middle - 4, wide, "cache1"))
    for n in step.invalidated:
        if n < len(xs) and step.core < len(xs):
            items.append(_between(xs[step.core], xs[n], middle + 4, wide, "point"))
    return items


def _between(start: float, end: float, y: float, wide: float, role: str) -> Line:
    """An arrow from one core's column to another's."""
    side = 1 if end > start else -1
    return Line(((start + side * (wide / 2 + 2), y), (end - side * (wide / 2 + 2), y)), role, 1.4, arrow=True)


def _strips(
    items: list[Item], simulation: CoreSimulation, steps: Sequence[CoreStep], width: float, y: float
) -> float:
    """The bytes of each line that the steps touch: which core used which."""
    size = simulation.line_bytes
    lines = list(dict.fromkeys(step.line for step in steps if step.line is not None))
    if size is None:
        return y
    for line in lines[:4]:
        used: dict[tuple[int, int, str], set[int]] = {}
        for step in steps:
            if step.line == line:
                used.setdefault((step.first_byte, step.nbytes, step.item), set()).add(step.core)
        items.append(Text(0, y + 10, f"line {line}, {size} bytes", bold=True))
        scale, top = width / size, y + 16
        items.append(Box(0.5, top, width - 1, 22, None, "muted"))
        for (first, nbytes, item), cores in sorted(used.items()):
            x, wide = first * scale, nbytes * scale
            whose = "both" if len(cores) > 1 and len(simulation.cores) == 2 else ", ".join(map(str, sorted(cores)))
            role = "memory" if len(cores) > 1 else f"cache{min(cores) % 4}"
            who = f"cores {whose}" if len(cores) > 1 and whose != "both" else f"core {whose}"
            who = "both cores" if whose == "both" else who
            items.append(Box(x + 0.5, top, wide - 1, 22, role, role, 0.16, round=0, tip=f"{item}: {who}"))
            texts = (f"{item} {who}", item)
            text = next((each for each in texts if text_width(each, _SMALL) <= wide - 4), "")
            if text:
                items.append(Text(x + wide / 2, top + 15, text, role, _SMALL, "middle"))
        y = top + 34
    if len(lines) > 4:
        items.append(Text(0, y + 8, f"and {len(lines) - 4} more lines", "muted", _SMALL))
        y += 20
    return y + 6
