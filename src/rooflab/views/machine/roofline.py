"""The roofline chart: one definition that becomes HTML, SVG, PNG, PDF and a notebook cell."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from rooflab import units
from rooflab.model.roofline import roofline as model
from rooflab.types.machine import Machine, Scope
from rooflab.views.common import axes, labels, roof_labels
from rooflab.views.common.axes import Plane
from rooflab.views.common.theme import LIGHT, Theme, level_colours, text_width
from rooflab.views.machine import tables
from rooflab.views.machine.known_kernels import drawable

if TYPE_CHECKING:
    import altair as alt

SAME = 1.02  # peaks closer than this are one line with two names
_UNIT = {"flop": "FLOP/s", "op": "OP/s"}


class Flat(NamedTuple):
    """Peaks of (nearly) one value, drawn as one line."""

    names: tuple[str, ...]
    value: float
    theory: float | None
    unit: str
    top: model.Roof | None = None

    @property
    def text(self) -> str:
        """What is written on the line."""
        return f"{self.short} {units.si(self.value, self.unit)}"

    @property
    def short(self) -> str:
        """The names alone, an engine that several share written once: "bf16, fp16 matrix"."""
        grouped: dict[str, list[str]] = {}
        for name in self.names:
            dtype, _, engine = name.partition(" ")
            grouped.setdefault(engine, []).append(dtype)
        # Those without an engine last: "fp32, fp64 matrix" would lend fp32 the matrix engine.
        engines = sorted(grouped, key=lambda engine: not engine)
        return ", ".join(f"{', '.join(grouped[engine])} {engine}".strip() for engine in engines)


class Layout(NamedTuple):
    """Everything that is drawn, before it is drawn: what the label tests look at."""

    plane: Plane
    flats: tuple[Flat, ...]
    placed: tuple[labels.Placed, ...]
    markers: tuple[labels.Box, ...]
    lost: tuple[str, ...]


def roofline(
    machine: Machine, scope: Scope = "all", *, theme: Theme = LIGHT, width: int = 720, height: int = 440
) -> alt.LayerChart:
    """The roofline of `machine`: a slanted roof per memory level, a flat one per number format.

    Theoretical roofs are dashed and thin where an attained one is known too. Ridge points are rings,
    known kernels dots. Both axes are logarithmic.

    Args:
        machine: measured, or from the catalogue.
        scope: "all" of what is granted, or one "core" or "sm".
        theme: colours.
        width: of the plane in pixels, without axes and titles.
        height: the same.

    Raises:
        RooflabError: the machine has no bandwidth or no peak of that scope.
    """
    roofs = model.roofs(machine, scope)
    drawn = layout(machine, scope, width, height)
    space, colours = drawn.plane, level_colours(machine.levels, theme)
    layers = [*_lines(roofs, drawn, colours, theme), *_marks(machine, roofs, scope, drawn, theme)]
    of_label = {f"level {name}": colour for name, colour in colours.items()}
    of_label |= {label.key: theme.point for label in drawn.placed if label.key.startswith("point")}
    of_label |= {label.key: theme.muted for label in drawn.placed if label.key.startswith("ridge")}
    layers += roof_labels.leaders(drawn.placed, space, theme)
    layers += axes.texts(drawn.placed, space, of_label, theme)
    x, y = axes.roofline_axes(space, "Arithmetic intensity (FLOP per byte of the level)", _FRACTION, _unit(roofs))
    convention = subtitle(machine, roofs, scope)
    return axes.finish(layers, x, y, machine.name, convention, space, theme)


def layout(machine: Machine, scope: Scope = "all", width: int = 720, height: int = 440) -> Layout:
    """Where every line, mark and label of the roofline goes, in pixels.

    Raises:
        RooflabError: the machine has no bandwidth or no peak of that scope.
    """
    from rooflab.errors import RooflabError

    found = model.roofs(machine, scope)
    for roofs, what in ((found.bandwidths, "bandwidth"), (found.peaks, "peak")):
        if not roofs:
            raise RooflabError(
                f"{machine.name}: no {what} of scope {scope!r}, so no roofline; expected at least one"
            )
    space = _plane(machine, found, scope, width, height)
    flats = merge(found.peaks)
    markers = []
    points = drawable(machine, scope)
    for point in points:
        markers.append(labels.Box(*space.pixel(point.intensity, point.flop_per_s), 11, 11))
    wanted = [
        *(_flat_label(flat, found, space) for flat in reversed(flats)),
        *(_slanted_label(roof, found, space) for roof in found.bandwidths),
    ]
    for point in points:
        where = space.pixel(point.intensity, point.flop_per_s)
        wanted.append(labels.Label(f"point {point.name}", ((point.name, axes.around(point.name, *where)),)))
    memory = model.memory_roof(found, machine)
    for flat in flats:
        if memory is not None:
            wanted.append(_ridge_label(flat, memory, space))
    slanted = [rate.value for roof in found.bandwidths for rate in (roof.rate, roof.theory) if rate is not None]
    flat_at = [value for flat in flats for value in (flat.value, flat.theory) if value is not None]
    segments = [_slanted(value, found, space) for value in slanted] + [_flat(v, found, space) for v in flat_at]
    placed = labels.place(wanted, markers, space.frame(), segments)
    kept = {label.key for label in placed}
    lost = tuple(label.key for label in wanted if label.key not in kept)
    return Layout(space, flats, placed, tuple(markers), lost)


def merge(peaks: tuple[model.Roof, ...]) -> tuple[Flat, ...]:
    """The lines to draw for `peaks`, slow to fast: those within 2 % share one."""
    groups: list[list[model.Roof]] = []
    for roof in peaks:
        if groups and roof.value <= groups[-1][0].value * SAME:
            groups[-1].append(roof)
        else:
            groups.append([roof])
    flats = []
    for group in groups:
        theory = max((roof.theory.value for roof in group if roof.theory), default=None)
        names = tuple(_peak_name(roof) for roof in group)
        flats.append(Flat(names, group[-1].value, theory, _UNIT.get(group[0].rate.per_s, "FLOP/s"), group[-1]))
    return tuple(flats)


def subtitle(machine: Machine, roofs: model.Roofs, scope: Scope) -> str:
    """The convention of the numbers drawn, in one sentence."""
    every = (*roofs.bandwidths, *roofs.peaks)
    bases = {roof.rate.basis for roof in every}
    basis = bases.pop() if len(bases) == 1 else "attained, else theoretical"
    streams = {roof.rate.what for roof in roofs.bandwidths}
    what = "bandwidth" if streams == {"any"} else f"{' or '.join(sorted(streams))} bandwidth"
    above = any(roof.theory is not None and roof.theory.value > roof.value * SAME for roof in every)
    dashed = "; dashed: theory" if above else ""
    return f"{basis.capitalize()}; {what}, {tables.who(machine, scope)}; GB = 1e9 bytes, one FMA = 2 FLOP{dashed}"


_FRACTION = "datum.value < 0.9 ? '1/' + format(1 / datum.value, '.0f') : format(datum.value, ',.0f')"


def _unit(roofs: model.Roofs) -> str:
    return _UNIT.get(roofs.peaks[0].rate.per_s, "FLOP/s")


def _peak_name(roof: model.Roof) -> str:
    return f"{roof.name} ({roof.rate.what})" if roof.rate.basis == "attained" else roof.name


def _plane(machine: Machine, roofs: model.Roofs, scope: Scope, width: int, height: int) -> Plane:
    """Axes that hold every roof, ridge and point with room to write."""
    slow, *_, fast = sorted([roof.value for roof in roofs.bandwidths] * 2)
    top = max(roof.value for roof in roofs.peaks)
    points = drawable(machine, scope)
    intensities = [point.intensity for point in points]
    x0 = 2.0 ** math.floor(math.log2(min([1 / 4, roofs.peaks[0].value / fast / 4, *(i / 2 for i in intensities)])))
    names = [flat.text for flat in merge(roofs.peaks)]
    room = axes.room_right(x0, top / slow, names, width)
    x1 = 2.0 ** math.ceil(math.log2(max([8 * top / slow, room, *(i * 2 for i in intensities)])))
    theories = [roof.theory.value for roof in roofs.peaks if roof.theory]
    y1 = max([top, *theories]) * 2.0
    y0 = min([slow * x0, *(point.flop_per_s / 1.5 for point in points)])
    return Plane(x0, x1, y0, y1, width, height)


def _slanted(bandwidth: float, roofs: model.Roofs, space: Plane) -> tuple[labels.Vertex, labels.Vertex]:
    """The pixels of a bandwidth roof, from the lower left to the highest peak."""
    top = roofs.peaks[-1].value
    start = max(space.x0, space.y0 / bandwidth)
    return space.pixel(start, start * bandwidth), space.pixel(top / bandwidth, top)


def _flat(value: float, roofs: model.Roofs, space: Plane) -> tuple[labels.Vertex, labels.Vertex]:
    """The pixels of a peak, from the fastest bandwidth roof to the right."""
    fastest = max(roof.value for roof in roofs.bandwidths)
    return space.pixel(value / fastest, value), space.pixel(space.x1, value)


def _flat_label(flat: Flat, roofs: model.Roofs, space: Plane) -> labels.Label:
    # Under want of room first the instruction goes, then the value.
    texts = (flat.text, re.sub(r" \([^)]*\)", "", flat.text), re.sub(r" \([^)]*\)", "", flat.short))
    return roof_labels.flat(f"peak {flat.names[0]}", texts, _flat(flat.value, roofs, space))


def _slanted_label(roof: model.Roof, roofs: model.Roofs, space: Plane) -> labels.Label:
    lowest = min(one.value for one in roofs.bandwidths)
    texts = (f"{roof.name} {units.si(roof.value, 'B/s')}", roof.name)
    line, below = _slanted(roof.value, roofs, space), _slanted(lowest, roofs, space)
    return roof_labels.slanted(f"level {roof.name}", texts, line, below)


def _ridge_label(flat: Flat, memory: model.Roof, space: Plane) -> labels.Label:
    bandwidth = memory.value if flat.top is None else model.alike(memory, flat.top)
    intensity = model.ridge(flat.value, bandwidth)
    x, y = space.pixel(intensity, flat.value)
    text = f"{intensity:.3g}"
    half, down = text_width(text) / 2 + 2, axes.TEXT_HEIGHT / 2 + 5
    beside = (axes.box(text, x + half + 3, y + down), axes.box(text, x + half + 8, y - down))
    return labels.Label(
        f"ridge {flat.names[0]}", ((text, (*beside, *axes.around(text, x, y, 6)[:8])),), needed=False
    )


def _lines(roofs: model.Roofs, drawn: Layout, colours: dict[str, str], theme: Theme) -> list[alt.Chart]:
    """The roofs as line layers: theory first, so that what was attained lies on top."""
    space = drawn.plane
    theory, solid = [], []
    for roof in roofs.bandwidths:
        colour, tip = colours[roof.name], f"{roof.name} {roof.rate.what} {units.si(roof.value, 'B/s')}"
        solid.append((_slanted(roof.value, roofs, space), colour, tip))
        if roof.theory:
            line = _slanted(roof.theory.value, roofs, space)
            theory.append((line, colour, f"{roof.name} theory {units.si(roof.theory.value, 'B/s')}"))
    for flat in drawn.flats:
        solid.append((_flat(flat.value, roofs, space), theme.ink, flat.text))
        if flat.theory:
            text = f"{flat.short} theory {units.si(flat.theory, flat.unit)}"
            theory.append((_flat(flat.theory, roofs, space), theme.ink, text))
    return [_line_layer(theory, space, 0.9, (3, 3)), _line_layer(solid, space, 2.2, None)]


def _line_layer(lines: list, space: Plane, thick: float, dash: tuple[int, int] | None) -> alt.Chart:
    import altair as alt

    rows = []
    for number, (ends, colour, tip) in enumerate(lines):
        for end in ends:
            x, y = space.data(*end)
            rows.append({"x": x, "y": y, "line": number, "colour": colour, "roof": tip})
    mark: dict[str, Any] = {"strokeWidth": thick, "strokeDash": list(dash)} if dash else {"strokeWidth": thick}
    base = alt.Chart(alt.Data(values=rows)).mark_line(**mark, clip=True)
    tip = alt.Tooltip("roof:N", title="roof")
    return base.encode(detail="line:N", color=alt.Color("colour:N", scale=None), tooltip=tip)


def _marks(machine: Machine, roofs: model.Roofs, scope: Scope, drawn: Layout, theme: Theme) -> list[alt.Chart]:
    """Rings on the ridge points, dots on the known kernels."""
    import altair as alt

    rings = [
        {
            "x": each.intensity,
            "y": each.flop_per_s,
            "ridge": f"{each.level} meets {each.peak} at {each.intensity:.3g} FLOP/byte",
        }
        for each in model.ridges(roofs)
    ]
    layers = [
        alt.Chart(alt.Data(values=rings))
        .mark_point(size=26, filled=True, fill=theme.background, stroke=theme.ink, strokeWidth=1.1, opacity=1)
        .encode(tooltip=alt.Tooltip("ridge:N", title="ridge point"))
    ]
    dots = []
    for point in drawable(machine, scope):
        under = model.place(point, machine)
        share = "" if under is None else f", {units.percent(under.share)} of what {under.binds} allows"
        text = f"{units.si(point.flop_per_s, 'FLOP/s')} at {point.intensity:.3g} FLOP/byte{share}"
        dots.append({"x": point.intensity, "y": point.flop_per_s, "kernel": point.name, "attained": text})
    if dots:
        style: dict[str, Any] = {"size": 80, "filled": True, "fill": theme.point, "stroke": theme.background}
        mark = alt.Chart(alt.Data(values=dots)).mark_point(**style, strokeWidth=1.2, opacity=1)
        layers.append(mark.encode(tooltip=["kernel:N", "attained:N"]))
    return layers
