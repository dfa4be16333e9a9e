"""The curves behind the numbers: bandwidth and latency over the working set, scaling over threads."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

from rooflab import units
from rooflab.types.machine import Curve, Machine, is_cache
from rooflab.types.measured import Plateau
from rooflab.views.common import axes, labels
from rooflab.views.common.axes import Plane
from rooflab.views.common.theme import LIGHT, Theme, text_width

if TYPE_CHECKING:
    import altair as alt

FOUND_IS_REPORTED = 1.1  # capacities nearer than this share one rule
_TOP = 40  # pixels kept free above the curves for the names of the capacities

SIZE = (
    "datum.value >= 1073741824 ? datum.value / 1073741824 + ' GiB' : "
    "datum.value >= 1048576 ? datum.value / 1048576 + ' MiB' : "
    "datum.value >= 1024 ? datum.value / 1024 + ' KiB' : datum.value + ' B'"
)
_TIME = (
    "datum.value >= 0.999e-3 ? format(datum.value * 1e3, '~r') + ' ms' : "
    "datum.value >= 0.999e-6 ? format(datum.value * 1e6, '~r') + ' µs' : format(datum.value * 1e9, '~r') + ' ns'"
)
_TITLES = {"byte/s": "bandwidth", "s": "latency"}


def over_size(machine: Machine, y_unit: str) -> tuple[Curve, ...]:
    """The curves of `machine` over the working-set size, of the first name whose y is "byte/s" or "s"."""
    ours = [curve for curve in machine.curves if (curve.x_unit, curve.y_unit) == ("byte", y_unit)]
    return tuple(curve for curve in ours if curve.name == ours[0].name)


def over_threads(machine: Machine) -> tuple[Curve, ...]:
    """The curves of `machine` over the number of threads, of the first unit that has any."""
    ours = [curve for curve in machine.curves if curve.x_unit == "thread"]
    return tuple(curve for curve in ours if curve.y_unit == ours[0].y_unit)


def bandwidth(
    machine: Machine, *, theme: Theme = LIGHT, width: int = 720, height: int = 340
) -> alt.LayerChart | None:
    """Bandwidth over the working-set size of one core, with plateaus and capacities; None unmeasured."""
    return _sized(machine, over_size(machine, "byte/s"), theme, width, height)


def latency(
    machine: Machine, *, theme: Theme = LIGHT, width: int = 720, height: int = 340
) -> alt.LayerChart | None:
    """Latency over the working-set size, with plateaus and capacities; None unmeasured."""
    return _sized(machine, over_size(machine, "s"), theme, width, height)


def scaling(
    machine: Machine, *, theme: Theme = LIGHT, width: int = 720, height: int = 220
) -> alt.LayerChart | None:
    """Bandwidth over the number of threads; None unmeasured or with a single number of threads."""
    import altair as alt

    curves = over_threads(machine)
    if not curves or len(curves[0].x) < 2:
        return None
    last = max(curve.x[-1] for curve in curves)
    top = max(max(curve.best) for curve in curves) * 1.25
    space = Plane(0.75, last + 0.25, 0, top, width, height, log_x=False, log_y=False)
    step = max(1, math.ceil(last / 16))
    x = alt.X(
        "x:Q",
        title="threads",
        scale=alt.Scale(domain=[space.x0, space.x1], nice=False),
        axis=alt.Axis(values=list(range(step if step > 1 else 1, int(last) + 1, step)), format="d"),
    )
    ticks = _linear_ticks(top)
    y = _y(space, ticks, axes.si_label("B/s"))
    layers = _drawn(curves, theme)
    best = max(range(len(curves[0].x)), key=lambda i: curves[0].best[i])
    at = space.pixel(curves[0].x[best], curves[0].best[best])
    text = f"{units.si(curves[0].best[best], 'B/s')} with {curves[0].x[best]:.0f}"
    placed = labels.place([labels.Label("best", ((text, axes.around(text, *at)),))], [], space.frame())
    layers += axes.texts(placed, space, {}, theme)
    subtitle = "Best of the rounds; faint: median"
    return axes.finish(layers, x, y, _titled(curves[0].name), subtitle, space, theme)


def _sized(
    machine: Machine, curves: tuple[Curve, ...], theme: Theme, width: int, height: int
) -> alt.LayerChart | None:
    import altair as alt

    if not curves:
        return None
    space = plane_of(curves, width, height)
    placed, rules = layout(machine, curves, space)
    x = alt.X(
        "x:Q",
        title="Working set of one core",
        scale=alt.Scale(type="log", base=2, domain=[space.x0, space.x1], nice=False),
        axis=alt.Axis(values=axes.powers(space.x0, space.x1, 2.0 ** _octaves(space)), labelExpr=SIZE),
    )
    unit = curves[0].y_unit
    label = _TIME if unit == "s" else axes.si_label("B/s")
    # Above the curves lie the capacities' names: no tick there.
    ticks = [tick for tick in axes.decades(space.y0, space.y1) if space.pixel(space.x0, tick)[1] > _TOP - 8]
    y = _y(space, ticks, label, log=True)
    layers = [*_rules(rules, space, theme), *_drawn(curves, theme), *_plateaus(curves, theme)]
    colours = {label.key: theme.muted for label in placed if label.key.startswith("rule")}
    layers += axes.texts(placed, space, colours, theme)
    name = f"{curves[0].name} over working set"
    subtitle = "Best of the rounds; faint: median. Rules: capacity found, dashed: reported by the system"
    return axes.finish(layers, x, y, _titled(name), subtitle, space, theme)


def layout(
    machine: Machine, curves: tuple[Curve, ...], space: Plane
) -> tuple[tuple[labels.Placed, ...], list[tuple[float, str, bool]]]:
    """Where the plateaus' and capacities' labels go, and the rules: bytes, text, whether reported only."""
    rules = [rule for rule in capacities(machine) if space.x0 < rule[0] < space.x1]
    wanted = []
    for number, (at, text, _) in enumerate(rules):
        x, _y0 = space.pixel(at, space.y1)
        texts = (text, text.partition(" ")[0])
        wanted.append(labels.Label(f"rule {number}", tuple((each, _beside_rule(each, x)) for each in texts)))
    segments = [(space.pixel(at, space.y0), space.pixel(at, space.y1)) for at, *_ in rules]
    for curve in curves:
        line = [space.pixel(x, y) for x, y in zip(curve.x, curve.best, strict=True)]
        segments += list(itertools.pairwise(line))
        for plateau in curve.plateaus:
            wanted.append(_plateau_label(curve, plateau, space))
    return labels.place(wanted, [], space.frame(), segments), rules


def capacities(machine: Machine) -> list[tuple[float, str, bool]]:
    """A rule for each capacity of a cache: bytes, what is written at it, whether it is only reported."""
    rules = []
    for level in machine.levels:
        measured, reported = level.capacity_bytes, level.reported_capacity_bytes
        if not is_cache(level):
            continue
        if measured and reported and 1 / FOUND_IS_REPORTED < measured / reported < FOUND_IS_REPORTED:
            rules.append((measured, f"{level.name} {units.iec(measured)}", False))
            continue
        if measured:
            rules.append((measured, f"{level.name} {units.iec(measured, 3)} found", False))
        if reported:
            rules.append((reported, f"{level.name} {units.iec(reported)} reported", True))
    return rules


def _plateau_label(curve: Curve, plateau: Plateau, space: Plane) -> labels.Label:
    unit = "s" if curve.y_unit == "s" else "B/s"
    text = f"{plateau.level} {units.si(plateau.value, unit)}"
    (x0, y), (x1, _) = space.pixel(plateau.first, plateau.value), space.pixel(plateau.last, plateau.value)
    above = axes.TEXT_HEIGHT / 2 + 4

    def places(text: str) -> tuple[labels.Box, ...]:
        half = text_width(text) / 2 + 2
        middle = max(min((x0 + x1) / 2, space.width - half), half)
        shifts = (0, -20, 20, -40, 40)
        return tuple(axes.box(text, middle + dx, y + dy) for dx in shifts for dy in (-above, above))

    key = f"plateau {curve.scope} {plateau.level}"
    return labels.Label(key, tuple((each, places(each)) for each in (text, plateau.level)))


def _beside_rule(text: str, x: float) -> tuple[labels.Box, ...]:
    """Places for `text` at the top of the rule at pixel `x`: right of it in three rows, then left."""
    half = text_width(text) / 2 + 2
    rows = (axes.TEXT_HEIGHT * 0.5 + 1, axes.TEXT_HEIGHT * 1.5 + 3, axes.TEXT_HEIGHT * 2.5 + 5)
    return tuple(axes.box(text, x + side * (half + 3), row) for side in (1, -1) for row in rows)


def plane_of(curves: tuple[Curve, ...], width: int, height: int) -> Plane:
    """Logarithmic axes that hold the curves, with a strip free at the top."""
    values = [y for curve in curves for y in (*curve.best, *curve.median)]
    x0, x1 = min(curve.x[0] for curve in curves), max(curve.x[-1] for curve in curves)
    low, high = min(values) / 1.6, max(values) * 1.5
    high *= (high / low) ** (_TOP / (height - _TOP))
    return Plane(x0 / 1.2, x1 * 1.2, low, high, width, height)


def _titled(name: str) -> str:
    """The name of a curve as a title: it begins with a capital."""
    return name[:1].upper() + name[1:]


def _octaves(space: Plane) -> int:
    """How many doublings lie between two ticks, so that about eight fit in 700 pixels."""
    return max(1, math.ceil(math.log2(space.x1 / space.x0) / max(2, space.width / 80)))


def _linear_ticks(top: float) -> list[float]:
    size = 10.0 ** math.floor(math.log10(top))
    step = next(step for step in (size / 5, size / 2, size, size * 2) if top / step <= 6)
    return [step * i for i in range(1, int(top / step) + 1)]


def _y(space: Plane, ticks: list[float], label: str, log: bool = False) -> alt.Y:
    import altair as alt

    scale = alt.Scale(type="log" if log else "linear", domain=[space.y0, space.y1], nice=False)
    return alt.Y("y:Q", title=None, scale=scale, axis=alt.Axis(values=ticks, labelExpr=label))


def _scope(curve: Curve) -> str:
    if curve.scope != "all":
        return f"one {curve.scope}"
    return "all granted" if curve.x_unit == "thread" or curve.threads is None else f"all {curve.threads} threads"


def _drawn(curves: tuple[Curve, ...], theme: Theme) -> list[alt.Chart]:
    """The best as a line with dots, the median faint."""
    import altair as alt

    names = list(dict.fromkeys(_scope(curve) for curve in curves))
    palette = [theme.caches[1], theme.memory, theme.caches[2], theme.caches[0]][: len(names)]
    legend = None
    if len(names) > 1:
        legend = alt.Legend(orient="top", title=None, symbolType="stroke", symbolStrokeWidth=3)
    colour = alt.Color("who:N", scale=alt.Scale(domain=names, range=palette), legend=legend)
    layers = []
    kinds: tuple[tuple[str, dict[str, Any]], ...] = (
        ("median", {"strokeWidth": 1.2, "opacity": 0.45}),
        ("best", {"strokeWidth": 2}),
    )
    for kind, style in kinds:
        rows = [
            {"x": x, "y": y, "who": _scope(curve)}
            for curve in curves
            for x, y in zip(curve.x, getattr(curve, kind), strict=True)
        ]
        layers.append(alt.Chart(alt.Data(values=rows)).mark_line(**style).encode(color=colour))
        if kind == "best":
            dots = alt.Chart(alt.Data(values=rows)).mark_point(filled=True, size=14, opacity=1)
            layers.append(dots.encode(color=colour, tooltip=["who:N", "x:Q", "y:Q"]))
    return layers


def _plateaus(curves: tuple[Curve, ...], theme: Theme) -> list[alt.Chart]:
    import altair as alt

    rows = [
        {"x": plateau.first, "end": plateau.last, "y": plateau.value, "level": plateau.level}
        for curve in curves
        for plateau in curve.plateaus
    ]
    style: dict[str, Any] = {"strokeWidth": 5, "opacity": 0.3, "color": theme.ink, "strokeCap": "round"}
    mark = alt.Chart(alt.Data(values=rows)).mark_rule(**style)
    return [mark.encode(x2="end:Q", tooltip=["level:N", "y:Q"])] if rows else []


def _rules(rules: list[tuple[float, str, bool]], space: Plane, theme: Theme) -> list[alt.Chart]:
    import altair as alt

    layers = []
    for reported in (False, True):
        rows = [
            {"x": at, "y": space.y0, "end": space.y1, "capacity": text}
            for at, text, only in rules
            if only == reported
        ]
        dash: dict[str, Any] = {"strokeDash": [4, 3]} if reported else {}
        mark = alt.Chart(alt.Data(values=rows)).mark_rule(color=theme.muted, strokeWidth=1, **dash)
        layers += [mark.encode(y2="end:Q", tooltip="capacity:N")] if rows else []
    return layers
