"""The roofline of one profile or of several: all roofs, and each operation where it was measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from rooflab.types.machine import Machine
from rooflab.types.profile import Profile
from rooflab.units import si
from rooflab.views.common import axes, labels
from rooflab.views.common.axes import Plane
from rooflab.views.common.theme import LIGHT, Theme, config, text_width
from rooflab.views.profile.marks import MAIN, Mark, Roof, Scene, scene

if TYPE_CHECKING:
    import altair as alt

NAMED = 8  # operations with the most time that may have their name written
_STRIP_NAMED = 4
SMALLEST, LARGEST = 5.0, 24.0  # diameters of the marks in pixels
_STRIP = 64  # pixels of the axis of those without FLOP
_DASHES = ((1, 0), (7, 3), (2, 3), (10, 3, 2, 3))
_MACHINE = 26  # letters of a machine's name on a roof
_FRACTION = "datum.value < 0.9 ? '1/' + format(1 / datum.value, ',.0f') : format(datum.value, ',.0f')"


Segment = tuple[labels.Vertex, labels.Vertex]


class Layout(NamedTuple):
    """Everything that is drawn, before it is drawn: what the label tests look at."""

    scene: Scene
    plane: Plane
    placed: tuple[labels.Placed, ...]
    strip: Plane | None
    strip_placed: tuple[labels.Placed, ...]


def roofline(profile: Profile, *, theme: Theme = LIGHT, width: int = 720, height: int = 440) -> Any:
    """The operations of `profile` under the roofs of its machine.

    Raises:
        RooflabError: no operation with a place, and no roof.
    """
    return draw(profile.name, (profile,), (), theme, width, height)


def draw(
    name: str, profiles: Sequence[Profile], machines: Sequence[Machine], theme: Theme, width: int, height: int
) -> alt.LayerChart | alt.VConcatChart:
    """Roofs and marks on one plane, and under it those without FLOP on an axis of bytes a second."""
    import altair as alt

    drawn = layout(scene(name, profiles, machines), width, height)
    colours = group_colours(drawn.scene, theme)
    upper = _upper(drawn, colours, theme)
    title = axes.title_of(drawn.scene.name, subtitle(drawn.scene), width)
    if drawn.strip is None:
        return cast("alt.LayerChart", upper.properties(title=title, config=config(theme)))
    lower = _lower(drawn, drawn.strip, colours, theme)
    both: Any = alt.vconcat(upper, lower, spacing=14).resolve_scale(color="independent")
    return both.properties(title=title, config=config(theme))


def layout(what: Scene, width: int = 720, height: int = 440) -> Layout:
    """Where every line, mark and label goes, in pixels."""
    marks = [mark for mark in what.marks if mark.intensity]
    space = _plane(what.roofs, marks, width, height)
    still = [mark for mark in what.marks if not mark.intensity]
    strip = _strip(what.roofs, still, width) if still else None
    strip_placed = () if strip is None else _strip_labels(what, still, strip)
    return Layout(what, space, _labels(what, marks, space), strip, strip_placed)


def subtitle(what: Scene) -> str:
    """The convention of what is drawn, in one sentence."""
    where = "each operation as measured; area: its share of the file's time"
    one = next(iter(what.machines)) if len(what.machines) == 1 else None
    where = f"{where[0].upper()}{where[1:]}" if one is None else f"On {one}: {where}"
    levels = ", ".join(what.other_levels)
    other = f"; triangles: by bytes of {levels}, where only those were counted" if levels else ""
    left = f"; {what.left:,} without known FLOP or bytes not drawn" if what.left else ""
    roofs = f" Roofs: {' or '.join(what.bases)}." if what.roofs else ""
    return f"{where}{other}{left}.{roofs}"


def group_colours(what: Scene, theme: Theme) -> dict[str, str]:
    """The colour of each group: of what binds as in reports, of files in their order."""
    bounds = {
        "memory-bound": theme.memory,
        "compute-bound": theme.caches[1],
        "balanced": theme.caches[2],
        "overhead-bound": theme.muted,
        "bound not known": theme.point,
    }
    if all(group in bounds for group in what.groups):
        return {group: bounds[group] for group in what.groups}
    palette = (theme.caches[1], theme.point, theme.caches[2], theme.memory, theme.caches[0], theme.caches[3])
    return {group: palette[number % len(palette)] for number, group in enumerate(what.groups)}


def _plane(roofs: Sequence[Roof], marks: Sequence[Mark], width: int, height: int) -> Plane:
    """Axes that hold every roof, ridge and mark with room to write."""
    bandwidths = [roof.value for roof in roofs if roof.slanted]
    peaks = [roof.value for roof in roofs if not roof.slanted]
    intensities = [mark.intensity or 1.0 for mark in marks]
    ridges = [
        flat.value / slanted.value
        for flat in roofs
        for slanted in roofs
        if flat.machine == slanted.machine and slanted.slanted and not flat.slanted
    ]
    x0 = 2.0 ** math.floor(math.log2(min([*intensities, *ridges, 1.0]) / 2))
    x1 = 2.0 ** math.ceil(math.log2(max([4 * max([*intensities, 1.0]), *(8 * one for one in ridges)])))
    speeds = [mark.flop_per_s for mark in marks]
    top = max([*peaks, *speeds, *(bandwidth * x1 / 8 for bandwidth in bandwidths if not peaks)])
    low = min([top / 30, *(speed / 3 for speed in speeds), *(2 * x0 * bandwidth for bandwidth in bandwidths)])
    return Plane(x0, x1, low, top * 3, width, height)


def _strip(roofs: Sequence[Roof], still: Sequence[Mark], width: int) -> Plane:
    values = [mark.bytes_per_s for mark in still] + [roof.value for roof in roofs if roof.slanted]
    return Plane(min(values) / 2, max(values) * 2.5, 0.0, 1.0, width, _STRIP, log_y=False)


def _top(what: Sequence[Roof], machine: str, space: Plane) -> float:
    """Where a machine's slanted roof ends: at its highest peak, without one at the plane's edge."""
    return max((roof.value for roof in what if roof.machine == machine and not roof.slanted), default=space.y1)


def _ends(roof: Roof, roofs: Sequence[Roof], space: Plane) -> tuple[labels.Vertex, labels.Vertex]:
    """The pixels of a roof's line."""
    if roof.slanted:
        start = max(space.x0, space.y0 / roof.value)
        end = min(space.x1, _top(roofs, roof.machine, space) / roof.value)
        return space.pixel(start, start * roof.value), space.pixel(end, end * roof.value)
    fastest = max((one.value for one in roofs if one.machine == roof.machine and one.slanted), default=None)
    left = space.x0 if fastest is None else max(space.x0, roof.value / fastest)
    return space.pixel(left, roof.value), space.pixel(space.x1, roof.value)


