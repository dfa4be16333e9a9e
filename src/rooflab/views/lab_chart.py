"""A sweep of the teaching model as a chart, a page and files."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rooflab.model.lab import Sweep
from rooflab.views import export, lab, labels, page, plane
from rooflab.views.chart import si_label
from rooflab.views.plane import Plane
from rooflab.views.tables import Table
from rooflab.views.theme import DARK, LIGHT, Theme

if TYPE_CHECKING:
    import altair as alt

_TIME = (
    "datum.value >= 0.999 ? format(datum.value, '~r') + ' s' : "
    "datum.value >= 0.999e-3 ? format(datum.value * 1e3, '~r') + ' ms' : "
    "datum.value >= 0.999e-6 ? format(datum.value * 1e6, '~r') + ' µs' : format(datum.value * 1e9, '~r') + ' ns'"
)
_PLAIN = "format(datum.value, '~r')"
_LINES = ("memory", "compute", "total")


def chart(sweep: Sweep, *, theme: Theme = LIGHT, width: int = 720, height: int = 380) -> alt.LayerChart:
    """Memory, compute and total time over the parameter, with a rule where it turns."""
    import altair as alt

    space = plane_of(sweep, width, height)
    colours = {"memory": theme.memory, "compute": theme.caches[1], "total": theme.muted}
    layers = []
    for name in _LINES:
        rows = [{"x": x, "y": y} for x, y in _points(sweep, name)]
        dash: dict[str, Any] = {"strokeDash": [5, 4]} if name == "total" else {}
        line = alt.Chart(alt.Data(values=rows)).mark_line(color=colours[name], strokeWidth=2, **dash)
        dots = alt.Chart(alt.Data(values=rows)).mark_point(filled=True, size=22, opacity=1, color=colours[name])
        layers += [line, dots.encode(tooltip=["x:Q", "y:Q"])]
    if sweep.turns_at is not None and space.x0 < sweep.turns_at < space.x1:
        rule = [{"x": sweep.turns_at, "y": space.y0, "end": space.y1}]
        mark = alt.Chart(alt.Data(values=rule)).mark_rule(color=theme.point, strokeWidth=1.2)
        layers.append(mark.encode(y2="end:Q"))
    layers += plane.texts(placed(sweep, space), space, colours | {"turn": theme.point}, theme)
    x_title, ticks, said = _x_axis(sweep, space)
    scale = "log" if space.log_x else "linear"
    x = alt.X(
        "x:Q",
        title=x_title,
        scale=alt.Scale(type=scale, domain=[space.x0, space.x1], nice=False),
        axis=alt.Axis(values=ticks, labelExpr=said),
    )
    y = alt.Y(
        "y:Q",
        title=None,
        scale=alt.Scale(type="log", domain=[space.y0, space.y1], nice=False),
        axis=alt.Axis(values=plane.decades(space.y0, space.y1), labelExpr=_TIME),
    )
    return plane.finish(layers, x, y, lab.title(sweep), "; ".join(_said(sweep)), space, theme)


def placed(sweep: Sweep, space: Plane) -> tuple[labels.Placed, ...]:
    """The names of the lines beside them, and of the rule, where nothing lies on nothing."""
    wanted, segments = [], []
    for name in _LINES:
        line = [space.pixel(x, y) for x, y in _points(sweep, name)]
        segments += list(itertools.pairwise(line))
        # The total is apart from both others in the middle, they from each other at the ends.
        at = (line[len(line) // 2],) if name == "total" else (line[len(line) // 6], line[-1 - len(line) // 6])
        places = [each for vertex in at for each in plane.around(name, *vertex)]
        wanted.append(labels.Label(name, ((name, tuple(places)),)))
    if sweep.turns_at is not None and space.x0 < sweep.turns_at < space.x1:
        text = f"equal at {lab.value_text(sweep.parameter, sweep.turns_at)}"
        x, _ = space.pixel(sweep.turns_at, space.y1)
        half = plane.box(text, 0, 0).width / 2 + 4
        at = tuple(plane.box(text, x + side * half, row) for side in (1, -1) for row in (10, 26, 42))
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
    ticks = plane.decades(space.x0, space.x1) if space.log_x else [space.x1 * i / 5 for i in range(6)]
    if sweep.parameter == "bandwidth":
        return "memory bandwidth", ticks, si_label("B/s")
    return "arithmetic intensity (FLOP per byte)", ticks, _PLAIN


def _said(sweep: Sweep) -> list[str]:
    return [" ".join(line.split()) for line in lab.fixed(sweep)]


class _Named(NamedTuple):
    """What the page's template asks of its subject: a name."""

    name: str


def html(sweep: Sweep) -> str:
    """One page with the chart and the table, which needs no network."""
    specs = {}
    for name, theme in (("light", LIGHT), ("dark", DARK)):
        for size, width, height in (("wide", page.WIDE, 380), ("narrow", page.NARROW, 300)):
            drawn = chart(sweep, theme=theme, width=width, height=height)
            specs[f"{name} {size}"] = drawn.to_dict() | {"padding": {"left": 0, "right": 2, "bottom": 4}}
    return page.template().render(
        machine=_Named(lab.title(sweep)),
        what="lab",
        facts=(*_said(sweep), lab.turning(sweep)),
        ridge=None,
        tables=(lab.table(sweep)._replace(title="Values"),),
        checks=(),
        environment=Table("Environment", ("what", "value"), ()),
        sources=(),
        charts=[{"title": "Time", "specs": specs}],
        light=LIGHT,
        dark=DARK,
        vega=page.vega(),
    )


def save(sweep: Sweep, *paths: str | Path) -> None:
    """Write `sweep` to each path: .json, .html, .svg, .png or .pdf; each file appears whole or not at all.

    Raises:
        FileError: an unknown suffix, or a path that cannot be written; nothing has been written then.
    """
    check_writable(paths)
    made = [(Path(path), _WRITERS[Path(path).suffix.lower()](sweep)) for path in paths]
    for path, content in made:
        export.write(path, content)


def check_writable(paths: Iterable[str | Path]) -> None:
    """Return where every path has a known suffix and can be written (see `export.check_writable`)."""
    export.check_writable(paths, tuple(_WRITERS), "lab.html")


_WRITERS: dict[str, Callable[[Sweep], bytes]] = {
    ".json": lambda sweep: export.json_text(sweep.to_dict()).encode(),
    ".html": lambda sweep: html(sweep).encode(),
    ".svg": lambda sweep: export.svg(chart(sweep).to_dict()),
    ".png": lambda sweep: export.png(chart(sweep).to_dict()),
    ".pdf": lambda sweep: export.pdf(chart(sweep).to_dict()),
}
