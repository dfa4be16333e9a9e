"""An answer of serve as pictures: times over the load, where steps' time and memory go, the stream over time."""

from __future__ import annotations

from typing import Any

from rooflab.errors import RooflabError
from rooflab.types.serving import Serving, StepTime
from rooflab.units import duration, percent, si
from rooflab.views.common import axes, bars
from rooflab.views.common.theme import LIGHT, Theme, config

_TALL = 190  # pixels of a plane
_KINDS = ("weights", "cache", "states", "activations", "workspace")


def over_load(serving: Serving, *, theme: Theme = LIGHT, width: int = 720) -> Any:
    """TTFT and TPOT over the number of clients, the throughput below; where this load lies.

    Raises:
        RooflabError: an answer without loads.
    """
    import altair as alt

    if len(serving.loads) < 2:
        raise RooflabError(f"{serving.name}: no other loads, so no picture")
    rows = [
        {"clients": each.concurrency, "seconds": seconds, "what": what}
        for each in serving.loads
        for what, seconds in (("TTFT", each.ttft_s), ("TPOT", each.tpot_s))
    ]
    # Of stages the least load has a batch for each: one of fewer clients lies before it.
    here = serving.demand.concurrency or serving.loads[0].concurrency
    low, high = min(serving.loads[0].concurrency, here), max(serving.loads[-1].concurrency, here)
    axis = alt.Axis(values=axes.powers(low, high, 4.0 if high > 64 * low else 2.0), format=",d")
    x = alt.X("clients:Q", title="clients", scale=alt.Scale(type="log", domain=[low, high], nice=False), axis=axis)
    values = [row["seconds"] for row in rows]
    y = _log("seconds:Q", "seconds", min(values), max(values), bars.TIME)
    names, colours = ["TTFT", "TPOT"], [theme.point, theme.caches[1]]
    colour = alt.Color(
        "what:N",
        title=None,
        scale=alt.Scale(domain=names, range=colours),
        legend=alt.Legend(orient="top", offset=2),
    )
    tips = [alt.Tooltip("what:N"), alt.Tooltip("clients:Q"), alt.Tooltip("seconds:Q", format=".3s")]
    base = alt.Chart(alt.Data(values=rows)).encode(x=x, y=y, color=colour, tooltip=tips)
    upper = [
        base.mark_line(strokeWidth=2),
        base.mark_point(filled=True, size=22, opacity=1),
        *_here(serving, x, theme),
    ]
    flows = [{"clients": each.concurrency, "rate": each.tokens_per_s} for each in serving.loads]
    rates = [row["rate"] for row in flows]
    tips = [alt.Tooltip("clients:Q"), alt.Tooltip("rate:Q", title="tokens a second", format=".3s")]
    flow = alt.Chart(alt.Data(values=flows)).encode(
        x=x, y=_log("rate:Q", "tokens a second, all", min(rates), max(rates), axes.si_label("")), tooltip=tips
    )
    lower = [
        flow.mark_line(strokeWidth=2, color=theme.memory),
        flow.mark_point(filled=True, size=22, opacity=1, color=theme.memory),
        *_here(serving, x, theme),
    ]
    planes = [alt.layer(*each).properties(width=width, height=_TALL) for each in (upper, lower)]
    drawn: Any = alt.vconcat(*planes, spacing=16).resolve_scale(color="independent")
    subtitle = f"{serving.deployment.engine}, {serving.deployment.layout}; a closed loop, in its steady state"
    return drawn.properties(title=axes.title_of(serving.name, subtitle, width), config=config(theme))


def _log(field: str, title: str, low: float, high: float, label: str) -> Any:
    import altair as alt

    low, high = low / 1.4, high * 1.4
    ticks = axes.decades(low, high)
    steps = ticks if len(ticks) > 1 else axes.powers(low, high, 10.0, (1.0, 2.0, 5.0))
    scale = alt.Scale(type="log", domain=[low, high], nice=False)
    return alt.Y(field, title=title, scale=scale, axis=alt.Axis(values=steps, labelExpr=label))


