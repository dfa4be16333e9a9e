"""Marks of operations on a roofline: what colour and shape mean, error bars, the legend that says so."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

from rooflab.views.common.theme import Theme, text_width

SMALLEST, LARGEST = 5.0, 26.0  # diameters in pixels; the area between them is a share
BARS = 40  # marks, those with the most time, that have error bars: more hide what they are of
# Shapes beside colours: apart in a copy in grey too.
SHAPES = {
    "memory-bound": "circle",
    "compute-bound": "square",
    "balanced": "diamond",
    "overhead-bound": "triangle-up",
    "bound not known": "triangle-down",
}


class Rows:
    """Rows of a chart that altair hands over as they are: it would copy thousands of them several times."""

    _schema: ClassVar[dict[str, str]] = {"type": "array"}  # by this altair knows that there is a `to_dict`

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self._rows = rows

    def to_dict(self, *_: object, **__: object) -> list[dict[str, Any]]:
        """The rows themselves."""
        return self._rows


class Dot(NamedTuple):
    """A mark in the plane's own coordinates: `low` and `high` its error bar along y, `tips` by name."""

    x: float
    y: float
    share: float
    group: str
    tips: dict[str, str]
    low: float | None = None
    high: float | None = None


def diameter(share: float) -> float:
    """Pixels across of a mark with that share, 0 to 1, of what area stands for."""
    return SMALLEST + (LARGEST - SMALLEST) * math.sqrt(min(1.0, max(0.0, share)))


def bound_colours(theme: Theme) -> dict[str, str]:
    """The colour of each bound."""
    return {
        "memory-bound": theme.memory,
        "compute-bound": theme.caches[1],
        "balanced": theme.caches[2],
        "overhead-bound": theme.muted,
        "bound not known": theme.point,
    }


def legend_columns(names: Sequence[str], width: float) -> int:
    """Columns of a legend of `names` in `width` pixels."""
    widest = max((text_width(name) for name in names), default=0.0) + 34
    return max(1, min(len(names), int(width // widest)))


def dots(marks: Sequence[Dot], colours: dict[str, str], theme: Theme, width: float, *, legend: bool) -> list[Any]:
    """Layers of `marks`, small ones over large ones, with error bars of the largest and a `legend` of the groups.

    Outlines are thin and fills let through what is under them, so that marks on one place do not erase each other.
    """
    import altair as alt

    there = [group for group in colours if any(mark.group == group for mark in marks)]
    key = None
    if legend and there:
        columns = legend_columns(there, width)
        key = alt.Legend(title=None, orient="top", columns=columns, symbolOpacity=1, symbolStrokeWidth=0, offset=4)
    colour = alt.Color(
        "group:N", scale=alt.Scale(domain=there, range=[colours[each] for each in there]), legend=key
    )
    shapes = [SHAPES.get(each, "circle") for each in there]
    shape = alt.Shape("group:N", scale=alt.Scale(domain=there, range=shapes), legend=key)
    ordered = sorted(marks, key=lambda one: -one.share)
    rows = [
        {"x": one.x, "y": one.y, "area": diameter(one.share) ** 2, "group": one.group, **one.tips}
        for one in ordered
    ]
    names = list(dict.fromkeys(name for one in marks for name in one.tips))
    style: dict[str, Any] = {"filled": True, "stroke": theme.background, "strokeWidth": 0.6}
    points = (
        alt.Chart(alt.Data(values=Rows(rows)))
        .mark_point(**style, fillOpacity=0.72, strokeOpacity=0.9)
        .encode(
            size=alt.Size("area:Q", scale=None),
            shape=shape,
            color=colour,
            tooltip=[alt.Tooltip(f"{name}:N") for name in names],
        )
    )
    return [*_bars(ordered[:BARS], colours), points]


def _bars(marks: Sequence[Dot], colours: dict[str, str]) -> list[Any]:
    import altair as alt

    rows = [
        {"x": one.x, "low": one.low, "high": one.high, "colour": colours[one.group]}
        for one in marks
        if one.low is not None and one.high is not None and one.high > one.low
    ]
    if not rows:
        return []
    rule = alt.Chart(alt.Data(values=rows)).mark_rule(strokeWidth=1.1, opacity=0.55, clip=True)
    return [rule.encode(y="low:Q", y2="high:Q", color=alt.Color("colour:N", scale=None))]