def _roof_text(roof: Roof, several: bool) -> tuple[str, ...]:
    """What is written on a roof, the fullest first."""
    value = f"{roof.name} {si(roof.value, roof.unit)}"
    named = roof.machine if len(roof.machine) <= _MACHINE else f"{roof.machine[: _MACHINE - 1]}…"
    return (f"{named}: {value}", value, roof.name) if several else (value, roof.name)


def _roof_label(roof: Roof, what: Scene, space: Plane) -> labels.Label:
    (x0, y0), (x1, y1) = _ends(roof, what.roofs, space)
    length = math.hypot(x1 - x0, y1 - y0) or 1.0
    angle = round(math.degrees(math.atan2(y1 - y0, x1 - x0)), 3)
    across, down = (x1 - x0) / length, (y1 - y0) / length

    def places(text: str) -> tuple[labels.Box, ...]:
        half, above = text_width(text) / 2 + 6, axes.TEXT_HEIGHT / 2 + 2
        boxes = []
        steps = range(int(half), max(int(length - half), int(half) + 1), 12)
        for along in steps if roof.slanted else reversed(steps):
            for side in (-above, above, -above - 8, above + 8):
                boxes.append(
                    axes.box(text, x0 + along * across - side * down, y0 + along * down + side * across, angle)
                )
        return tuple(boxes)

    texts = _roof_text(roof, len(what.machines) > 1)
    others = [_ends(one, what.roofs, space) for one in what.roofs if one != roof]
    # Shorter before across another roof; across one before not at all.
    clear = [(text, _off(places(text), others)) for text in texts]
    return labels.Label(_key(roof), (*clear, *((text, places(text)) for text in texts[-2:])))


def _off(boxes: Sequence[labels.Box], lines: Sequence[Segment]) -> tuple[labels.Box, ...]:
    """Those of `boxes` that no line enters."""
    return tuple(box for box in boxes if not any(labels.crosses(box, line) for line in lines))


def _key(roof: Roof) -> str:
    return f"roof {roof.machine} {roof.name}"


def _diameter(mark: Mark) -> float:
    return SMALLEST + (LARGEST - SMALLEST) * math.sqrt(min(1.0, mark.share))


