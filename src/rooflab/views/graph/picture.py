"""The graph of a program as a picture: operations coloured by bound, as high as their time; tensors as edges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rooflab import units
from rooflab.errors import RooflabError
from rooflab.types.report import Report
from rooflab.views.common.drawing import Box, Drawing, Item, Line, Picture, Text, heading, picture
from rooflab.views.common.theme import BOLD, FONT_SIZE, shorten, text_width
from rooflab.views.graph.layout import LANE, PAD, Frame, Place, meeting, placed
from rooflab.views.graph.nodes import Edge, Node, ProgramGraph, Sums, graph, leaves, sums

WIDE, NARROW = 880, 350
_BOX, _LEAST, _MORE = 190.0, 36.0, 66.0  # a box's width; its height at no time, and what all of the time adds
_MEMBER, _SMALL = 16.0, FONT_SIZE - 0.5
# As the roofline of a report has them.
ROLES = {"memory-bound": "memory", "compute-bound": "cache1", "balanced": "cache2", "overhead-bound": "muted"}
_TOP = 58.0  # heading and legend


def drawing(report: Report, *, width: int = WIDE) -> Drawing:
    """The picture of `report`'s program.

    Raises:
        RooflabError: it has no operation that takes time.
    """
    found = graph(report)
    if not found.drawn:
        raise RooflabError(f"{report.name}: no operation takes time, so there is no graph to draw")
    known = {node.key: sums(report, node.rows) for node in _every(found.nodes)}
    most = max((known[leaf.key].time_s or 0.0 for leaf in leaves(found.nodes)), default=0.0)

    def size(node: Node, room: float) -> tuple[float, float]:
        return min(_BOX, room), _height(node, known[node.key], most)

    frame, around = placed(found.nodes, found.edges, width, size)
    items: list[Item] = []
    shift = max((width - frame.width) / 2, 0.0)
    places = {key: place._replace(x=place.x + shift, y=place.y + _TOP) for key, place in frame.places.items()}
    named = {node.key: node for node in _every(found.nodes)}
    for key, place in places.items():
        if named[key].inside:
            items.append(Box(*place[:4], "muted", "muted", 0.05, round=6))
    edges, labels = _edges(found.edges, frame, places, around, named)
    items += edges
    for key, place in places.items():
        node = named[key]
        items += _frame_title(node, known[key], place) if node.inside else _box(node, known[key], place)
    items += _free(labels, [item for item in items if isinstance(item, Text)], places, named)
    total = max(frame.width, width)
    items += _heading(found, total)
    return Drawing(f"Operations and tensors of {report.name}", total, frame.height + _TOP, tuple(items))


def pictures(report: Report) -> list[Picture]:
    """The picture on a page, where there is anything to draw."""
    if not any(row.takes_time for row in report.rows):
        return []
    return [picture("Operations and tensors", drawing(report), drawing(report, width=NARROW), notes(report))]


def notes(report: Report) -> tuple[str, ...]:
    """How to read the picture, and what it leaves out."""
    found = graph(report)
    said = ["A box is an operation or a fused kernel, a frame a module; the higher, the longer it takes."]
    if report.machine is None:
        said = ["A box is an operation, a frame a module. No machine is given: no times, no colours."]
    said.append("An edge is a tensor, with its bytes. Views are edges; weights are in an operation's own bytes.")
    if found.folded:
        said.append(
            f"{found.folded:,} of {found.drawn:,} operations are folded into their modules; "
            "the .dot file and the tables have all of them."
        )
    return tuple(said)


def _every(nodes: Sequence[Node]) -> list[Node]:
    return [each for node in nodes for each in (node, *_every(node.inside))]


def _height(node: Node, what: Sums, most: float) -> float:
    if node.sort == "input":
        return 24.0
    by_time = _MORE * (what.time_s or 0.0) / most if most else 0.0
    return _LEAST + max(by_time, _MEMBER * len(node.members) + (2 if node.members else 0))


def time_text(what: Sums) -> str:
    """How long a node takes: at least so long where a part has no prediction; a dash where nothing has."""
    if what.time_s is None:
        return "–"
    return units.duration(what.time_s) if what.whole else f"> {units.duration(what.time_s)}"


def tip(node: Node, what: Sums) -> str:
    """Everything that is known of a node, in a line."""
    parts = [node.title, f"{len(node.rows):,} operations" if len(node.rows) > 1 else "", " + ".join(node.members)]
    parts += [f"time {time_text(what)}", what.bound or ""]
    parts += ["" if what.nbytes is None else units.si(what.nbytes, "B")]
    parts += ["" if what.flop is None else units.si(what.flop, "FLOP")]
    return "; ".join(filter(None, parts))


def _box(node: Node, what: Sums, place: Place) -> list[Item]:
    if node.sort == "input":
        text = shorten(node.title, place.width - 12, FONT_SIZE)
        box = Box(*place[:4], "paper", "muted", dashed=True, round=12, tip=node.title)
        return [box, Text(place.x + place.width / 2, place.y + 16, text, "muted", anchor="middle")]
    role = ROLES.get(what.bound or "", "ink")
    said = tip(node, what)
    items: list[Item] = [
        Box(*place[:4], "paper", None),
        Box(*place[:4], role, role, 0.16, 2.0 if node.alike > 1 else 1.2, tip=said),
    ]
    if node.alike > 1:
        x, y, width, height, _ = place
        items.insert(0, Box(x + 4, y + 4, width, height, "paper", role, 1.0))
    x, y = place.x + 8, place.y + 15
    items.append(Text(x, y, shorten(node.title, (place.width - 16) / BOLD, FONT_SIZE), bold=True))
    facts = [time_text(what)]
    if what.nbytes is not None:
        facts.append(units.si(what.nbytes, "B"))
    items.append(Text(x, y + 15, shorten(", ".join(facts), place.width - 16, _SMALL), "muted", _SMALL))
    for number, member in enumerate(node.members):
        top = place.y + _LEAST + number * _MEMBER
        items.append(Box(x, top, place.width - 16, _MEMBER - 2, "paper", role, 1.0, 0.7, round=2))
        items.append(Text(x + 5, top + 11, shorten(member, place.width - 26, _SMALL), role, _SMALL))
    return items


def _frame_title(node: Node, what: Sums, place: Place) -> list[Item]:
    text = f"{node.title}  {time_text(what)}" if what.time_s is not None else node.title
    shown = shorten(text, (place.width - 2 * PAD) / BOLD, FONT_SIZE)
    wide = text_width(shown, FONT_SIZE) * BOLD
    return [
        Box(place.x + PAD - 3, place.y + 3, wide + 6, 17, "paper", None, 0.8),
        Text(place.x + PAD, place.y + 15, shown, "muted", bold=True, tip=tip(node, what)),
    ]


def _edges(
    edges: Sequence[Edge],
    frame: Frame,
    places: Mapping[str, Place],
    around: Mapping[str, tuple[str, ...]],
    named: Mapping[str, Node],
) -> tuple[list[Item], list[tuple[Edge, list[tuple[float, float]]]]]:
    """The edges, and for each the points beside which its bytes may stand."""
    items: list[Item] = []
    labels = []
    for edge in edges:
        source, target = places[edge.source], places[edge.target]
        _, upper, _ = meeting(edge, around)
        said = (
            f"{edge.what}, {units.si(edge.nbytes, 'B')}: {named[edge.source].title} → {named[edge.target].title}"
        )
        lane = frame.lanes.get(edge)
        if lane is None:
            start = (source.x + source.width / 2, source.y + source.height)
            end = (target.x + target.width / 2, target.y)
            items.append(Line((start, end), "muted", 1.3, arrow=True, tip=said, curved=True))
            beside = [(end[0], end[1] - back) for back in (10, 20, 32)] + [(start[0], start[1] + 14)]
        else:
            # Along a lane at the right of the frame that holds both.
            holder = around[upper]
            edge_x = max(p.x + p.width for key, p in places.items() if around[key] == holder)
            x = edge_x + LANE * (lane + 1)
            y0 = source.y + source.height - 6
            y1 = target.y + 6
            points = ((source.x + source.width, y0), (x, y0), (x, y1), (target.x + target.width, y1))
            items.append(Line(points, "muted", 1.0, dashed=True, arrow=True, tip=said))
            beside = [(x, y0 + (y1 - y0) * share) for share in (0.5, 0.3, 0.7, 0.15, 0.85, 0.4, 0.6)]
        labels.append((edge, beside))
    return items, labels


def _free(
    labels: Sequence[tuple[Edge, list[tuple[float, float]]]],
    texts: Sequence[Text],
    places: Mapping[str, Place],
    named: Mapping[str, Node],
) -> list[Item]:
    """The bytes of edges where there is room for them; the others stand in the edges' tips."""
    taken = [text.span() for text in texts]
    taken += [(p.x, p.y, p.x + p.width, p.y + p.height) for key, p in places.items() if not named[key].inside]
    found: list[Item] = []
    for edge, beside in labels:
        text = units.si(edge.nbytes, "B")
        for x, y in beside:
            placed_text = Text(x + 4, y, text, "muted", _SMALL)
            left, top, right, bottom = placed_text.span()
            if all(right < x0 or x1 < left or bottom < y0 or y1 < top for x0, y0, x1, y1 in taken):
                taken.append((left, top, right, bottom))
                found += [
                    Box(left - 1, top, right - left + 2, bottom - top, "paper", None, 0.75, round=0),
                    placed_text,
                ]
                break
    return found


def _heading(found: ProgramGraph, width: float) -> list[Item]:
    report = found.report
    on = "" if report.machine is None else f" on {report.machine.name}"
    time = "" if report.time_s is None else f", {units.duration(report.time_s)}"
    title = shorten(f"{report.name}{on}{time}", width / BOLD, 14)
    items: list[Item] = [heading(title, width)]
    if report.machine is None:
        return [*items, Text(0, 34, f"{found.drawn:,} operations that take time", "muted")]
    x, y = 0.0, 26.0
    for bound, role in ROLES.items():
        wide = 16 + text_width(bound) + 16
        if x + wide > width:
            x, y = 0.0, y + 17
        items.append(Box(x, y, 11, 11, role, role, 0.4, round=2))
        items.append(Text(x + 16, y + 10, bound))
        x += wide
    return items
