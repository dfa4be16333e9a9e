"""Panels of named rows: bars with parts, spans of time, points on a logarithmic axis; each value is written."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from rooflab.views.common import axes
from rooflab.views.common.marks import legend_columns
from rooflab.views.common.theme import Theme, config, text_width

ROW = 26  # pixels from one row to the next
_NAMES = 72  # pixels that a plane's labels take anyway: names that need more take it from the plane
_LONGEST, _WIDEST = 270, 0.42  # pixels of a name before it is cut, and share of the width
TIME = (
    "datum.value === 0 ? '0' : datum.value >= 0.999 ? format(datum.value, '~r') + ' s' : "
    "datum.value >= 0.999e-3 ? format(datum.value * 1e3, '~r') + ' ms' : "
    "datum.value >= 0.999e-6 ? format(datum.value * 1e6, '~r') + ' µs' : format(datum.value * 1e9, '~r') + ' ns'"
)
COUNT = axes.si_label("").replace(" + ' '", "")


class Part(NamedTuple):
    """A part of a row: from `low` to `high`, of the `group` that its colour stands for; `tip` says it in words."""

    row: str
    low: float
    high: float
    group: str
    tip: str


class Panel(NamedTuple):
    """Rows on one axis.

    Attributes:
        rows: names, from above; those without a part stay empty.
        parts: of the rows.
        texts: what is written at the end of each row.
        title: of the axis.
        label: Vega's expression of a tick.
        log: a logarithmic axis: then parts are points at `high`, not bars, as such an axis has no zero.
        colours: by group; the legend names those of more than one.
    """

    rows: Sequence[str]
    parts: Sequence[Part]
    texts: Mapping[str, str]
    title: str
    label: str
    colours: Mapping[str, str]
    log: bool = False


def chart(title: str, subtitle: str, panels: Sequence[Panel], theme: Theme, width: float) -> Any:
    """The `panels` under each other, with a title, and `subtitle` under it."""
    import altair as alt

    names = max((text_width(row, 11) for panel in panels for row in panel.rows), default=0.0)
    longest = min(_LONGEST, _WIDEST * (width + _NAMES))
    plane = max(width - max(0.0, min(names, longest) - _NAMES), 120.0)
    drawn = [_panel(panel, theme, plane, longest) for panel in panels]
    words = axes.title_of(title, subtitle, width)
    if len(drawn) == 1:
        return drawn[0].properties(title=words, config=config(theme))
    both: Any = alt.vconcat(*drawn, spacing=18).resolve_scale(color="independent")
    return both.properties(title=words, config=config(theme))


def _panel(panel: Panel, theme: Theme, width: float, longest: float) -> Any:
    import altair as alt

    written = max((text_width(text) for text in panel.texts.values()), default=0.0) + 10
    share = min(written / width, 0.6)
    last = max((part.high for part in panel.parts), default=1.0) or 1.0
    if panel.log:
        low = min(part.high for part in panel.parts) / 2
        domain = [low, low * (2 * last / low) ** (1 / (1 - share))]
        ticks = axes.powers(domain[0], domain[1], 10.0 ** _decades(domain, width))
        scale, axis = alt.Scale(type="log", domain=domain, nice=False), {"values": ticks}
    else:
        domain = [0.0, last / (1 - share)]
        scale, axis = alt.Scale(domain=domain, nice=False), {"tickCount": max(3, int(width // 120))}
    x = alt.X("low:Q", title=panel.title, scale=scale, axis=alt.Axis(labelExpr=panel.label, **cast("Any", axis)))
    named = alt.Axis(grid=False, labelLimit=longest, labelColor=theme.ink, ticks=False, domain=False)
    y = alt.Y("row:N", sort=list(panel.rows), title=None, scale=alt.Scale(domain=list(panel.rows)), axis=named)
    seen = {part.group for part in panel.parts if part.high > part.low}
    groups = [group for group in panel.colours if group in seen]
    legend = None
    if len(groups) > 1:
        columns = legend_columns(groups, width)
        legend = alt.Legend(
            title=None, orient="top", columns=columns, symbolType="square", symbolOpacity=1, offset=4
        )
    colour = alt.Color(
        "group:N", scale=alt.Scale(domain=groups, range=[panel.colours[each] for each in groups]), legend=legend
    )
    rows = [
        {**part._asdict(), "low": domain[0] if panel.log else part.low}
        for part in panel.parts
        if part.high > part.low
    ]
    tips = [alt.Tooltip("row:N", title="what"), alt.Tooltip("tip:N", title="value")]
    base = alt.Chart(alt.Data(values=rows)).encode(x=x, x2="high:Q", y=y, color=colour, tooltip=tips)
    if panel.log:
        points = [{**row, "low": row["high"]} for row in rows]
        dots = alt.Chart(alt.Data(values=points)).encode(x=x, y=y, color=colour, tooltip=tips)
        layers = [base.mark_rule(strokeWidth=1.2, opacity=0.5), dots.mark_point(filled=True, size=70, opacity=1)]
    else:
        layers = [base.mark_bar(height=14, clip=True, stroke=theme.background, strokeWidth=0.6)]
    ends: dict[str, float] = {}
    for part in panel.parts:
        ends[part.row] = max(ends.get(part.row, 0.0), part.high)
    texts = [{"row": row, "low": ends.get(row, domain[0]), "text": text} for row, text in panel.texts.items()]
    style: dict[str, Any] = {"align": "left", "dx": 8, "baseline": "middle", "fontSize": 11.5, "color": theme.ink}
    layers.append(alt.Chart(alt.Data(values=texts)).mark_text(**style).encode(x=x, y=y, text="text:N"))
    return alt.layer(*layers).properties(width=width, height=ROW * len(panel.rows))


def _decades(domain: Sequence[float], width: float) -> int:
    """Decades from one tick to the next, each of which needs some 60 pixels."""
    decades = math.log10(domain[1] / domain[0])
    return next((n for n in (1, 2, 3, 6) if width * n / decades >= 60), 9)
