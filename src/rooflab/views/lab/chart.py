"""A sweep of the teaching model as a chart: three times over the parameter."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from rooflab.types.lab import Sweep
from rooflab.units import si
from rooflab.views.common import axes, labels
from rooflab.views.common.axes import Plane
from rooflab.views.common.theme import LIGHT, Theme
from rooflab.views.lab import terminal

if TYPE_CHECKING:
    import altair as alt

_TIME = (
    "datum.value >= 0.999 ? format(datum.value, '~r') + ' s' : "
    "datum.value >= 0.999e-3 ? format(datum.value * 1e3, '~r') + ' ms' : "
    "datum.value >= 0.999e-6 ? format(datum.value * 1e6, '~r') + ' µs' : format(datum.value * 1e9, '~r') + ' ns'"
)
_PLAIN = "format(datum.value, ',~r')"
_LINES = ("memory", "compute", "total")


def chart(sweep: Sweep, *, theme: Theme = LIGHT, width: int = 720, height: int = 380) -> alt.LayerChart:
    """Memory, compute and total time over the parameter, with a rule where it turns."""
    import altair as alt

    space = plane_of(sweep, width, height)
    colours = {"memory": theme.memory, "compute": theme.caches[1], "total": theme.muted}
    layers, label = [], sweep.parameter.replace("-", " ")
    for name in _LINES:
        rows = [
            {"x": x, "y": y, "at": f"{label} {terminal.value_text(sweep.parameter, x)}", "time": si(y, "s")}
            for x, y in _points(sweep, name)
        ]
        dash: dict[str, Any] = {"strokeDash": [5, 4]} if name == "total" else {}
        line = alt.Chart(alt.Data(values=rows)).mark_line(color=colours[name], strokeWidth=2, **dash)
        dots = alt.Chart(alt.Data(values=rows)).mark_point(filled=True, size=22, opacity=1, color=colours[name])
        layers += [line, dots.encode(tooltip=[alt.Tooltip("at:N", title="at"), alt.Tooltip("time:N", title=name)])]
    if sweep.turns_at is not None and space.x0 < sweep.turns_at < space.x1:
        rule = [{"x": sweep.turns_at, "y": space.y0, "end": space.y1}]
        mark = alt.Chart(alt.Data(values=rule)).mark_rule(color=theme.point, strokeWidth=1.2)
        layers.append(mark.encode(y2="end:Q"))
    layers += axes.texts(placed(sweep, space), space, colours | {"turn": theme.point}, theme)
    x_title, ticks, tick_text = _x_axis(sweep, space)
    scale = "log" if space.log_x else "linear"
    x = alt.X(
        "x:Q",
        title=x_title,
        scale=alt.Scale(type=scale, domain=[space.x0, space.x1], nice=False),
        axis=alt.Axis(values=ticks, labelExpr=tick_text),
    )
    y = alt.Y(
        "y:Q",
        title="time",
        scale=alt.Scale(type="log", domain=[space.y0, space.y1], nice=False),
        axis=alt.Axis(values=axes.decades(space.y0, space.y1), labelExpr=_TIME),
    )
    return axes.finish(layers, x, y, sweep.name, "; ".join(terminal.fixed(sweep)), space, theme)


def placed(sweep: Sweep, space: Plane) -> tuple[labels.Placed, ...]:
    """The names of the lines beside them, and of the rule, where nothing lies on nothing."""
    wanted, segments = [], []
    for name in _LINES:
        line = [space.pixel(x, y) for x, y in _points(sweep, name)]
        segments += list(itertools.pairwise(line))
        # The total is apart from both others in the middle, they from each other at the ends.
        at = (line[len(line) // 2],) if name == "total" else (line[len(line) // 6], line[-1 - len(line) // 6])
        places = [each for vertex in at for each in axes.around(name, *vertex)]
        wanted.append(labels.Label(name, ((name, tuple(places)),)))
    if sweep.turns_at is not None and space.x0 < sweep.turns_at < space.x1:
        text = f"equal at {terminal.value_text(sweep.parameter, sweep.turns_at)}"
        x, _ = space.pixel(sweep.turns_at, space.y1)
        half = axes.box(text, 0, 0).width / 2 + 4
        at = tuple(axes.box(text, x + side * half, row) for side in (1, -1) for row in (10, 26, 42))
        segments.append(((x, 0), (x, space.height)))
        wanted.append(labels.Label("turn", ((text, at),)))
    return labels.place(wanted, [], space.frame(), segments)


def _points(sweep: Sweep, name: str) -> list[tuple[float, float]]:
    return [
        (value, seconds)
        for value, each in zip(sweep.values, sweep.results, strict=True)
        if (seconds := getattr(each, f"{name}_s")) > 0
    ]


def plane_of(sweep: Sweep, width: int, height: int) -> Plane:
    """The axes that hold the sweep: time is logarithmic, so is the parameter unless it starts at zero."""
    log_x = sweep.parameter != "hit-rate" and sweep.values[0] > 0
    seconds = [y for name in _LINES for _, y in _points(sweep, name)]
    first, last = sweep.values[0], sweep.values[-1]
    if first == last:
        first, last = (first / 2, last * 2) if log_x else (first - 0.1, last + 0.1)
    return Plane(first, last, min(seconds) / 1.5, max(seconds) * 2, width, height, log_x=log_x)


def _x_axis(sweep: Sweep, space: Plane) -> tuple[str, list[float], str]:
    """The title of the axis, its ticks, and how Vega writes one."""
    if sweep.parameter == "hit-rate":
        return "hit rate", [i / 10 for i in range(11)], _PLAIN
    ticks = axes.decades(space.x0, space.x1) if space.log_x else [space.x1 * i / 5 for i in range(6)]
    if sweep.parameter == "bandwidth":
        return "memory bandwidth", ticks, axes.si_label("B/s")
    return "arithmetic intensity (FLOP per byte)", ticks, _PLAIN
