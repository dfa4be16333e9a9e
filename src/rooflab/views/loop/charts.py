"""A loop on the roofline of its machine, a point for each level; and how long each level takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from rooflab.errors import RooflabError
from rooflab.types.loop import LoopReport
from rooflab.types.machine import Machine, Point, Rate, Source
from rooflab.units import si
from rooflab.views.common import axes
from rooflab.views.common.theme import LIGHT, Theme, config, level_colours, text_width
from rooflab.views.machine import roofline as chart

if TYPE_CHECKING:
    import altair as alt

SAME = 1.04  # points whose intensities differ by less are one, with the names of both levels
_AXIS = 72  # pixels that the labels of a plane's y axis take
_LABEL = 220  # pixels of a name at most: what is longer ends in …
_BAR = 26  # pixels from one bar to the next
_TIME = (
    "datum.value === 0 ? '0' : datum.value >= 0.999 ? format(datum.value, '~r') + ' s' : "
    "datum.value >= 0.999e-3 ? format(datum.value * 1e3, '~r') + ' ms' : "
    "datum.value >= 0.999e-6 ? format(datum.value * 1e6, '~r') + ' µs' : format(datum.value * 1e9, '~r') + ' ns'"
)


def roofline(report: LoopReport, *, theme: Theme = LIGHT, width: int = 720, height: int = 440) -> alt.LayerChart:
    """One core's roofs with the loop under each: FLOP per byte that the level serves, FLOP/s as measured.

    A level's roof is what it attains on this loop's mix of reads and writes; peaks are those of its formats.

    Raises:
        RooflabError: a report without a machine, without FLOP or without a measured time.
    """
    if report.machine is None:
        raise RooflabError(f"{report.name}: no machine, so no roofs to draw; give machine= (or --machine)")
    run = report.run()
    if not report.flop or run is None:
        what = "FLOP" if run is not None else "measured time"
        raise RooflabError(f"{report.name}: no {what}, so no point to draw under the roofs; save it as .html")
    ours = Source("measured", f"rooflab loop: {report.where}; bytes simulated")
    groups: list[list[Any]] = []
    for each in report.points:
        if not each.nbytes:
            continue
        if groups and max(each.nbytes, groups[-1][0].nbytes) < SAME * min(each.nbytes, groups[-1][0].nbytes):
            groups[-1].append(each)
        else:
            groups.append([each])
    points = tuple(
        Point(
            name=", ".join(each.level for each in group),
            flop=report.flop,
            bytes=group[0].nbytes,
            time_s=run.median_s,
            level=group[-1].level,
            scope="core",
            threads=1,
            spread=run.spread,
            runs=run.runs,
            source=ours,
        )
        for group in groups
    )
    name = f"{report.name} on {report.machine.name}"
    drawn = msgspec.structs.replace(_roofs(report, report.machine), points=points, name=name)
    return chart.roofline(drawn, "core", theme=theme, width=width, height=height)


def picture(report: LoopReport, *, theme: Theme = LIGHT, width: int = 720, height: int = 440) -> alt.LayerChart:
    """The picture of a file: the roofline, of a loop that only moves data the times by level.

    Raises:
        RooflabError: as `roofline`.
    """
    if report.machine is not None and not report.flop and report.prediction is not None:
        return times(report, theme=theme, width=width)
    return roofline(report, theme=theme, width=width, height=height)


def _roofs(report: LoopReport, machine: Machine) -> Machine:
    """`machine` with the roofs that this loop meets: of its mix of reads and writes, of its number formats."""
    levels = []
    for level in machine.levels:
        point = next((each for each in report.points if each.level == level.name), None)
        if point is None or point.bytes_per_s is None:
            levels.append(level)
            continue
        basis = "attained" if level.rate(scope="core", basis="attained") is not None else "theoretical"
        source = Source("derived", "measured mixes of reads and writes, interpolated for this loop's")
        rate = Rate(
            value=point.bytes_per_s, per_s="byte", what="any", basis=basis, scope="core", threads=1, source=source
        )
        levels.append(msgspec.structs.replace(level, rates=(rate,)))
    formats = {{"complex64": "fp32", "complex128": "fp64"}.get(each.dtype, each.dtype) for each in report.flop_by}
    peaks = tuple(each for each in machine.peaks if each.dtype in formats)
    return msgspec.structs.replace(machine, levels=tuple(levels), peaks=peaks or machine.peaks)


def scaling(report: LoopReport, *, theme: Theme = LIGHT, width: int = 720, height: int = 300) -> alt.LayerChart:
    """Speed-up over threads: predicted as a line, measured as points, and as many times as fast for comparison.

    Raises:
        RooflabError: a report without prange on a machine.
    """
    import altair as alt

    if len(report.scaling) < 2:
        raise RooflabError(f"{report.name}: no loop over prange ran, so there is nothing to draw over threads")
    one, last = report.run(), report.scaling[-1].threads
    rows: list[dict[str, Any]] = [
        {"threads": each.threads, "speedup": each.speedup, "what": "predicted", "lost": each.limit or "nothing"}
        for each in report.scaling
    ]
    measured = [
        {"threads": each.threads, "speedup": one.time_s / each.measured_s, "what": "measured", "lost": ""}
        for each in report.scaling
        if one is not None and each.measured_s
    ]
    ideal = [{"threads": n, "speedup": n, "what": "as many times as fast"} for n in (1, last)]
    every = [row["speedup"] for row in (*rows, *measured, ideal[-1])]
    counts = [each.threads for each in report.scaling]
    x = alt.X("threads:Q", scale=alt.Scale(type="log", base=2, domain=[1, last]), axis=alt.Axis(values=counts))
    y = alt.Y(
        "speedup:Q",
        title="times as fast as one",
        scale=alt.Scale(type="log", base=2, domain=[min(every), max(every)]),
        axis=alt.Axis(format="~r", tickCount=6),
    )
    tip = [alt.Tooltip("threads:Q"), alt.Tooltip("speedup:Q", format=".3~g"), alt.Tooltip("what:N")]
    base = alt.Chart(alt.Data(values=rows)).encode(x=x, y=y)
    layers = [
        alt.Chart(alt.Data(values=ideal))
        .mark_line(color=theme.muted, strokeDash=[4, 4], strokeWidth=1)
        .encode(x=x, y=y),
        base.mark_line(color=theme.ink, strokeWidth=2),
        base.mark_point(color=theme.ink, filled=True, size=40, opacity=1).encode(
            tooltip=[*tip, alt.Tooltip("lost:N", title="most is lost to")]
        ),
        alt.Chart(alt.Data(values=measured))
        .mark_point(color=theme.point, filled=True, size=90, opacity=1)
        .encode(x=x, y=y, tooltip=tip),
    ]
    subtitle = (
        "Line: predicted, each thread on a core of its own; large points: measured; dashes: as many times as fast"
    )
    words = axes.title_of(f"Over cores: {report.name}", subtitle, width)
    drawn: Any = alt.layer(*layers)
    return drawn.properties(width=width, height=height, title=words, config=config(theme))


def times(report: LoopReport, *, theme: Theme = LIGHT, width: int = 720) -> alt.LayerChart:
    """Seconds that the core and each level take for one warm run on one core, beside predicted and measured.

    Raises:
        RooflabError: a report without a prediction.
    """
    import altair as alt

    prediction, machine = report.prediction, report.machine
    if prediction is None or machine is None:
        raise RooflabError(f"{report.name}: no prediction, so no times to draw; give machine= (or --machine)")
    colours = level_colours(machine.levels, theme)
    bars = [(f"core: {prediction.core_why}", 0.0, prediction.core_s, theme.muted)]
    bars += [(each.level, 0.0, each.time_s or 0.0, colours.get(each.level, theme.ink)) for each in report.points]
    run = report.run()
    measured = [] if run is None else [("measured", 0.0, run.median_s, theme.point)]
    low_s, high_s, ends_are = prediction.low_s, prediction.high_s, "where four of five such times lie"
    if low_s is None or high_s is None:
        low_s, high_s = prediction.overlapped_s, prediction.serial_s
        ends_are = "from where all overlaps to where nothing does"
    ends = [("predicted", low_s, high_s, theme.ink)]
    last = max(end for *_, end, _ in (*bars, *measured, *ends))
    rows = [
        {"name": name, "low": low, "high": high, "colour": colour, "text": si(high, "s")}
        for name, low, high, colour in (*bars, *measured)
    ]
    rows.append({"name": "predicted", "low": low_s, "high": high_s, "colour": theme.ink})
    rows[-1]["text"] = f"{si(prediction.time_s, 's')}: {si(low_s, 's')} to {si(high_s, 's')}"
    order = [row["name"] for row in (*rows[: len(bars)], rows[-1], *rows[len(bars) : -1])]
    # The names stand where a plane's ticks do, and may need more room than those.
    width -= max(0, round(max(min(text_width(row["name"]), _LABEL) for row in rows)) - _AXIS)
    room = 170 / width  # for the text at the end of a bar
    x = alt.X(
        "low:Q",
        title=None,
        scale=alt.Scale(domain=[0, last / max(1 - room, 0.25)], nice=False),
        axis=alt.Axis(labelExpr=_TIME, tickCount=max(3, width // 140)),
    )
    y = alt.Y("name:N", sort=order, title=None, axis=alt.Axis(grid=False, labelLimit=_LABEL, labelColor=theme.ink))
    base = alt.Chart(alt.Data(values=rows)).encode(x=x, x2="high:Q", y=y, color=alt.Color("colour:N", scale=None))
    tip = [alt.Tooltip("name:N", title="what"), alt.Tooltip("text:N", title="takes")]
    guess = alt.Chart(alt.Data(values=[{"name": "predicted", "low": prediction.time_s}])).encode(x=x, y=y)
    layers = [
        base.mark_bar(height=14, clip=True).encode(
            opacity=alt.condition("datum.name === 'predicted'", alt.value(0.35), alt.value(1.0)), tooltip=tip
        ),
        guess.mark_tick(thickness=2.5, size=18, color=theme.ink, opacity=1),
        alt.Chart(alt.Data(values=[{**row, "low": row["high"]} for row in rows]))
        .mark_text(align="left", dx=6, baseline="middle", fontSize=11.5, color=theme.ink)
        .encode(x=x, y=y, text="text:N"),
    ]
    subtitle = f"One warm run on one core. Predicted: {ends_are}; tick: the guess"
    words = axes.title_of(f"What takes how long: {report.name}", subtitle, width)
    drawn: Any = alt.layer(*layers)
    return drawn.properties(width=width, height=_BAR * len(rows), title=words, config=config(theme))
