"""A fleet as a picture: a strip for each quantity, a mark for each node at its speed against the median."""

from __future__ import annotations

from typing import Any

from rooflab.errors import RooflabError
from rooflab.types.fleet import Fleet, FleetQuantity
from rooflab.units import percent, si
from rooflab.views.common.axes import PERCENT
from rooflab.views.common.theme import FONT_SIZE, LIGHT, Theme

MOST = 24  # strips; those with slow nodes first
_STRIP = 22
_NARROW = 400  # pixels of a plane: a phone's


def chart(fleet: Fleet, *, theme: Theme = LIGHT, width: int = 720) -> Any:
    """Each node's speed in each quantity, 1 being the median; nodes that stand apart have their names.

    Raises:
        RooflabError: no quantity of two nodes.
    """
    import altair as alt

    shared = [each for each in fleet.quantities if len(each.values) > 1]
    if not shared:
        raise RooflabError(f"{fleet.name}: no quantity of two nodes, so no picture")
    slow = {(each.node, each.quantity, each.kind) for each in fleet.slow if each.confirmed is not False}
    told = {(quantity, kind) for _, quantity, kind in slow}
    shared.sort(key=lambda each: (each.name, each.kind) not in told)  # else in reading order
    several, narrow = len({each.kind for each in shared}) > 1, width < _NARROW
    rows = [
        {
            "quantity": _label(each, several, narrow),
            "speed": each.speed(node),
            "of the median": percent(each.speed(node), 1),
            "node": node,
            "value": si(value, each.unit),
            "name": node if (node, each.name, each.kind) in slow else "",
            "state": "stands apart" if (node, each.name, each.kind) in slow else "in line",
        }
        for each in shared[:MOST]
        for node, value in each.values.items()
    ]
    order = list(dict.fromkeys(row["quantity"] for row in rows))
    low, high = min(row["speed"] for row in rows), max(row["speed"] for row in rows)
    low, high = min(low - 0.02, 0.93), max(high + 0.02, 1.07)
    for row in rows:  # a name stands where there is room for it
        row["left"] = row["name"] if row["speed"] > (low + high) / 2 else ""
        row["right"] = row["name"] if not row["left"] else ""
    base = alt.Chart(alt.Data(values=rows)).encode(
        y=alt.Y(
            "quantity:N",
            sort=order,
            title=None,
            axis=alt.Axis(labelLimit=110 if narrow else 230, ticks=False, grid=True),
        ),
        x=alt.X(
            "speed:Q",
            title="speed against the median",
            axis=alt.Axis(labelExpr=PERCENT, tickCount=4 if narrow else 8, grid=True),
            scale=alt.Scale(domain=[low, high], nice=False, zero=False),
        ),
    )
    marks = base.mark_point(filled=True, size=46, opacity=0.75).encode(
        color=alt.Color(
            "state:N",
            scale=alt.Scale(domain=["in line", "stands apart"], range=[theme.caches[1], theme.point]),
            legend=alt.Legend(title=None, orient="top"),
        ),
        shape=alt.Shape(
            "state:N",
            scale=alt.Scale(domain=["in line", "stands apart"], range=["circle", "diamond"]),
            legend=alt.Legend(title=None, orient="top"),
        ),
        tooltip=[alt.Tooltip(f"{name}:N") for name in ("node", "quantity", "value")]
        + [alt.Tooltip("of the median:N")],
    )
    look: dict[str, Any] = {"fontSize": FONT_SIZE - 0.5, "color": theme.ink}
    names = (
        base.mark_text(align="right", dx=-7, **look).encode(text="left:N"),
        base.mark_text(align="left", dx=7, **look).encode(text="right:N"),
    )
    middle = (
        alt.Chart(alt.Data(values=[{"speed": 1.0}]))
        .mark_rule(color=theme.muted, strokeDash=[3, 3])
        .encode(x="speed:Q")
    )
    drawn = alt.layer(middle, marks, *names).properties(
        width=width - (35 if narrow else 150), height=_STRIP * len(order) + 8, background=theme.background
    )
    return (
        drawn.configure_view(stroke=None)
        .configure_axis(
            labelColor=theme.ink, titleColor=theme.ink, gridColor=theme.grid, domainColor=theme.grid,
            labelFontSize=FONT_SIZE, titleFontSize=FONT_SIZE, titleFontWeight="normal",
        )
        .configure_legend(labelColor=theme.ink, labelFontSize=FONT_SIZE)
    )  # fmt: skip


def _label(quantity: FleetQuantity, several: bool, narrow: bool) -> str:
    """The name of a strip; on a phone a short one."""
    name = f"{quantity.name} ({quantity.kind})" if several else quantity.name
    return name.replace(", one core", ", 1 core").replace(", all cores", ", all") if narrow else name
