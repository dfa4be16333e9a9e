"""Moved operations as arrows under the roofs: from where each is in the base to where it is on the other side."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from rooflab.errors import RooflabError
from rooflab.model.roofline.per_operation import peak_of
from rooflab.types.comparison import Change, Comparison, Measure, Side
from rooflab.types.machine import is_main_memory
from rooflab.units import duration, si
from rooflab.views.common import axes, labels
from rooflab.views.common.axes import Plane
from rooflab.views.common.theme import LIGHT, Theme, shorten
from rooflab.views.comparison.sheet import merged

if TYPE_CHECKING:
    import altair as alt

NAMED = 6  # arrows with the most difference that may have their name written
_DRAWN = 400  # arrows at most
_SMALLEST, _LARGEST = 4.0, 13.0  # diameters of where an arrow begins, in pixels
_FRACTION = "datum.value < 0.9 ? '1/' + format(1 / datum.value, ',.0f') : format(datum.value, ',.0f')"
_KEYS = {
    "less": "less time",
    "more": "more time",
    "same": "no change beyond the error bars",
    "unsure": "spread not known",
}


class Roof(NamedTuple):
    """A line of the plane, in FLOP/byte and FLOP/s from (x0, y0) to (x1, y1), of side `side`."""

    name: str
    bandwidth: float | None
    peak: float | None
    side: int

    def texts(self) -> tuple[str, ...]:
        """What may stand on it, the fullest first: without whose it is, then its rate alone."""
        rate = si(self.peak, "FLOP/s") if self.bandwidth is None else si(self.bandwidth, "B/s")
        return tuple(dict.fromkeys((self.name, f"{self.name.partition(rate)[0]}{rate}", rate)))


class Arrow(NamedTuple):
    """An operation that moved: from (x0, y0) to (x1, y1), of several alike `times`."""

    row: Change
    times: int
    against: str
    x0: float
    y0: float
    x1: float
    y1: float

    @property
    def change_s(self) -> float:
        """Seconds more on the other side, all alike together."""
        return (self.row.change_s or 0.0) * self.times


def arrows(comparison: Comparison, *, theme: Theme = LIGHT, width: int = 720, height: int = 440) -> alt.LayerChart:
    """The operations of `comparison` that both sides have, each an arrow from the base to the other side.

    Raises:
        RooflabError: no operation whose FLOP, bytes and time both sides know.
    """
    drawn = _arrows(comparison)
    machines = all(side.kind == "Machine" for side in comparison.sides)
    if not drawn and not machines:
        raise RooflabError(
            f"{comparison.name}: no operation whose FLOP, bytes and time both sides know: no picture"
        )
    roofs = [roof for number, side in enumerate(comparison.sides) for roof in _roofs(side, number, comparison)]
    if not drawn and not roofs:
        raise RooflabError(f"{comparison.name}: neither states a memory bandwidth or a peak: no picture")
    plane = _plane(drawn, roofs, width, height)
    colours = {"less": theme.caches[1], "more": theme.memory, "same": theme.muted, "unsure": theme.ink}
    placed = _labels(drawn, roofs, plane)
    layers = [*_roof_lines(roofs, plane, theme), *_arrow_marks(drawn, plane, colours, theme)]
    layers += axes.texts(placed, plane, {label.key: theme.ink for label in placed}, theme)
    x, y = axes.roofline_axes(plane, "Arithmetic intensity (FLOP per byte of main memory)", _FRACTION, "FLOP/s")
    return axes.finish(layers, x, y, comparison.name, _subtitle(comparison, drawn, roofs), plane, theme)


def _arrows(comparison: Comparison) -> list[Arrow]:
    found = []
    for one in comparison.differences:
        for row, times in merged(one.rows):
            base, other = _place(row.base), _place(row.other)
            if base is not None and other is not None:
                found.append(Arrow(row, times, comparison.sides[one.other].name, *base, *other))
    return sorted(found, key=lambda arrow: -abs(arrow.change_s))[:_DRAWN]


def _place(measure: Measure | None) -> tuple[float, float] | None:
    if measure is None or not measure.intensity or not measure.flop_per_s:
        return None
    return measure.intensity, measure.flop_per_s


def _roofs(side: Side, number: int, comparison: Comparison) -> list[Roof]:
    """The roofs of a side's machine; none where it is one of an earlier side's."""
    machine = side.machine
    if machine is None:
        return []
    earlier = {
        form
        for one in comparison.sides[:number]
        if one.machine is not None and one.machine.name == machine.name
        for form in (*one.formats, ("memory", ""))
    }
    several = len({one.machine.name for one in comparison.sides if one.machine is not None}) > 1
    whose = f" {shorten(side.name, 120, 11.5)}" if several else ""
    memory = next((level for level in machine.levels if is_main_memory(level)), None)
    rate = None if memory is None else memory.rate(basis="theoretical") or memory.rate()
    found: dict[str, Roof] = {}
    if memory is not None and rate is not None and ("memory", "") not in earlier:
        found[memory.name] = Roof(f"{memory.name} {si(rate.value, 'B/s')}{whose}", rate.value, None, number)
    for engine, dtype in side.formats:
        peak, name = peak_of(machine, engine, dtype)  # pyright: ignore[reportArgumentType] (read from a file)
        if peak is not None and (engine, dtype) not in earlier:
            found.setdefault(name, Roof(f"{name} {si(peak.value, 'FLOP/s')}", None, peak.value, number))
    return list(found.values())


def _plane(drawn: list[Arrow], roofs: list[Roof], width: int, height: int) -> Plane:
    xs = [x for arrow in drawn for x in (arrow.x0, arrow.x1)] or [0.25, 16.0]
    ys = [y for arrow in drawn for y in (arrow.y0, arrow.y1)]
    ys = ys or [(roof.bandwidth or roof.peak or 1.0) * 0.5 for roof in roofs]
    x0 = 2.0 ** math.floor(math.log2(min(xs) / 2))
    peaks = [roof.peak for roof in roofs if roof.peak is not None]
    slopes = [roof.bandwidth for roof in roofs if roof.bandwidth is not None]
    right = 4 * max(xs)
    if peaks and slopes:
        right = max(right, 16 * max(peaks) / min(slopes))
    return Plane(x0, 2.0 ** math.ceil(math.log2(right)), min(ys) / 3, max([*ys, *peaks]) * 2.5, width, height)


def _line(roof: Roof, roofs: list[Roof], plane: Plane) -> tuple[labels.Vertex, labels.Vertex]:
    """The ends of a roof in pixels: bandwidth up to the highest peak of its side, a peak from where they meet."""
    own = [one for one in roofs if one.side == roof.side]
    slope = next((one.bandwidth for one in own if one.bandwidth is not None), None)
    # A side that shares its machine with an earlier one has no slope of its own.
    slope = slope or next((one.bandwidth for one in roofs if one.bandwidth is not None), None)
    if roof.bandwidth is not None:
        peaks = [one.peak for one in (own if len(own) > 1 else roofs) if one.peak is not None]
        start = max(plane.x0, plane.y0 / roof.bandwidth)
        end = min(plane.x1, max(peaks, default=plane.y1) / roof.bandwidth)
        return plane.pixel(start, start * roof.bandwidth), plane.pixel(end, end * roof.bandwidth)
    peak = roof.peak or 1.0
    start = plane.x0 if slope is None else max(plane.x0, peak / slope)
    return plane.pixel(start, peak), plane.pixel(plane.x1, peak)


def _roof_lines(roofs: list[Roof], plane: Plane, theme: Theme) -> list[alt.Chart]:
    import altair as alt

    layers = []
    for first in (True, False):
        rows = []
        for number, roof in enumerate(roofs):
            if (roof.side == 0) == first:
                ends = (plane.data(*end) for end in _line(roof, roofs, plane))
                rows += [{"x": x, "y": y, "line": number, "roof": roof.name} for x, y in ends]
        if rows:
            style: dict[str, Any] = {} if first else {"strokeDash": [5, 4]}
            base = alt.Chart(alt.Data(values=rows)).mark_line(strokeWidth=1.8, clip=True, color=theme.ink, **style)
            layers.append(base.encode(detail="line:N", tooltip=[alt.Tooltip("roof:N", title="roof")]))
    return layers


def _arrow_marks(drawn: list[Arrow], plane: Plane, colours: dict[str, str], theme: Theme) -> list[alt.Chart]:
    import altair as alt

    if not drawn:
        return []
    most = max(abs(arrow.change_s) for arrow in drawn) or 1.0
    dots, shafts, heads = [], [], []
    for number, arrow in enumerate(reversed(drawn)):
        begin, end = plane.pixel(arrow.x0, arrow.y0), plane.pixel(arrow.x1, arrow.y1)
        row = arrow.row
        diameter = _SMALLEST + (_LARGEST - _SMALLEST) * math.sqrt(abs(arrow.change_s) / most)
        facts = {
            "colour": colours.get(row.verdict, theme.muted),
            "operation": f"{row.name} {row.module}".strip() + (f" × {arrow.times}" if arrow.times > 1 else ""),
            "time": _times(arrow),
            "against": arrow.against,
            "verdict": _KEYS.get(row.verdict, "not compared"),
        }
        dots.append({"x": arrow.x0, "y": arrow.y0, "area": diameter**2, **facts})
        length = math.dist(begin, end)
        if length < 3:
            continue
        shafts += [
            {"x": x, "y": y, "line": number, **facts} for x, y in ((arrow.x0, arrow.y0), (arrow.x1, arrow.y1))
        ]
        # Vega turns a triangle that points up clockwise.
        angle = math.degrees(math.atan2(end[0] - begin[0], begin[1] - end[1])) % 360
        heads.append({"x": arrow.x1, "y": arrow.y1, "angle": angle, **facts})
    colour = alt.Color("colour:N", scale=None)
    tips = [alt.Tooltip(f"{name}:N") for name in ("operation", "time", "against", "verdict")]
    layers = []
    if shafts:
        lines = alt.Chart(alt.Data(values=shafts)).mark_line(strokeWidth=1.6, opacity=0.85)
        layers.append(lines.encode(detail="line:N", color=colour, tooltip=tips))
    begun = alt.Chart(alt.Data(values=dots)).mark_point(filled=True, stroke=theme.background, strokeWidth=0.8)
    layers.append(begun.encode(size=alt.Size("area:Q", scale=None), color=colour, tooltip=tips))
    if heads:
        tops = alt.Chart(alt.Data(values=heads)).mark_point(shape="triangle-up", filled=True, size=70, opacity=1)
        layers.append(tops.encode(angle=alt.Angle("angle:Q", scale=None), color=colour, tooltip=tips))
    return layers


def _times(arrow: Arrow) -> str:
    base, other = (
        "–" if one is None or one.time_s is None else duration(one.time_s * arrow.times)
        for one in (arrow.row.base, arrow.row.other)
    )
    return f"{base} → {other}"


def _labels(drawn: list[Arrow], roofs: list[Roof], plane: Plane) -> tuple[labels.Placed, ...]:
    above = axes.TEXT_HEIGHT / 2 + 2
    segments = [_line(roof, roofs, plane) for roof in roofs]
    wanted = []
    for number, (roof, ((x0, y0), (x1, y1))) in enumerate(zip(roofs, segments, strict=True)):
        length, angle = math.dist((x0, y0), (x1, y1)), math.degrees(math.atan2(y1 - y0, x1 - x0))
        if length < 1:
            continue
        across, down = (x1 - x0) / length, (y1 - y0) / length
        choices = []
        for text in roof.texts():
            half = axes.box(text, 0, 0).width / 2 + 4
            # From the right end of a peak, from the left of a slope: where arrows are few.
            steps = range(int(half), max(int(length - half), int(half) + 1), 12)
            along = [length - at for at in steps] if roof.peak is not None else list(steps)
            places = tuple(
                axes.box(text, x0 + at * across - side * down, y0 + at * down + side * across, round(angle, 3))
                for side in (-above - 1, above + 1)
                for at in along
            )
            choices.append((text, places))
        wanted.append(labels.Label(f"roof {number}", tuple(choices)))
    first = {arrow.row.name: arrow for arrow in reversed(drawn) if arrow.change_s}  # of each name the largest
    for number, arrow in enumerate(sorted(first.values(), key=lambda arrow: -abs(arrow.change_s))[:NAMED]):
        name = shorten(f"{arrow.row.name}{f' × {arrow.times}' if arrow.times > 1 else ''}", 190, 11.5)
        where = plane.pixel(arrow.x1, arrow.y1)
        begun = plane.pixel(arrow.x0, arrow.y0)
        # The two nearest rings: further off it is not seen whose name it is.
        places = (*axes.around(name, *where, 9.0)[:16], *axes.around(name, *begun, 9.0)[:16])
        wanted.append(labels.Label(f"arrow {number}", ((name, places),)))
    taken = [
        labels.Box(*plane.pixel(x, y), 12, 12)
        for arrow in drawn
        for x, y in ((arrow.x0, arrow.y0), (arrow.x1, arrow.y1))
    ]
    shafts = [(plane.pixel(one.x0, one.y0), plane.pixel(one.x1, one.y1)) for one in drawn[:40]]
    return labels.place(wanted, taken, plane.frame(), [*segments, *shafts])


def _subtitle(comparison: Comparison, drawn: list[Arrow], roofs: list[Roof]) -> str:
    if not drawn:
        return "Roofs alone, at theoretical rates where stated; dashed: those of the others"
    others = sum(1 for one in comparison.differences for row in one.rows if not (row.base and row.other))
    dashed = {roof.side for roof in roofs if roof.side}
    said = "From the base (dot) to the other side (arrow head): blue takes less time, brown more, grey no change"
    said += "; dashed: roofs of the other side" if dashed else ""
    said += "; area: difference in time"
    return said + (f"; {others:,} operations of one side alone not drawn" if others else "")
