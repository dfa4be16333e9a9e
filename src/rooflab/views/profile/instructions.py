"""The instruction roofline: warp instructions a second against those per transaction, with the walls of strides.

Ding and Williams: "An Instruction Roofline Model for GPUs", PMBS 2019. A kernel has a mark for each level whose
transactions were counted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from rooflab.model.roofline import instruction
from rooflab.types.kernel_names import short_name
from rooflab.types.profile import Profile, ProfileRow
from rooflab.units import si
from rooflab.views.common import axes, labels
from rooflab.views.common.axes import Plane
from rooflab.views.common.theme import LIGHT, Theme, level_colours

if TYPE_CHECKING:
    import altair as alt

_NAMED = 5  # kernels with the most time that have their name written
_MARK = 9.0  # pixels
_FRACTION = "datum.value < 0.9 ? '1/' + format(1 / datum.value, ',.0f') : format(datum.value, ',.0f')"


class _Mark(NamedTuple):
    kernel: str
    level: str
    intensity: float
    inst_per_s: float
    name: str  # that is written beside it; "" for none


class Layout(NamedTuple):
    """Everything that is drawn, before it is drawn.

    Attributes:
        peak: warp instructions a second that all schedulers can start.
        roofs: transactions a second by level.
        marks: of kernels, those with the most time first.
        walls: of global accesses of words of 4 bytes.
        plane, placed: where it is drawn, and the labels in it.
    """

    peak: float
    roofs: dict[str, float]
    marks: tuple[_Mark, ...]
    walls: tuple[instruction.Wall, ...]
    plane: Plane
    placed: tuple[labels.Placed, ...]


def instruction_roofline(
    profile: Profile, *, theme: Theme = LIGHT, width: int = 720, height: int = 440
) -> alt.LayerChart | None:
    """The kernels of `profile` under the instruction roofs; None where no instructions were counted."""
    drawn = layout(profile, width, height)
    return None if drawn is None else _draw(drawn, profile, theme)


def layout(profile: Profile, width: int = 720, height: int = 440) -> Layout | None:
    """Where every line, mark and label goes; None without a kernel."""
    rows = [row for row in profile.rows if row.placement is not None and row.placement.instruction is not None]
    if not rows:
        return None
    marks = tuple(mark for number, row in enumerate(rows) for mark in _marks(row, number < _NAMED))
    roofs: dict[str, float] = {}
    for row in rows:
        assert row.placement is not None
        for roof in row.placement.roofs:
            if roof.kind == "level":
                roofs.setdefault(roof.name, roof.roof_per_s / instruction.TRANSACTION_BYTES)
    roofs = {level: value for level, value in roofs.items() if any(mark.level == level for mark in marks)}
    first = rows[0].placement.instruction if rows[0].placement is not None else None
    assert first is not None
    peak, walls = first.peak_inst_per_s, instruction.global_walls()
    space = _plane(peak, roofs, marks, width, height)
    return Layout(peak, roofs, marks, walls, space, _labels(peak, roofs, marks, walls, space))


def _marks(row: ProfileRow, named: bool) -> list[_Mark]:
    one = None if row.placement is None else row.placement.instruction
    if one is None:
        return []
    name = short_name(row.name, 26)
    # The furthest level stands alone most often: there the name is written.
    levels = list(one.intensity)
    return [
        _Mark(name, level, one.intensity[level], one.inst_per_s, name if named and level == levels[-1] else "")
        for level in levels
    ]


def _plane(peak: float, roofs: dict[str, float], marks: Sequence[_Mark], width: int, height: int) -> Plane:
    intensities = [mark.intensity for mark in marks]
    ridges = [peak / value for value in roofs.values()]
    x0 = 2.0 ** math.floor(math.log2(min([*intensities, 1 / 40]) / 1.5))
    x1 = 2.0 ** math.ceil(math.log2(2 * max([*intensities, *(4 * ridge for ridge in ridges), 2.0])))
    low = min([mark.inst_per_s for mark in marks] + [peak / 100])
    return Plane(x0, x1, low / 3, peak * 2.5, width, height)


def _ends(value: float, peak: float, space: Plane) -> tuple[labels.Vertex, labels.Vertex]:
    """The visible part of the slanted roof of a level."""
    begin = max(space.x0, space.y0 / value)
    return (begin, begin * value), (peak / value, peak)


def _labels(
    peak: float,
    roofs: dict[str, float],
    marks: Sequence[_Mark],
    walls: Sequence[instruction.Wall],
    space: Plane,
) -> tuple[labels.Placed, ...]:
    wanted, lines = [], []
    text = f"{si(peak, 'inst/s')}, all schedulers"
    _, top = space.pixel(space.x1, peak)
    wide = axes.box(text, 0, 0).width
    wanted.append(labels.Label("peak", ((text, (axes.box(text, space.width - wide / 2 - 2, top - 12),)),)))
    for level, value in roofs.items():
        (x, y), (end_x, end_y) = _ends(value, peak, space)
        begin, end = space.pixel(x, y), space.pixel(end_x, end_y)
        lines.append((begin, end))
        angle = math.degrees(math.atan2(end[1] - begin[1], end[0] - begin[0]))
        text = f"{level} {si(value, 'TXN/s')}"
        across, down = math.cos(math.radians(angle)), math.sin(math.radians(angle))
        places = []
        for share in (0.3, 0.5, 0.2, 0.7, 0.85):
            for side in (-11, 11):
                at = begin[0] + share * (end[0] - begin[0]), begin[1] + share * (end[1] - begin[1])
                places.append(axes.box(text, at[0] - side * down, at[1] + side * across, angle))
        wanted.append(labels.Label(level, ((text, tuple(places)),)))
    for wall in walls:
        x, _ = space.pixel(wall.intensity, space.y0)
        half = axes.box(wall.name, 0, 0).width / 2
        places = [
            axes.box(wall.name, x + side * (half + 3), space.height - 10 - rise)
            for rise in (0, 18)
            for side in (1, -1)
        ]
        wanted.append(labels.Label(f"wall {wall.name}", ((wall.name, tuple(places)),)))
        lines.append(((x, 0.0), (x, space.height)))
    taken = []
    for number, mark in enumerate(marks):
        at = space.pixel(mark.intensity, mark.inst_per_s)
        taken.append(labels.Box(*at, _MARK, _MARK))
        if mark.name:
            wanted.append(labels.Label(f"mark {number}", ((mark.name, axes.around(mark.name, *at, 9)),)))
    return labels.place(wanted, taken, space.frame(), lines)


def _draw(drawn: Layout, profile: Profile, theme: Theme) -> alt.LayerChart:
    import altair as alt

    space = drawn.plane
    names = list(drawn.roofs)
    levels = () if profile.machine is None else profile.machine.levels
    colours = level_colours(tuple(level for level in levels if level.name in drawn.roofs), theme)
    layers = []
    for level, value in drawn.roofs.items():
        points = [{"x": x, "y": y} for x, y in _ends(value, drawn.peak, space)]
        layers.append(alt.Chart(alt.Data(values=points)).mark_line(color=colours[level], strokeWidth=2))
    ridge = min((drawn.peak / value for value in drawn.roofs.values()), default=space.x0)
    flat = [{"x": max(ridge, space.x0), "y": drawn.peak}, {"x": space.x1, "y": drawn.peak}]
    layers.append(alt.Chart(alt.Data(values=flat)).mark_line(color=theme.ink, strokeWidth=2))
    for wall in drawn.walls:
        ends = [{"x": wall.intensity, "y": space.y0}, {"x": wall.intensity, "y": space.y1}]
        layers.append(
            alt.Chart(alt.Data(values=ends)).mark_line(color=theme.muted, strokeWidth=1, strokeDash=[4, 4])
        )
    marks = [
        {
            "x": mark.intensity,
            "y": mark.inst_per_s,
            "colour": colours[mark.level],
            "kernel": mark.kernel,
            "at": f"{mark.intensity:.3g} warp instructions per {mark.level} transaction",
            "rate": si(mark.inst_per_s, "inst/s"),
        }
        for mark in drawn.marks
        if mark.level in colours
    ]
    layers.append(
        alt.Chart(alt.Data(values=marks))
        .mark_point(size=62, filled=True, opacity=0.85, stroke=theme.background, strokeWidth=1)
        .encode(
            color=alt.Color("colour:N", scale=None),
            tooltip=[alt.Tooltip(f"{field}:N") for field in ("kernel", "at", "rate")],
        )
    )
    written = {level: colours[level] for level in names}
    written |= {f"wall {wall.name}": theme.muted for wall in drawn.walls}
    layers += axes.texts(drawn.placed, space, written, theme)
    machine = "" if profile.machine is None else f"On {profile.machine.name}: each"
    subtitle = (
        f"{machine or 'Each'} kernel once for each level whose transactions were counted. Dashed: where global "
        "accesses of 4-byte words with that stride stand at L1."
    )
    x, y = axes.roofline_axes(space, "Warp instructions per transaction of 32 bytes", _FRACTION, "inst/s")
    return axes.finish(layers, x, y, f"{profile.name}: instructions", subtitle, space, theme)
