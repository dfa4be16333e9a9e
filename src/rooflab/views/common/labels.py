"""A small deterministic label placer: the first free spot of each label, in order of importance.

All lengths are pixels, x to the right and y down, as in an SVG.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

Vertex = tuple[float, float]


class Box(NamedTuple):
    """A rectangle around its centre, turned by `angle` degrees (clockwise on the screen)."""

    x: float
    y: float
    width: float
    height: float
    angle: float = 0.0

    def corners(self) -> tuple[Vertex, ...]:
        """The four corners in order around the box."""
        cos, sin = math.cos(math.radians(self.angle)), math.sin(math.radians(self.angle))
        halves = ((-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5))
        return tuple(
            (
                self.x + cos * self.width * a - sin * self.height * b,
                self.y + sin * self.width * a + cos * self.height * b,
            )
            for a, b in halves
        )


class Callout(NamedTuple):
    """A place away from what is named, and the line that leads from there to it."""

    text: str
    box: Box
    leader: tuple[Vertex, Vertex]


class Label(NamedTuple):
    """What may be written and where: (text, places) pairs, the fullest text and the best place first.

    Before a shorter text the `callouts` are tried. A label that is `needed` is written over a line rather than not
    at all.
    """

    key: str
    choices: tuple[tuple[str, tuple[Box, ...]], ...]
    needed: bool = True
    callouts: tuple[Callout, ...] = ()


class Placed(NamedTuple):
    """A label's place."""

    key: str
    text: str
    box: Box
    leader: tuple[Vertex, Vertex] | None = None


def place(
    labels: Sequence[Label],
    obstacles: Iterable[Box],
    frame: Box,
    lines: Sequence[tuple[Vertex, Vertex]] = (),
) -> tuple[Placed, ...]:
    """A place for each label, in order: inside `frame`, off the obstacles and off each other.

    A text with no free place off `lines` gives way to the label's next one. Where none has any, the place that
    crosses the fewest lines is taken, between equals the earliest, if the label is needed; else it is left out.
    """
    taken, crossed = _Taken(obstacles), list(lines)
    placed = []
    for label in labels:
        spot = _choose(label, taken, frame, crossed)
        if spot is None:
            continue
        placed.append(spot)
        taken.add(spot.box)
        if spot.leader is not None:
            crossed.append(spot.leader)
    return tuple(placed)


class _Taken:
    """Boxes that are taken, by the squares of a grid that they may reach: of thousands few are near a label."""

    def __init__(self, boxes: Iterable[Box]) -> None:
        self.boxes: list[Box] = []
        self._squares: dict[tuple[int, int], list[Box]] = {}
        for one in boxes:
            self.add(one)

    def add(self, box: Box) -> None:
        """Take `box` too."""
        self.boxes.append(box)
        for square in _squares(box):
            self._squares.setdefault(square, []).append(box)

    def meets(self, box: Box) -> bool:
        """Whether `box` overlaps one of those."""
        return any(overlap(box, other) for square in _squares(box) for other in self._squares.get(square, ()))


_SQUARE = 32.0  # pixels


def _squares(box: Box) -> Iterator[tuple[int, int]]:
    """The squares of the grid that `box` may reach, however it is turned."""
    wide, high = box.width / 2, box.height / 2
    if box.angle:
        wide = high = math.hypot(wide, high)
    for across in range(int((box.x - wide) // _SQUARE), int((box.x + wide) // _SQUARE) + 1):
        for down in range(int((box.y - high) // _SQUARE), int((box.y + high) // _SQUARE) + 1):
            yield across, down


def overlap(a: Box, b: Box) -> bool:
    """Whether two boxes share more than an edge (separating axis theorem)."""
    # Most of thousands are far apart, or stand upright.
    reach = math.hypot(a.width, a.height) + math.hypot(b.width, b.height)
    if 2 * math.hypot(a.x - b.x, a.y - b.y) >= reach:
        return False
    if not a.angle and not b.angle:
        across = 2 * abs(a.x - b.x) < a.width + b.width - 2e-9
        return across and 2 * abs(a.y - b.y) < a.height + b.height - 2e-9
    first, second = a.corners(), b.corners()
    for angle in (a.angle, a.angle + 90, b.angle, b.angle + 90):
        axis = (math.cos(math.radians(angle)), math.sin(math.radians(angle)))
        low_a, high_a = _span(first, axis)
        low_b, high_b = _span(second, axis)
        if high_a <= low_b + 1e-9 or high_b <= low_a + 1e-9:
            return False
    return True


def crosses(box: Box, line: tuple[Vertex, Vertex]) -> bool:
    """Whether `line` enters `box`."""
    (x0, y0), (x1, y1) = line
    length = math.hypot(x1 - x0, y1 - y0)
    angle = math.degrees(math.atan2(y1 - y0, x1 - x0))
    return overlap(box, Box((x0 + x1) / 2, (y0 + y1) / 2, length, 1.0, angle))


def inside(box: Box, frame: Box) -> bool:
    """Whether all of `box` lies in the upright `frame`."""
    return all(
        abs(x - frame.x) <= frame.width / 2 + 1e-9 and abs(y - frame.y) <= frame.height / 2 + 1e-9
        for x, y in box.corners()
    )


def _choose(label: Label, taken: _Taken, frame: Box, lines: Sequence[tuple[Vertex, Vertex]]) -> Placed | None:
    crossing: list[tuple[int, str, Box]] = []
    for number, (text, places) in enumerate(label.choices):
        for box in places:
            if not inside(box, frame) or taken.meets(box):
                continue
            crossed = sum(crosses(box, line) for line in lines)
            if not crossed:
                return Placed(label.key, text, box)
            crossing.append((crossed, text, box))
        if number == 0:
            called = _called(label, taken, frame, lines)
            if called is not None:
                return called
    if not crossing or not label.needed:
        return None
    # min keeps the first of equals: the fullest text, the best place
    _, text, box = min(crossing, key=lambda each: each[0])
    return Placed(label.key, text, box)


def _called(label: Label, taken: _Taken, frame: Box, lines: Sequence[tuple[Vertex, Vertex]]) -> Placed | None:
    """The first callout that is free, and whose line meets no label nor mark."""
    for text, box, leader in label.callouts:
        if not inside(box, frame) or taken.meets(box) or any(crosses(other, leader) for other in taken.boxes):
            continue
        if not any(crosses(box, line) for line in lines):
            return Placed(label.key, text, box, leader)
    return None


def _span(corners: tuple[Vertex, ...], axis: Vertex) -> tuple[float, float]:
    along = [x * axis[0] + y * axis[1] for x, y in corners]
    return min(along), max(along)
