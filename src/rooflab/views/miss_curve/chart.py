"""A miss-ratio curve as a picture: what share of the requests misses, over the cache's capacity."""

from __future__ import annotations

from typing import Any

from rooflab.errors import RooflabError
from rooflab.types.simulation import MissCurve
from rooflab.units import iec, percent
from rooflab.views.common import axes
from rooflab.views.common.axes import PERCENT, Plane
from rooflab.views.common.theme import LIGHT, Theme
from rooflab.views.machine.curves import SIZE

_MOST = 400  # corners that are drawn: more are narrower than a line


def chart(curve: MissCurve, *, theme: Theme = LIGHT, width: int = 720, height: int = 340) -> Any:
    """The miss ratio over the capacity, a step at each size where more fits.

    Raises:
        RooflabError: nothing was requested.
    """
    import altair as alt

    if not curve.requests:
        raise RooflabError(f"{curve.name}: no requests, so no curve to draw")
    points = corners(curve)
    space = Plane(points[0][0], points[-1][0], 0.0, 1.05, width, height, log_y=False)
    every = max(1, round(80 * axes.octaves(space) / width))
    x = alt.X(
        "x:Q",
        title="capacity of a fully associative LRU cache",
        scale=alt.Scale(type="log", base=2, domain=[space.x0, space.x1], nice=False),
        axis=alt.Axis(values=axes.powers(space.x0, space.x1, 2.0**every), labelExpr=SIZE),
    )
    y = alt.Y(
        "y:Q",
        title="misses of all requests",
        scale=alt.Scale(domain=[0, 1.05], nice=False),
        axis=alt.Axis(values=[0, 0.25, 0.5, 0.75, 1], labelExpr=PERCENT),
    )
    rows = [{"x": at, "y": ratio, "capacity": iec(at, 3), "misses": percent(ratio, 3)} for at, ratio in points]
    base = alt.Chart(alt.Data(values=rows))
    line = base.mark_line(interpolate="step-after", strokeWidth=2, color=theme.caches[1])
    dots = base.mark_point(filled=True, size=26, opacity=1, color=theme.caches[1])
    least = curve.compulsory / curve.requests
    floor = alt.Chart(alt.Data(values=[{"x": space.x0, "y": least, "end": space.x1}]))
    rule = floor.mark_rule(strokeDash=[4, 3], color=theme.muted).encode(x2="end:Q")
    subtitle = (
        f"{curve.requests:,} requests of lines of {curve.line_bytes} B; dashed: compulsory misses, "
        f"{percent(least, 2)}, "
        "which no capacity saves"
    )
    tips = [alt.Tooltip("capacity:N"), alt.Tooltip("misses:N")]
    layers = [rule, line, *([dots.encode(tooltip=tips)] if len(rows) < _MOST else [])]
    return axes.finish(layers, x, y, curve.name, subtitle, space, theme)


def corners(curve: MissCurve) -> list[tuple[float, float]]:
    """(capacity in bytes, miss ratio) from one line to twice of what holds everything, where the ratio steps."""
    sizes = {curve.line_bytes}
    for distance in curve.distances:
        sizes.add((distance + 1) * curve.line_bytes)
    last = max(sizes)
    doubled = curve.line_bytes
    while doubled < last:
        doubled *= 2
        sizes.add(doubled)
    ordered = sorted(sizes)
    if len(ordered) > _MOST:  # evenly over the axis, which is logarithmic
        ratio = (last / ordered[0]) ** (1 / _MOST)
        kept, least = [], 0.0
        for size in ordered:
            if size >= least:
                kept.append(size)
                least = size * ratio
        ordered = [*kept, last]
    ordered.append(2 * last)
    return [(float(size), curve.miss_ratio(size) or 0.0) for size in dict.fromkeys(ordered)]
