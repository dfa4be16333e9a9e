"""The roofline of a report: the roofs of its machine that its operations meet, and the operations on them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from rooflab.errors import RooflabError
from rooflab.model.roofline.per_operation import ReportRoofs, report_roofs
from rooflab.types.report import Report
from rooflab.units import si
from rooflab.views.common import axes, labels
from rooflab.views.common.axes import Plane
from rooflab.views.common.theme import LIGHT, Theme, text_width
from rooflab.views.report.tables import Line, bound, intensity, lines_of

if TYPE_CHECKING:
    import altair as alt

NAMED = 8  # the marks with the most FLOP that may have their name written
SMALLEST, LARGEST = 5.0, 26.0  # diameters of the marks in pixels
_FRACTION = "datum.value < 0.9 ? '1/' + format(1 / datum.value, ',.0f') : format(datum.value, ',.0f')"


class Mark(NamedTuple):
    """An operation on the plane: FLOP/byte, FLOP/s that the roofs allow, diameter in pixels."""

    line: Line
    x: float
    y: float
    diameter: float

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


def roofline(report: Report, *, theme: Theme = LIGHT, width: int = 720, height: int = 440) -> alt.LayerChart:
    """The operations of `report` under its machine's roofs, each where the lower roof is at its intensity.

    The area of a mark grows with FLOP; equal operations share one. Those without FLOP have no place here.

    Raises:
        RooflabError: a report without a machine, or one whose machine states no memory bandwidth or
            whose operations have no FLOP.
    """
    drawn = layout(report, width, height)
    space = drawn.plane
    layers = [_lines(drawn, theme), _dots(drawn, theme)]
    colours = {label.key: theme.ink for label in drawn.placed}
    colours["memory"] = theme.memory
    layers += axes.texts(drawn.placed, space, colours, theme)
    x, y = axes.roofline_axes(space, "Arithmetic intensity (FLOP per byte of main memory)", _FRACTION, "FLOP/s")
    return axes.finish(layers, x, y, report.name, subtitle(report, drawn), space, theme)


def layout(report: Report, width: int = 720, height: int = 440) -> Layout:
    """Where every line, mark and label goes, in pixels.

    Raises:
        RooflabError: as `roofline`.
    """
    if report.machine is None:
        raise RooflabError(f"{report.name}: no machine, so no roofline; expected one, as by --machine h200-sxm")
    roofs = report_roofs(report, report.machine)
    lines = [line for line in lines_of(report) if line.flop and line.row.intensity and line.row.ridge]
    if roofs is None or not lines:
        reason = "states no memory bandwidth" if roofs is None else "bounds no operation with FLOP"
        raise RooflabError(f"{report.name}: {report.machine.name} {reason}, so no roofline")
    bandwidth = roofs.bandwidth.value
    most = max(line.flop or 0.0 for line in lines)
    marks = []
    for line in lines:
        at, ridge = line.row.intensity or 0.0, line.row.ridge or 0.0
        diameter = SMALLEST + (LARGEST - SMALLEST) * math.sqrt((line.flop or 0.0) / most)
        limit = bandwidth * min(at, ridge)
        marks.append(Mark(line, at, (line.flop or 0.0) / line.time_s if line.time_s else limit, diameter))
    marks.sort(key=lambda mark: -mark.diameter)
    space = _plane(roofs, marks, width, height)
    return Layout(space, roofs, tuple(marks), _labels(roofs, marks, space))


def subtitle(report: Report, drawn: Layout) -> str:
    """The convention of what is drawn, in one sentence."""
    machine = report.machine.name if report.machine else ""
    without = sum(1 for row in report.rows if row.cost is not None and row.nbytes and not row.flop)
    left = f"; {without:,} without FLOP not drawn" if without else ""
    basis = drawn.roofs.bandwidth.basis
    what = "Predicted" if report.time_at_least_s is not None else "The most"
    return f"{what} on {machine}, under {basis} rates; area: FLOP; bytes: compulsory{left}"


def _plane(roofs: ReportRoofs, marks: list[Mark], width: int, height: int) -> Plane:
    bandwidth, top = roofs.bandwidth.value, roofs.peaks[-1][1].value
    intensities = [mark.x for mark in marks]
    x0 = 2.0 ** math.floor(math.log2(min([*intensities, 1.0]) / 2))
    # Room for the name of the highest peak beside the marks on it.
    x1 = 2.0 ** math.ceil(math.log2(max(4 * max(intensities), 16 * top / bandwidth)))
    y0 = min([bandwidth * x0 * 2, *(mark.y / 3 for mark in marks), roofs.peaks[0][1].value / 3])
    return Plane(x0, x1, y0, top * 2.5, width, height)


def _slanted(drawn_roofs: ReportRoofs, space: Plane) -> tuple[labels.Vertex, labels.Vertex]:
    bandwidth, top = drawn_roofs.bandwidth.value, drawn_roofs.peaks[-1][1].value
    start = max(space.x0, space.y0 / bandwidth)
    return space.pixel(start, start * bandwidth), space.pixel(top / bandwidth, top)


def _flat(value: float, roofs: ReportRoofs, space: Plane) -> tuple[labels.Vertex, labels.Vertex]:
    return space.pixel(value / roofs.bandwidth.value, value), space.pixel(space.x1, value)


def _labels(roofs: ReportRoofs, marks: list[Mark], space: Plane) -> tuple[labels.Placed, ...]:
    above = axes.TEXT_HEIGHT / 2 + 2
    wanted = []
    for name, rate in roofs.peaks:
        text = f"{name} {si(rate.value, 'FLOP/s' if rate.per_s == 'flop' else 'OP/s')}"
        (left, y), (right, _) = _flat(rate.value, roofs, space)
        half = text_width(text) / 2 + 4
        shifts = range(0, max(1, int(right - left - 2 * half)), 12)
        # On the line, else clear of the largest mark.
        heights = (-above, above, -above - LARGEST / 2, above + LARGEST / 2)
        places = tuple(axes.box(text, right - half - dx, y + dy) for dx in shifts for dy in heights)
        wanted.append(labels.Label(f"peak {name}", ((text, places),)))
    (x0, y0), (x1, y1) = _slanted(roofs, space)
    length, angle = math.hypot(x1 - x0, y1 - y0), math.degrees(math.atan2(y1 - y0, x1 - x0))
    across, down = (x1 - x0) / length, (y1 - y0) / length
    text = f"{roofs.memory} {si(roofs.bandwidth.value, 'B/s')}"
    half, off = text_width(text) / 2 + 8, above + 3
    along = range(int(half), max(int(length - half), int(half) + 1), 12)
    places = tuple(
        axes.box(text, x0 + at * across - side * down, y0 + at * down + side * across, round(angle, 3))
        for at in along
        for side in (-off, off)
    )
    wanted.append(labels.Label("memory", ((text, places),)))
    for number, (mark, others) in enumerate(_together(marks, space)[:NAMED]):
        where, gap = space.pixel(mark.x, mark.y), mark.diameter / 2 + 3
        more = f" and {others} more" if others else ""
        names = dict.fromkeys((mark.name, mark.line.name))
        choices = tuple((name + more, axes.around(name + more, *where, gap)) for name in names)
        wanted.append(labels.Label(f"mark {number}", choices))
    taken = [labels.Box(*space.pixel(mark.x, mark.y), mark.diameter, mark.diameter) for mark in marks]
    segments = [_slanted(roofs, space), *(_flat(rate.value, roofs, space) for _, rate in roofs.peaks)]
    return labels.place(wanted, taken, space.frame(), segments)


def _together(marks: list[Mark], space: Plane) -> list[tuple[Mark, int]]:
    """The marks that are seen apart, largest first, each with the number of those that it covers."""
    seen: list[tuple[Mark, int]] = []
    for mark in marks:
        at = space.pixel(mark.x, mark.y)
        for place, (larger, others) in enumerate(seen):
            if math.dist(at, space.pixel(larger.x, larger.y)) < larger.diameter / 2:
                seen[place] = (larger, others + 1)
                break
        else:
            seen.append((mark, 0))
    return seen


def _lines(drawn: Layout, theme: Theme) -> alt.Chart:
    import altair as alt

    space, roofs = drawn.plane, drawn.roofs
    ends = [(_slanted(roofs, space), theme.memory, f"{roofs.memory} {si(roofs.bandwidth.value, 'B/s')}")]
    ends += [(_flat(rate.value, roofs, space), theme.ink, name) for name, rate in roofs.peaks]
    rows = []
    for number, (line, colour, tip) in enumerate(ends):
        for end in line:
            x, y = space.data(*end)
            rows.append({"x": x, "y": y, "line": number, "colour": colour, "roof": tip})
    base = alt.Chart(alt.Data(values=rows)).mark_line(strokeWidth=2.2, clip=True)
    tip = alt.Tooltip("roof:N", title="roof")
    return base.encode(detail="line:N", color=alt.Color("colour:N", scale=None), tooltip=tip)


def _dots(drawn: Layout, theme: Theme) -> alt.Chart:
    import altair as alt

    colours = {"memory-bound": theme.memory, "compute-bound": theme.caches[1], "balanced": theme.caches[2]}
    colours["overhead-bound"] = theme.muted
    rows = [
        {
            "x": mark.x,
            "y": mark.y,
            "area": mark.diameter**2,
            "colour": colours.get(mark.line.row.bound or "", theme.muted),
            "operation": f"{mark.name} × {mark.line.times:,}",
            "asks": f"{si(mark.line.flop, 'FLOP')}, {si(mark.line.nbytes, 'B')}, {intensity(mark.x)} FLOP/byte",
            "bound": bound(mark.line.row),
        }
        for mark in drawn.marks
    ]
    style: dict[str, Any] = {"filled": True, "stroke": theme.background, "strokeWidth": 1.0, "opacity": 0.85}
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_point(**style)
        .encode(
            size=alt.Size("area:Q", scale=None),
            color=alt.Color("colour:N", scale=None),
            tooltip=["operation:N", "asks:N", "bound:N"],
        )
    )
