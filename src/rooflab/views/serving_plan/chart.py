"""A plan of serving as pictures: each layout's best and the front, for user and owner; why each loses its time."""

from __future__ import annotations

from typing import Any

from rooflab.errors import RooflabError
from rooflab.types.serving_plan import Option, ServingPlan
from rooflab.units import duration, percent
from rooflab.views.common import axes, bars
from rooflab.views.common.theme import LIGHT, Theme, config
from rooflab.views.serving.chart import binds_colours
from rooflab.views.serving_plan.sheet import where_of

_BARS = 12  # rows of the picture of losses


def front_of(plan: ServingPlan, *, theme: Theme = LIGHT, width: int = 720, height: int = 380) -> Any:
    """Tokens a second for each user and for each device: the front as a line, each layout's best as points.

    Raises:
        RooflabError: a plan without a front.
    """
    import altair as alt

    if not plan.front:
        raise RooflabError(f"{plan.name}: no front, so no picture")
    machines = list(dict.fromkeys(option.deployment.machine for option in (*plan.options, *plan.front)))
    colours = [*theme.caches, theme.memory, theme.point]
    scale = alt.Scale(domain=machines, range=[colours[n % len(colours)] for n in range(len(machines))])
    colour = alt.Color("machine:N", title=None, scale=scale, legend=alt.Legend(orient="top", columns=2, offset=2))
    every = [_point(option) for option in (*plan.options, *plan.front)]
    x = _axis("user:Q", "tokens a second for each user", [point["user"] for point in every], alt.X)
    priced = any(option.price_per_million_tokens is not None for option in plan.front)
    what = (
        f"tokens for one {plan.currency or 'unit of the prices'}" if priced else "tokens a second for each device"
    )
    y = _axis("device:Q", what, [point["device"] for point in every], alt.Y)
    tips = [alt.Tooltip(f"{name}:N") for name in ("where", "clients", "TTFT", "TPOT", "goal")]
    line = alt.Chart(alt.Data(values=[_point(option) for option in plan.front])).encode(x=x, y=y, tooltip=tips)
    points = alt.Chart(alt.Data(values=[_point(option) for option in plan.options])).encode(
        x=x,
        y=y,
        color=colour,
        tooltip=tips,
        opacity=alt.condition("datum.goal == 'kept'", alt.value(1), alt.value(0.35)),
    )
    layers = [
        line.mark_line(interpolate="linear", strokeWidth=1.2, color=theme.muted),
        line.mark_point(filled=True, size=16, opacity=1).encode(color=colour),
        points.mark_point(filled=False, size=80, strokeWidth=2),
    ]
    if plan.goal.tpot_s is not None:
        at = alt.Chart(
            alt.Data(values=[{"user": 1 / plan.goal.tpot_s, "text": f"TPOT {duration(plan.goal.tpot_s)}"}])
        )
        style: dict[str, Any] = {"align": "left", "dx": 4, "baseline": "top", "color": theme.muted, "fontSize": 11}
        layers += [
            at.mark_rule(strokeDash=[3, 3], color=theme.muted).encode(x=x),
            at.mark_text(**style).encode(x=x, y=alt.value(2), text="text:N"),
        ]
    subtitle = "The line: none is better for both. Rings: each layout's best that keeps the goal; pale, none does"
    title = axes.title_of(plan.name, subtitle, width)
    return alt.layer(*layers).properties(width=width, height=height, title=title, config=config(theme))


def _point(option: Option) -> dict[str, Any]:
    price = option.price_per_million_tokens
    return {
        "machine": option.deployment.machine,
        "user": option.tokens_per_s_per_user,
        "device": option.tokens_per_s_per_device if price is None else 1e6 / price,
        "where": where_of(option),
        "clients": f"{option.concurrency:,.0f} a copy",
        "TTFT": duration(option.ttft_s),
        "TPOT": duration(option.tpot_s),
        "goal": "kept" if option.meets else "missed",
    }


def _axis(field: str, title: str, values: list[float], make: Any) -> Any:
    import altair as alt

    low, high = min(values) / 1.25, max(values) * 1.25
    steps = (1.0,) if high > 100 * low else (1.0, 2.0, 5.0)
    axis = alt.Axis(values=axes.powers(low, high, 10.0, steps), labelExpr=axes.si_label(""))
    return make(field, title=title, scale=alt.Scale(type="log", domain=[low, high], nice=False), axis=axis)


def bars_of(plan: ServingPlan, *, theme: Theme = LIGHT, width: int = 720) -> Any:
    """TPOT of the first options, by what binds it."""
    colours = binds_colours(theme) | {"idle": theme.grid}
    shown = plan.options[:_BARS]
    names = [f"{n + 1} {where_of(option)}" for n, option in enumerate(shown)]
    parts, texts = [], {}
    for name, option in zip(names, shown, strict=True):
        start = 0.0
        for what in colours:
            share = option.loses.get(what, 0.0)
            took = share * option.tpot_s
            parts.append(bars.Part(name, start, start + took, what, f"{what}: {duration(took)}, {percent(share)}"))
            start += took
        texts[name] = duration(option.tpot_s)
    panel = bars.Panel(names, parts, texts, "time per output token", bars.TIME, colours)
    return bars.chart(
        "Why each loses its time",
        "A mean step, by what binds its kernels; idle: prompts and decoding wait for each other",
        (panel,),
        theme,
        width,
    )
