"""Where the boxes of a graph go: layers from top to bottom in each frame, frames as boxes of their frame."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from rooflab.views.graph.nodes import Edge, Node

PAD, GAP, TITLE = 10.0, 12.0, 20.0
ROW_GAP = 32.0  # between layers: room for the bytes beside an edge
LANES, LANE, LABEL = 8, 9.0, 58.0  # of an edge that passes layers, and of the bytes beside it


class Place(NamedTuple):
    """Where a node is: its upper left corner and size, and its layer in the frame around it."""

    x: float
    y: float
    width: float
    height: float
    layer: int


class Frame(NamedTuple):
    """A laid-out frame.

    Attributes:
        places: of its nodes, from its own corner.
        lanes: of edges that pass rows, which of the lanes at its right each takes.
    """

    width: float
    height: float
    places: dict[str, Place]
    lanes: dict[Edge, int]


Size = Callable[[Node, float], tuple[float, float]]


def placed(
    nodes: Sequence[Node], edges: Sequence[Edge], room: float, size: Size
) -> tuple[Frame, dict[str, tuple[str, ...]]]:
    """All nodes of a graph in a frame about `room` wide, and for each the frames around it, outermost first.

    Args:
        nodes: the outermost ones; frames hold others.
        edges: between boxes.
        room: pixels.
        size: of a box, at most so wide.
    """
    around: dict[str, tuple[str, ...]] = {}

    def note(inner: Sequence[Node], path: tuple[str, ...]) -> None:
        for node in inner:
            around[node.key] = path
            note(node.inside, (*path, node.key))

    note(nodes, ())
    return _frame(nodes, "", edges, around, room, size), around


def meeting(edge: Edge, around: Mapping[str, tuple[str, ...]]) -> tuple[int, str, str]:
    """How deep the frame lies that holds both ends of `edge`, and the nodes in it that hold one each."""
    source, target = (*around[edge.source], edge.source), (*around[edge.target], edge.target)
    depth = 0
    while depth < min(len(source), len(target)) - 1 and source[depth] == target[depth]:
        depth += 1
    return depth, source[depth], target[depth]


def _frame(
    nodes: Sequence[Node],
    key: str,
    edges: Sequence[Edge],
    around: Mapping[str, tuple[str, ...]],
    room: float,
    size: Size,
) -> Frame:
    order = {node.key: number for number, node in enumerate(nodes)}
    own = []
    for edge in edges:
        _, source, target = meeting(edge, around)
        if source in order and target in order and source != target:
            own.append((edge, source, target))
    here = list(dict.fromkeys((source, target) for _, source, target in own))
    layers = _layers(nodes, here, order)
    inner = max(room - 2 * PAD, 60.0)
    boxes: dict[str, tuple[float, float]] = {}
    frames: dict[str, Frame] = {}
    for node in nodes:
        if node.inside:
            frames[node.key] = _frame(node.inside, node.key, edges, around, inner, size)
            boxes[node.key] = frames[node.key].width, frames[node.key].height
        else:
            boxes[node.key] = size(node, inner)
    rows = _rows(nodes, here, layers, boxes, inner)
    row_of = {each: number for number, row in enumerate(rows) for each in row}
    passing = [
        edge
        for edge, s, t in own
        if row_of[t] != row_of[s] + 1 or _below(frames.get(s), edge.source) or _above(frames.get(t), edge.target)
    ]
    right = LABEL + LANE * min(len(passing), LANES) if passing else 0.0
    width = max(sum(boxes[each][0] for each in row) + GAP * (len(row) - 1) for row in rows)
    places: dict[str, Place] = {}
    y = TITLE + PAD if key else PAD
    for number, row in enumerate(rows):
        taken = sum(boxes[each][0] for each in row) + GAP * (len(row) - 1)
        x, high = PAD + (width - taken) / 2, max(boxes[each][1] for each in row)
        for each in row:
            wide, tall = boxes[each]
            places[each] = Place(x, y + (high - tall) / 2, wide, tall, number)
            if each in frames:
                for inner_key, inner_place in frames[each].places.items():
                    places[inner_key] = inner_place._replace(
                        x=inner_place.x + x, y=inner_place.y + y + (high - tall) / 2
                    )
            x += wide + GAP
        y += high + ROW_GAP
    lanes = {edge: number % LANES for number, edge in enumerate(passing)}
    for frame in frames.values():
        lanes |= frame.lanes
    return Frame(width + 2 * PAD + right, y - ROW_GAP + PAD, places, lanes)


def _below(frame: Frame | None, key: str) -> bool:
    """Whether something in the frame stands lower than `key` does."""
    if frame is None:
        return False
    end = frame.places[key].y + frame.places[key].height
    return any(place.y > end for place in frame.places.values())


def _above(frame: Frame | None, key: str) -> bool:
    """Whether a box in the frame ends before `key` begins."""
    if frame is None:
        return False
    return any(place.y + place.height <= frame.places[key].y for place in frame.places.values())


def _layers(nodes: Sequence[Node], here: Sequence[tuple[str, str]], order: Mapping[str, int]) -> dict[str, int]:
    """The layer of each node: after all whose results it reads. What reads a later node's result is not moved."""
    layers = dict.fromkeys(order, 0)
    before: dict[str, list[str]] = {}
    for source, target in here:
        if order[source] < order[target]:
            before.setdefault(target, []).append(source)
    for node in nodes:
        layers[node.key] = max((layers[each] + 1 for each in before.get(node.key, ())), default=0)
    # An input stands just above what reads it first.
    for node in nodes:
        readers = [layers[target] for source, target in here if source == node.key]
        if node.sort == "input" and readers:
            layers[node.key] = max(min(readers) - 1, 0)
    return layers


def _rows(
    nodes: Sequence[Node],
    here: Sequence[tuple[str, str]],
    layers: Mapping[str, int],
    boxes: Mapping[str, tuple[float, float]],
    room: float,
) -> list[list[str]]:
    """The layers as rows no wider than `room`, each ordered by where what it reads stands."""
    by_layer: dict[int, list[str]] = {}
    for node in nodes:
        by_layer.setdefault(layers[node.key], []).append(node.key)
    rows: list[list[str]] = []
    position: dict[str, float] = {}
    for number in sorted(by_layer):
        members = by_layer[number]
        reads = {each: [position[s] for s, t in here if t == each and s in position] for each in members}
        start = {each: n / max(len(members), 1) for n, each in enumerate(members)}
        members.sort(key=lambda each: sum(reads[each]) / len(reads[each]) if reads[each] else start[each])
        row: list[str] = []
        for each in members:
            taken = sum(boxes[other][0] + GAP for other in row)
            if row and taken + boxes[each][0] > room:
                rows.append(row)
                row = []
            row.append(each)
        rows.append(row)
        for n, each in enumerate(members):
            position[each] = (n + 0.5) / len(members)
    return rows
