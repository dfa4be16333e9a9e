"""A roofline drawn in characters: bandwidths named at the left, peaks at the right, kernels inside."""

from __future__ import annotations

import math
from collections.abc import Callable

from rooflab import units
from rooflab.model.roofline import roofline as model
from rooflab.types.machine import Machine, Scope
from rooflab.views.machine.known_kernels import drawable
from rooflab.views.machine.roofline import merge

ROWS = 15
_LEAST = 24  # fewer columns than this show nothing
# The dots of a Braille cell by row and column: Unicode chapter 21.1, U+2800 plus one bit a dot.
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))


def sketch(machine: Machine, width: int = 76, scope: Scope = "all", *, unicode: bool = True) -> str:
    """The roofline of `machine` as text of at most `width` columns; empty where there is none or no room."""
    roofs = model.roofs(machine, scope)
    if not roofs.bandwidths or not roofs.peaks:
        return ""
    flats = merge(roofs.peaks)
    left = [(roof.value, f"{roof.name} {units.si(roof.value, 'B/s')}") for roof in roofs.bandwidths]
    right = [(flat.value, f"{flat.short} {units.si(flat.value, flat.unit)}") for flat in flats]
    points = [(each.intensity, each.flop_per_s, each.name) for each in drawable(machine, scope)]
    return plotted(left, right, points, width, unicode=unicode)


def plotted(
    left: list[tuple[float, str]],
    right: list[tuple[float, str]],
    points: list[tuple[float, float, str]],
    width: int,
    *,
    unicode: bool = True,
) -> str:
    """A roofline of bandwidths `left` and peaks `right`, slow to fast, each with its text, and `points`.

    Points are (FLOP/byte, FLOP/s, name). Empty without room.
    """
    gutter, margin = (max(len(text) for _, text in side) + 1 for side in (left, right))
    columns = width - gutter - margin - 1
    if columns < _LEAST:
        return ""
    slow, fast = min(value for value, _ in left), max(value for value, _ in left)
    top = right[-1][0]
    x0 = min([1 / 16, right[0][0] / fast / 2, *(x / 2 for x, _, _ in points)])
    x1 = max([4 * top / slow, *(x * 2 for x, _, _ in points)])
    y0, y1 = min([slow * x0, *(y / 1.2 for _, y, _ in points)]), top * 1.15

    def column(intensity: float) -> float:
        return math.log(intensity / x0) / math.log(x1 / x0) * columns

    def row(flop_per_s: float) -> float:
        return (1 - math.log(flop_per_s / y0) / math.log(y1 / y0)) * ROWS

    grid = [[" "] * columns for _ in range(ROWS)]
    across, down = (2, 4) if unicode else (1, 1)
    dots: dict[tuple[int, int], int | str] = {}
    for step in range(columns * across):
        intensity = x0 * (x1 / x0) ** ((step + 0.5) / columns / across)
        heights = [(value * intensity, "/") for value, _ in left if value * intensity <= top]
        heights += [(value, "-") for value, _ in right if intensity >= value / fast]
        for height, sign in heights:
            at = int(row(height) * down)
            if 0 <= at < ROWS * down:
                cell = (at // down, step // across)
                if unicode:
                    dots[cell] = int(dots.get(cell, 0)) | _DOTS[at % 4][step % 2]
                else:
                    dots[cell] = sign
    for (y, x), dot in dots.items():
        grid[y][x] = chr(0x2800 + dot) if isinstance(dot, int) else dot
    for x, y, name in points:
        _mark(grid, int(row(y)), int(column(x)), name, "●" if unicode else "o")
    wall, corner, floor = ("│", "└", "─") if unicode else ("|", "+", "-")
    names = _beside([(row(value * x0), text) for value, text in left])
    peaks = _beside([(row(value), text) for value, text in right])
    lines = [
        f"{names.get(y, ''):>{gutter - 1}} {wall}{''.join(cells)} {peaks.get(y, '')}".rstrip()
        for y, cells in enumerate(grid)
    ]
    lines.append(" " * gutter + corner + floor * columns)
    lines.append(" " * (gutter + 1) + _ticks(x0, x1, column, columns))
    return "\n".join(lines)


def _mark(grid: list[list[str]], y: int, x: int, name: str, sign: str) -> None:
    """Put a kernel's dot and, where its row is free, its name into the grid."""
    y = min(max(y, 0), len(grid) - 1)
    line = grid[y]
    line[x] = sign
    for start in (x + 2, x - 1 - len(name)):
        place = range(start, start + len(name))
        if start >= 0 and place.stop <= len(line) and all(line[i] == " " for i in place):
            line[start : place.stop] = name
            return


def _beside(wanted: list[tuple[float, str]]) -> dict[int, str]:
    """Each text on its own row, as near to the row it wants as those above it leave free."""
    taken: dict[int, str] = {}
    for at, text in sorted(wanted):
        row = min(max(int(at), 0), ROWS - 1)
        free = sorted((y for y in range(ROWS) if y not in taken), key=lambda y: (abs(y - row), -y))
        if free:
            taken[free[0]] = text
    return taken


def _ticks(x0: float, x1: float, column: Callable[[float], float], columns: int) -> str:
    """The axis: FLOP/byte at every fourth power of two that has room."""
    line = [" "] * columns
    for power in range(math.ceil(math.log2(x0) / 4) * 4, math.floor(math.log2(x1)) + 1, 4):
        text = str(2**power) if power >= 0 else f"1/{2**-power}"
        start = int(column(2.0**power))
        if start + len(text) <= columns and all(
            char == " " for char in line[max(0, start - 1) : start + len(text) + 1]
        ):
            line[start : start + len(text)] = text
    return "".join(line).rstrip() + "  FLOP/byte"