def _labels(what: Scene, marks: Sequence[Mark], space: Plane) -> tuple[labels.Placed, ...]:
    segments = [_ends(roof, what.roofs, space) for roof in what.roofs]
    wanted = [_roof_label(roof, what, space) for roof in sorted(what.roofs, key=lambda one: one.slanted)]
    for number, (mark, others) in enumerate(_together(marks, space)[:NAMED]):
        if not mark.time_s:
            continue  # a benchmark's own kernels: their file's colour says enough
        where, gap = space.pixel(mark.intensity or 1.0, mark.flop_per_s), _diameter(mark) / 2 + 3
        more = f" and {others} more" if others else ""
        short = f"{mark.name[:16]}…" if len(mark.name) > 17 else mark.name
        texts = dict.fromkeys((mark.name + more, mark.name, short))
        # The two nearest rings: further off it is not seen whose name it is.
        near = {text: axes.around(text, *where, gap)[:16] for text in texts}
        clear = [(text, _off(boxes, segments)) for text, boxes in near.items()]
        choices = (*clear, *near.items())
        wanted.append(labels.Label(f"mark {number}", choices))
    taken = []
    for mark in marks:
        at = space.pixel(mark.intensity or 1.0, mark.flop_per_s)
        taken.append(labels.Box(*at, _diameter(mark), _diameter(mark)))
    return labels.place(wanted, taken, space.frame(), segments)


def _together(marks: Sequence[Mark], space: Plane) -> list[tuple[Mark, int]]:
    """The marks that are seen apart, most time first, each with the number of those that it covers."""
    seen: list[tuple[Mark, int]] = []
    for mark in marks:
        at = space.pixel(mark.intensity or 1.0, mark.flop_per_s)
        for place, (larger, others) in enumerate(seen):
            if math.dist(at, space.pixel(larger.intensity or 1.0, larger.flop_per_s)) < _diameter(larger) / 2:
                seen[place] = (larger, others + 1)
                break
        else:
            seen.append((mark, 0))
    return seen


def _strip_labels(what: Scene, still: Sequence[Mark], strip: Plane) -> tuple[labels.Placed, ...]:
    wanted = []
    rules = [roof for roof in what.roofs if roof.slanted]
    for roof in rules:
        x, _ = strip.pixel(roof.value, 0.5)
        text = si(roof.value, roof.unit)  # its line above has its name
        half = text_width(text) / 2 + 6
        at = ((x - half, 9), (x + half, 9), (x - half, _STRIP - 9), (x + half, _STRIP - 9))
        wanted.append(labels.Label(_key(roof), ((text, tuple(axes.box(text, *one) for one in at)),)))
    most = {mark.name: mark for mark in reversed(still)}  # of one name that with the most time
    for number, mark in enumerate(sorted(most.values(), key=lambda one: -one.time_s)[:_STRIP_NAMED]):
        where = strip.pixel(mark.bytes_per_s, 0.5)
        wanted.append(labels.Label(f"mark {number}", ((mark.name, axes.around(mark.name, *where, 7)[:16]),)))
    taken = [labels.Box(*strip.pixel(mark.bytes_per_s, 0.5), _diameter(mark), _diameter(mark)) for mark in still]
    segments = [(strip.pixel(roof.value, 0.0), strip.pixel(roof.value, 1.0)) for roof in rules]
    return labels.place(wanted, taken, strip.frame(), segments)


