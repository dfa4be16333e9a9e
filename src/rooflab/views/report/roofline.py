"""The roofline of a report: the roofs of its machine that its operations meet, and the operations on them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from rooflab.errors import RooflabError
from rooflab.model.roofline.per_operation import ReportRoofs, report_roofs
from rooflab.types.report import Report
from rooflab.units import percent, si
from rooflab.views.common import axes, labels, roof_labels
from rooflab.views.common import marks as drawing
from rooflab.views.common.axes import Plane
from rooflab.views.common.marks import LARGEST, Dot
from rooflab.views.common.theme import LIGHT, Theme, config
from rooflab.views.report import measured_marks
from rooflab.views.report.alike import Line, lines_of
from rooflab.views.report.tables import bound, intensity

if TYPE_CHECKING:
    import altair as alt

NAMED = 8  # the marks with the most time that may have their name written
_STRIP_NAMED = 4
STRIP = 64  # pixels of the axis of those without FLOP
_FRACTION = "datum.value < 0.9 ? '1/' + format(1 / datum.value, ',.0f') : format(datum.value, ',.0f')"


class Mark(NamedTuple):
    """An operation on the plane, or without FLOP on the strip.

    Attributes:
        x: FLOP/byte, on the strip bytes a second.
        y: FLOP/s as predicted, or that the roofs allow.
        share: of the time, without predictions of the FLOP.
        low, high: of `y`, at the ends of the prediction's interval.
    """

    line: Line
    x: float
    y: float
    share: float
    low: float | None = None
    high: float | None = None

    @property
    def diameter(self) -> float:
        """Pixels."""
        return drawing.diameter(self.share)

    @property
    def name(self) -> str:
        """The operation, and the module that it is in."""
        return f"{self.line.name} {self.line.module}".strip()


class Layout(NamedTuple):
    """Everything that is drawn, before it is drawn."""

    plane: Plane
    roofs: ReportRoofs
    marks: tuple[Mark, ...]
    placed: tuple[labels.Placed, ...]
    strip: Plane | None
    movers: tuple[Mark, ...]
    strip_placed: tuple[labels.Placed, ...]


def roofline(
    report: Report, *, theme: Theme = LIGHT, width: int = 720, height: int = 440
) -> alt.LayerChart | alt.VConcatChart:
    """The operations of `report` under its machine's roofs, and under those what moves data without FLOP.

    The area of a mark is its share of the time, without predictions of the FLOP; equal operations share one.

    Raises:
        RooflabError: a report without a machine, or one whose machine states no memory bandwidth or
            whose operations have no FLOP.
    """
    import altair as alt

    drawn = layout(report, width, height)
    upper = _upper(drawn, theme)
    title = axes.title_of(report.name, subtitle(report, drawn), width)
    if drawn.strip is None:
        return cast("alt.LayerChart", upper.properties(title=title, config=config(theme)))
    both: Any = alt.vconcat(upper, _lower(drawn, drawn.strip, theme), spacing=14).resolve_scale(
        color="independent", shape="independent"
    )
    return both.properties(title=title, config=config(theme))


def layout(report: Report, width: int = 720, height: int = 440) -> Layout:
    """Where every line, mark and label goes, in pixels.

    Raises:
        RooflabError: as `roofline`.
    """
    if report.machine is None:
        raise RooflabError(f"{report.name}: no machine, so no roofline; expected one, as by --machine h200-sxm")
    roofs = report_roofs(report, report.machine)
    every = lines_of(report)
    lines = [line for line in every if line.flop and line.row.intensity and line.row.ridge]
    if roofs is None or not lines:
        reason = "states no memory bandwidth" if roofs is None else "bounds no operation with FLOP"
        raise RooflabError(f"{report.name}: {report.machine.name} {reason}, so no roofline")
    total = sum(line.time_s or 0.0 for line in every)
    most = max(line.flop or 0.0 for line in lines)
    marks = [_mark(line, roofs.bandwidth.value, total, most) for line in lines]
    marks.sort(key=lambda mark: -mark.share)
    movers = [
        Mark(line, line.nbytes / line.time_s, 0.5, line.time_s / total)
        for line in every
        if not line.flop and line.nbytes and line.time_s
    ]
    movers.sort(key=lambda mark: -mark.share)
    space = _plane(roofs, marks, width, height)
    strip = _strip(roofs, movers, width) if movers else None
    written = () if strip is None else _strip_labels(roofs, movers, strip)
    return Layout(space, roofs, tuple(marks), _labels(roofs, marks, space), strip, tuple(movers), written)


def _mark(line: Line, bandwidth: float, total_s: float, most_flop: float) -> Mark:
    flop, at, ridge = line.flop or 0.0, line.row.intensity or 0.0, line.row.ridge or 0.0
    if not line.time_s:
        share = 0.0 if total_s else flop / most_flop
        return Mark(line, at, bandwidth * min(at, ridge), share)
    speed, one = flop / line.time_s, line.row.prediction
    low = high = None
    if one is not None and one.time_s and one.low_s and one.high_s:
        low, high = speed * one.time_s / one.high_s, speed * one.time_s / one.low_s
    return Mark(line, at, speed, line.time_s / total_s, low, high)


def subtitle(report: Report, drawn: Layout) -> str:
    """The convention of what is drawn, in one sentence."""
    machine = report.machine.name if report.machine else ""
    shown = {id(mark.line.row.cost) for mark in drawn.movers}
    left = sum(1 for row in report.rows if row.cost and row.nbytes and not row.flop and id(row.cost) not in shown)
    without = f"; {left:,} without FLOP not drawn" if left and not drawn.movers else ""
    basis = drawn.roofs.bandwidth.basis
    predicted = any(mark.line.time_s for mark in drawn.marks)
    what = "Predicted" if predicted else "The most"
    area = "share of the time" if predicted else "FLOP"
    barred = any(mark.low != mark.high for mark in drawn.marks)
    many = f" of the {drawing.BARS} longest" if len(drawn.marks) > drawing.BARS else ""
    bars = f"; bars: interval of the prediction{many}" if barred else ""
    seen = any(map(measured_marks.attained, (*drawn.marks, *drawn.movers)))
    crosses = f"; {measured_marks.SAID}" if seen else ""
    return f"{what} on {machine}, under {basis} roofs; area: {area}{bars}{crosses}; bytes: compulsory{without}"


def _plane(roofs: ReportRoofs, marks: list[Mark], width: int, height: int) -> Plane:
    bandwidth, top = roofs.bandwidth.value, roofs.peaks[-1][1].value
    intensities = [mark.x for mark in marks]
    x0 = 2.0 ** math.floor(math.log2(min([*intensities, 1.0]) / 2))
    # Room for the name of the highest peak beside the marks on it.
    last = max([top / bandwidth, *intensities])
    room = axes.room_right(x0, last, [_peak_text(name, rate) for name, rate in roofs.peaks], width)
    x1 = 2.0 ** math.ceil(math.log2(max(2 * max(intensities), 8 * top / bandwidth, room)))
    reached = [value for value in map(measured_marks.attained, marks) if value]
    lowest = [each / 3 for each in (*(mark.y for mark in marks), *reached, roofs.peaks[0][1].value)]
    y0, top = min([bandwidth * x0 * 2, *lowest]), max([top, *reached])
    return Plane(x0, x1, y0, top * 2.5, width, height)


def _strip(roofs: ReportRoofs, movers: list[Mark], width: int) -> Plane:
    reached = [value for value in map(measured_marks.attained, movers) if value]
    values = [*(mark.x for mark in movers), *reached, roofs.bandwidth.value]
    return Plane(min(values) / 2.5, max(values) * 2.5, 0.0, 1.0, width, STRIP, log_y=False)


def _peak_text(name: str, rate: Any) -> str:
    return f"{name} {si(rate.value, 'FLOP/s' if rate.per_s == 'flop' else 'OP/s')}"


def _slanted(drawn_roofs: ReportRoofs, space: Plane) -> tuple[labels.Vertex, labels.Vertex]:
    bandwidth, top = drawn_roofs.bandwidth.value, drawn_roofs.peaks[-1][1].value
    start = max(space.x0, space.y0 / bandwidth)
    return space.pixel(start, start * bandwidth), space.pixel(top / bandwidth, top)


def _flat(value: float, roofs: ReportRoofs, space: Plane) -> tuple[labels.Vertex, labels.Vertex]:
    return space.pixel(value / roofs.bandwidth.value, value), space.pixel(space.x1, value)


def _labels(roofs: ReportRoofs, marks: list[Mark], space: Plane) -> tuple[labels.Placed, ...]:
    # On the line, else clear of the largest mark.
    wanted = [
        roof_labels.flat(
            f"peak {name}", (_peak_text(name, rate), name), _flat(rate.value, roofs, space), (LARGEST / 2, LARGEST)
        )
        for name, rate in roofs.peaks
    ]
    line = _slanted(roofs, space)
    text = f"{roofs.memory} {si(roofs.bandwidth.value, 'B/s')}"
    wanted.append(roof_labels.slanted("memory", (text, roofs.memory), line, line))
    for number, (mark, others) in enumerate(_together(marks, space, NAMED)):
        where, gap = space.pixel(mark.x, mark.y), mark.diameter / 2 + 3
        more = f" and {others} more" if others else ""
        names = dict.fromkeys((mark.name, mark.line.name))
        choices = tuple((name + more, axes.around(name + more, *where, gap)[:16]) for name in names)
        wanted.append(labels.Label(f"mark {number}", choices, needed=False))
    taken = [labels.Box(*space.pixel(mark.x, mark.y), mark.diameter, mark.diameter) for mark in marks]
    segments = [line, *(_flat(rate.value, roofs, space) for _, rate in roofs.peaks)]
    for mark in marks[: drawing.BARS]:
        if mark.low and mark.high:
            segments.append((space.pixel(mark.x, mark.low), space.pixel(mark.x, mark.high)))
    for mark in marks:
        reached = measured_marks.attained(mark)
        if reached:
            at = space.pixel(mark.x, reached)
            taken.append(labels.Box(*at, measured_marks.SIDE, measured_marks.SIDE))
            segments.append((space.pixel(mark.x, mark.y), at))
    return labels.place(wanted, taken, space.frame(), segments)


def _strip_labels(roofs: ReportRoofs, movers: list[Mark], strip: Plane) -> tuple[labels.Placed, ...]:
    x, _ = strip.pixel(roofs.bandwidth.value, 0.5)
    text = f"{roofs.memory} {si(roofs.bandwidth.value, 'B/s')}"
    spots = tuple(
        box
        for word in (text,)
        for row in (9, STRIP - 9)
        for side in (-1, 1)
        for box in [axes.box(word, x + side * (axes.box(word, 0, 0).width / 2 + 4), row)]
    )
    wanted = [labels.Label("memory", ((text, spots),))]
    most = {mark.line.name: mark for mark in reversed(movers)}  # of one name that with the most time
    for number, mark in enumerate(sorted(most.values(), key=lambda one: -one.share)[:_STRIP_NAMED]):
        where = strip.pixel(mark.x, 0.5)
        around = axes.around(mark.line.name, *where, mark.diameter / 2 + 2)[:16]
        wanted.append(labels.Label(f"mark {number}", ((mark.line.name, around),), needed=False))
    taken = [labels.Box(*strip.pixel(mark.x, 0.5), mark.diameter, mark.diameter) for mark in movers]
    reached = [value for value in map(measured_marks.attained, movers) if value]
    taken += [labels.Box(*strip.pixel(value, 0.5), measured_marks.SIDE, measured_marks.SIDE) for value in reached]
    return labels.place(wanted, taken, strip.frame(), [((x, 0.0), (x, float(STRIP)))])


def _together(marks: list[Mark], space: Plane, most: int) -> list[tuple[Mark, int]]:
    """The `most` largest marks that are seen apart, largest first, each with how many others it covers."""
    seen: list[tuple[Mark, int]] = []
    where: list[tuple[float, float]] = []
    for mark in marks:
        at = space.pixel(mark.x, mark.y)
        for place, (larger, others) in enumerate(seen):
            if math.dist(at, where[place]) < larger.diameter / 2:
                seen[place] = (larger, others + 1)
                break
        else:
            # A smaller one takes nothing from those before it.
            if len(seen) < most:
                seen.append((mark, 0))
                where.append(at)
    return seen


def _upper(drawn: Layout, theme: Theme) -> Any:
    import altair as alt

    space = drawn.plane
    there = {_group(mark) for mark in (*drawn.marks, *drawn.movers)}
    colours = {group: colour for group, colour in drawing.bound_colours(theme).items() if group in there}
    layers = [_lines(drawn, theme), *drawing.dots(_dots(drawn.marks), colours, theme, space.width, legend=True)]
    layers += measured_marks.layers(drawn.marks, theme)
    ink = {label.key: theme.ink for label in drawn.placed} | {"memory": theme.memory}
    layers += roof_labels.leaders(drawn.placed, space, theme)
    layers += axes.texts(drawn.placed, space, ink, theme)
    x, y = axes.roofline_axes(space, "Arithmetic intensity (FLOP per byte of main memory)", _FRACTION, "FLOP/s")
    drawn_over: Any = alt.layer(*(axes.on(layer, x, y) for layer in layers))
    whole = drawn_over.resolve_scale(color="independent", shape="independent")
    return whole.properties(width=space.width, height=space.height)


def _lower(drawn: Layout, strip: Plane, theme: Theme) -> Any:
    import altair as alt

    x = alt.X(
        "x:Q",
        title="Without FLOP: bytes a second",
        scale=alt.Scale(type="log", domain=[strip.x0, strip.x1], nice=False),
        axis=alt.Axis(values=axes.decades(strip.x0, strip.x1), labelExpr=axes.si_label("B/s")),
    )
    y = alt.Y("y:Q", title=None, scale=alt.Scale(domain=[0, 1], nice=False), axis=None)
    at = drawn.roofs.bandwidth.value
    rule = [{"x": at, "y": 0.0, "end": 1.0, "roof": f"{drawn.roofs.memory} {si(at, 'B/s')}"}]
    mark = alt.Chart(alt.Data(values=rule)).mark_rule(color=theme.memory, strokeWidth=2.2)
    colours = drawing.bound_colours(theme)
    dots = drawing.dots(_dots(drawn.movers), colours, theme, strip.width, legend=False)
    ink = {label.key: theme.ink for label in drawn.strip_placed} | {"memory": theme.memory}
    texts = axes.texts(drawn.strip_placed, strip, ink, theme)
    dots += measured_marks.layers(drawn.movers, theme, strip=True)
    layers = [mark.encode(y2="end:Q", tooltip=alt.Tooltip("roof:N")), *dots, *texts]
    drawn_over: Any = alt.layer(*(axes.on(layer, x, y) for layer in layers))
    whole = drawn_over.resolve_scale(color="independent", shape="independent")
    return whole.properties(width=strip.width, height=strip.height)


def _lines(drawn: Layout, theme: Theme) -> alt.Chart:
    import altair as alt

    space, roofs = drawn.plane, drawn.roofs
    ends = [(_slanted(roofs, space), theme.memory, f"{roofs.memory} {si(roofs.bandwidth.value, 'B/s')}")]
    ends += [(_flat(rate.value, roofs, space), theme.ink, _peak_text(name, rate)) for name, rate in roofs.peaks]
    rows = []
    for number, (line, colour, tip) in enumerate(ends):
        for end in line:
            x, y = space.data(*end)
            rows.append({"x": x, "y": y, "line": number, "colour": colour, "roof": tip})
    base = alt.Chart(alt.Data(values=rows)).mark_line(strokeWidth=2.2, clip=True)
    tip = alt.Tooltip("roof:N", title="roof")
    return base.encode(detail="line:N", color=alt.Color("colour:N", scale=None), tooltip=tip)


def _group(mark: Mark) -> str:
    return mark.line.row.bound or "bound not known"


def _dots(marks: tuple[Mark, ...]) -> list[Dot]:
    found = []
    for mark in marks:
        line = mark.line
        asks = [si(line.flop, "FLOP")] if line.flop else []
        asks.append(si(line.nbytes or 0.0, "B"))
        asks += [f"{intensity(mark.x)} FLOP/byte"] if line.flop else []
        tips = {
            "operation": f"{mark.name} × {line.times:,}",
            "asks": ", ".join(asks),
            "bound": bound(line.row),
        }
        if line.time_s:
            tips["time"] = f"{si(line.time_s, 's')}, {percent(mark.share, 1)} of all"
        found.append(Dot(mark.x, mark.y, mark.share, _group(mark), tips, mark.low, mark.high))
    return found
