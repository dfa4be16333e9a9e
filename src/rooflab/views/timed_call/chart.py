"""A timed call as a picture: its point under the roofs where it was counted, and the blocks of its times."""

from __future__ import annotations

from typing import Any

from rooflab.errors import RooflabError
from rooflab.types.timed_call import TimedCall
from rooflab.units import duration
from rooflab.views.common import axes, bars
from rooflab.views.common.axes import Plane
from rooflab.views.common.theme import LIGHT, Theme

_LONGEST = 70  # letters of a name in a title


def chart(timed: TimedCall, *, theme: Theme = LIGHT, width: int = 720) -> Any:
    """The roofline where the call was counted under a machine's roofs, else its blocks."""
    try:
        return roofs(timed, theme=theme, width=width)
    except RooflabError:  # no machine, or no FLOP to place
        return blocks(timed, theme=theme, width=width)


def roofs(timed: TimedCall, *, theme: Theme = LIGHT, width: int = 720, height: int = 440) -> Any:
    """The operations of the call under the roofs of its machine.

    Raises:
        RooflabError: it was not counted, or on no machine, or has no FLOP.
    """
    from rooflab.views.report.roofline import roofline

    if timed.report is None:
        raise RooflabError(f"{timed.name}: not counted, so no roofline")
    return roofline(timed.report, theme=theme, width=width, height=height)


def blocks(timed: TimedCall, *, theme: Theme = LIGHT, width: int = 720, height: int = 300) -> Any:
    """The median of each block in order, warm and cold, with the median of all and the interval."""
    import altair as alt

    colours = {"warm": theme.point, "cold": theme.caches[1]}
    points, bands, middles, most = [], [], [], 0.0
    last = max(len(one.blocks_s) for one in timed.states) + 1.0
    for one in timed.states:
        low, high = one.low_s or one.median_s, one.high_s or one.median_s
        most = max(most, *one.blocks_s, high)
        bands.append({"x": 0.0, "end": last, "y": low, "high": high, "caches": one.caches})
        middles.append({"x": 0.0, "end": last, "y": one.median_s, "caches": one.caches})
        points += [
            {"x": float(number), "y": seconds, "caches": one.caches, "a call": duration(seconds)}
            for number, seconds in enumerate(one.blocks_s, 1)
        ]
    space = Plane(0.0, last, 0.0, 1.08 * most, width, height, log_x=False, log_y=False)
    x = alt.X(
        "x:Q",
        title="block, in the order they were taken",
        scale=alt.Scale(domain=[0.0, last], nice=False),
        axis=alt.Axis(format="d", tickMinStep=1, grid=False),
    )
    y = alt.Y(
        "y:Q",
        title="time of a call",
        scale=alt.Scale(domain=[0.0, space.y1], nice=False),
        axis=alt.Axis(labelExpr=bars.TIME),
    )
    shown = [one.caches for one in timed.states]
    colour = alt.Color(
        "caches:N",
        scale=alt.Scale(domain=shown, range=[colours[each] for each in shown]),
        legend=alt.Legend(title="caches", orient="top", symbolOpacity=1, symbolStrokeWidth=0)
        if len(shown) > 1
        else None,
    )
    band = alt.Chart(alt.Data(values=bands)).mark_rect(opacity=0.15).encode(color=colour, x2="end:Q", y2="high:Q")
    middle = alt.Chart(alt.Data(values=middles)).mark_rule(strokeWidth=1.4).encode(color=colour, x2="end:Q")
    tips = [alt.Tooltip("caches:N"), alt.Tooltip("a call:N")]
    dots = alt.Chart(alt.Data(values=points)).encode(color=colour, tooltip=tips)
    layers = [band, middle, dots.mark_point(filled=True, size=40, opacity=1)]
    name = timed.name if len(timed.name) <= _LONGEST else f"{timed.name[: _LONGEST - 1]}…"
    subtitle = "dots: medians of blocks; line: their median; band: the interval that another run's median lies in"
    return axes.finish(layers, x, y, name, subtitle, space, theme)