def _upper(drawn: Layout, colours: dict[str, str], theme: Theme) -> Any:
    import altair as alt

    space, what = drawn.plane, drawn.scene
    x, y = axes.roofline_axes(space, f"Arithmetic intensity (FLOP per byte of {MAIN})", _FRACTION, "FLOP/s")
    ends = [(roof, [space.data(*end) for end in _ends(roof, what.roofs, space)]) for roof in what.roofs]
    lines = _lines(ends, what, colours, theme)
    columns = max(1, int(space.width // 180)) if len(colours) > 1 else 0
    dots = _dots([mark for mark in what.marks if mark.intensity], colours, theme, columns)
    of_label = {_key(roof): _roof_colour(roof, what, colours, theme) for roof in what.roofs}
    layers = [*lines, dots, *axes.texts(drawn.placed, space, of_label, theme)]
    whole: Any = alt.layer(*(layer.encode(x=x, y=y) for layer in layers)).resolve_scale(color="independent")
    return whole.properties(width=space.width, height=space.height)


def _lower(drawn: Layout, strip: Plane, colours: dict[str, str], theme: Theme) -> Any:
    import altair as alt

    what = drawn.scene
    ticks = axes.decades(strip.x0, strip.x1)
    x = alt.X(
        "x:Q",
        title="Operations without FLOP: bytes a second",
        scale=alt.Scale(type="log", domain=[strip.x0, strip.x1], nice=False),
        axis=alt.Axis(values=ticks, labelExpr=axes.si_label("B/s")),
    )
    y = alt.Y("y:Q", title=None, scale=alt.Scale(domain=[0, 1], nice=False), axis=None)
    ends = [(roof, [(roof.value, 0.0), (roof.value, 1.0)]) for roof in what.roofs if roof.slanted]
    lines = _lines(ends, what, colours, theme)
    dots = _dots([mark for mark in what.marks if not mark.intensity], colours, theme, 0)
    of_label = {_key(roof): _roof_colour(roof, what, colours, theme) for roof in what.roofs}
    layers = [*lines, dots, *axes.texts(drawn.strip_placed, strip, of_label, theme)]
    whole: Any = alt.layer(*(layer.encode(x=x, y=y) for layer in layers)).resolve_scale(color="independent")
    return whole.properties(width=strip.width, height=strip.height)


def _lines(
    ends: Sequence[tuple[Roof, Sequence[labels.Vertex]]], what: Scene, colours: dict[str, str], theme: Theme
) -> list[Any]:
    """A layer of lines for each way of dashing them."""
    import altair as alt

    layers = []
    by_dash: dict[tuple[int, ...], list[dict[str, object]]] = {}
    for number, (roof, points) in enumerate(ends):
        colour, tip = _roof_colour(roof, what, colours, theme), f"{roof.machine}: {_roof_text(roof, False)[0]}"
        rows = by_dash.setdefault(_dash(roof, what, colours), [])
        rows += [{"x": x, "y": y, "line": number, "colour": colour, "roof": tip} for x, y in points]
    for dash, rows in by_dash.items():
        base = alt.Chart(alt.Data(values=rows)).mark_line(strokeWidth=2.0, strokeDash=list(dash), clip=True)
        colour = alt.Color("colour:N", scale=None)
        layers.append(base.encode(detail="line:N", color=colour, tooltip=alt.Tooltip("roof:N")))
    return layers


def _roof_colour(roof: Roof, what: Scene, colours: dict[str, str], theme: Theme) -> str:
    """Of one machine by kind; of several the colour of the one file that was recorded on it."""
    if len(what.machines) == 1:
        return theme.memory if roof.slanted else theme.ink
    files = what.machines[roof.machine]
    return colours.get(files[0], theme.ink) if len(files) == 1 else theme.ink


def _dash(roof: Roof, what: Scene, colours: dict[str, str]) -> tuple[int, ...]:
    """Machines without a colour of their own are told apart by dashes."""
    plain = [one for one, files in what.machines.items() if len(files) != 1 or files[0] not in colours]
    number = plain.index(roof.machine) if roof.machine in plain and len(plain) > 1 else 0
    return _DASHES[number % len(_DASHES)]


def _dots(marks: Sequence[Mark], colours: dict[str, str], theme: Theme, columns: int) -> Any:
    """The marks, small ones over large ones; a legend of so many columns, of none without."""
    import altair as alt

    rows = [
        {
            "x": mark.intensity if mark.intensity else mark.bytes_per_s,
            "y": mark.flop_per_s if mark.intensity else 0.5,
            "area": _diameter(mark) ** 2,
            "group": mark.group,
            "shape": "circle" if mark.level == MAIN else "triangle-up",
            "operation": mark.name,
            "file": mark.file,
            "attained": mark.tip,
        }
        for mark in sorted(marks, key=lambda one: -one.share)
    ]
    # Outlines thin, fills that let through what is under them: many marks on one place do not erase each other.
    style: dict[str, Any] = {"filled": True, "stroke": theme.background, "strokeWidth": 0.6, "fillOpacity": 0.72}
    scale = alt.Scale(domain=list(colours), range=list(colours.values()))
    legend = alt.Legend(
        title=None, orient="top", labelLimit=420, columns=columns, symbolOpacity=1, columnPadding=32
    )
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_point(**style)
        .encode(
            size=alt.Size("area:Q", scale=None),
            shape=alt.Shape("shape:N", scale=None),
            color=alt.Color("group:N", scale=scale, legend=legend if columns else None),
            tooltip=["operation:N", "file:N", "attained:N"],
        )
    )