def _here(serving: Serving, x: Any, theme: Theme) -> list[Any]:
    """A line at this load, where it is one of clients."""
    import altair as alt

    clients = serving.demand.concurrency
    if clients is None:
        return []
    base = alt.Chart(alt.Data(values=[{"clients": clients, "text": "this load"}])).encode(x=x)
    style: dict[str, Any] = {"align": "left", "dx": 4, "baseline": "top", "color": theme.muted, "fontSize": 11}
    text = base.mark_text(**style).encode(y=alt.value(2), text="text:N")
    return [base.mark_rule(strokeDash=[3, 3], color=theme.muted), text]


def bars_of(serving: Serving, *, theme: Theme = LIGHT, width: int = 720) -> Any:
    """Where the time of both steps goes by layer, coloured by what binds it; memory of a device by kind."""
    colours = binds_colours(theme)
    panels = [_step(step, colours) for step in serving.steps]
    used, start, parts = serving.memory, 0.0, []
    kinds = dict(zip(_KINDS, (*theme.caches, theme.muted), strict=True))
    for name in _KINDS:
        nbytes = getattr(used, name)
        parts.append(bars.Part("in use", start, start + nbytes, name, si(nbytes, "B")))
        start += nbytes
    texts, names = {"in use": si(used.total, "B")}, ["in use"]
    if used.usable is not None:
        names.append("usable")
        parts.append(bars.Part("usable", 0.0, used.usable, "an engine may use", si(used.usable, "B")))
        texts["usable"] = si(used.usable, "B")
    memory = bars.Panel(
        names, parts, texts, "memory of a device", axes.si_label("B"), kinds | {"an engine may use": theme.grid}
    )
    return bars.chart("Where time and memory go", serving.demand.name, (*panels, memory), theme, width)


def binds_colours(theme: Theme) -> dict[str, str]:
    """The colour of each thing that binds."""
    return {
        "memory": theme.memory,
        "compute": theme.point,
        "cache": theme.caches[2],
        "links": theme.caches[1],
        "overhead": theme.muted,
        "host": theme.ink,
    }


def _step(step: StepTime, colours: dict[str, str]) -> bars.Panel:
    names = [each.layer for each in step.parts]
    parts = [
        bars.Part(each.layer, 0.0, each.time_s, each.binds, f"{duration(each.time_s)}, bound by {each.binds}")
        for each in step.parts
    ]
    texts = {
        each.layer: f"{duration(each.time_s)}, {percent(each.time_s / step.time.time_s)}" for each in step.parts
    }
    what = (
        f"a step that decodes {step.sequences:.3g} sequence{'' if step.sequences == 1 else 's'}"
        if step.name == "decode"
        else f"a step of {step.prompt_tokens:,.0f} tokens of a prompt"
    )
    return bars.Panel(names, parts, texts, what, bars.TIME, colours)


def over_time(serving: Serving, *, theme: Theme = LIGHT, width: int = 720) -> Any:
    """Requests that run and wait over the time of a stream, on the first copy.

    Raises:
        RooflabError: no stream was run.
    """
    import altair as alt

    if serving.replay is None or len(serving.replay.moments) < 2:
        raise RooflabError(f"{serving.name}: no stream was run, so no picture over time")
    rows = [
        {"seconds": each.time_s, "requests": count, "what": what}
        for each in serving.replay.moments
        for what, count in (("running", each.running), ("waiting", each.waiting))
    ]
    names, colours = ["running", "waiting"], [theme.caches[1], theme.point]
    colour = alt.Color(
        "what:N",
        title=None,
        scale=alt.Scale(domain=names, range=colours),
        legend=alt.Legend(orient="top", offset=2),
    )
    x = alt.X("seconds:Q", title="time since the first request", axis=alt.Axis(labelExpr=bars.TIME, tickCount=6))
    y = alt.Y("requests:Q", title="requests of the first copy")
    tips = [alt.Tooltip("what:N"), alt.Tooltip("seconds:Q", format=".3s"), alt.Tooltip("requests:Q")]
    base = alt.Chart(alt.Data(values=rows)).encode(x=x, y=y, color=colour, tooltip=tips)
    drawn = base.mark_line(interpolate="step-after", strokeWidth=1.5).properties(width=width, height=_TALL)
    title = axes.title_of("The stream over time", serving.demand.name, width)
    return drawn.properties(title=title, config=config(theme))
