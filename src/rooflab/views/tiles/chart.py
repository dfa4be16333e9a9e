"""A sweep of tile sizes: traffic of every level and time over the size; over two sizes, a map of the time."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any, NamedTuple

from rooflab.types.tile_sweep import Tile, TileSweep
from rooflab.units import iec, si
from rooflab.views.common import axes
from rooflab.views.common.theme import LIGHT, Theme, config

if TYPE_CHECKING:
    import altair as alt

STEP = 1.2  # a rise of the traffic by that factor from one size to the next is where a cache is passed
_TIME = (
    "datum.value >= 0.999 ? format(datum.value, '.3~r') + ' s' : "
    "datum.value >= 0.999e-3 ? format(datum.value * 1e3, '.3~r') + ' ms' : "
    "datum.value >= 0.999e-6 ? format(datum.value * 1e6, '.3~r') + ' µs' : "
    "format(datum.value * 1e9, '.3~r') + ' ns'"
)
_TALL = 200  # pixels of the plane of the traffic, and of that of the times


class Passed(NamedTuple):
    """Between two sizes, `at` the middle of them, the traffic behind the caches `text` rises most."""

    at: float
    text: str


def chart(sweep: TileSweep, *, theme: Theme = LIGHT, width: int = 720) -> alt.VConcatChart | alt.LayerChart:
    """Traffic and time over the tile size; with several, the time over two, the others as recommended."""
    names = list(sweep.best)
    if len(names) == 1:
        return _over_one(sweep, names[0], theme, width)
    return _over_two(sweep, names[0], names[1], theme, width)


def passed(sweep: TileSweep, name: str) -> tuple[Passed, ...]:
    """Where the working set of a tile passes each cache: where its misses rise most from one size to the next.

    Only rises by a fifth and more count; a cache without such has none.
    """
    tiles = sorted(sweep.tiles, key=lambda tile: tile.sizes[name])
    passed_at: dict[float, list[str]] = {}
    for (cache, capacity), behind in zip(sweep.capacities_bytes.items(), tiles[0].traffic_bytes, strict=True):
        rises = [
            (after.traffic_bytes[behind] / before.traffic_bytes[behind], before.sizes[name], after.sizes[name])
            for before, after in itertools.pairwise(tiles)
            if before.traffic_bytes[behind]
        ]
        most = max(rises, default=(0.0, 1, 1))
        if most[0] >= STEP:
            passed_at.setdefault(math.sqrt(most[1] * most[2]), []).append(f"{cache} {iec(capacity)}")
    return tuple(Passed(at, ", ".join(texts)) for at, texts in sorted(passed_at.items()))


def _over_one(sweep: TileSweep, name: str, theme: Theme, width: int) -> alt.VConcatChart:
    import altair as alt

    sizes = sorted(tile.sizes[name] for tile in sweep.tiles)
    wide = sizes[-1] >= 8 * sizes[0]
    margin = 1.15 if wide else 1.03
    scale: dict[str, Any] = {"type": "log", "base": 2} if wide else {"zero": False}
    ticks = axes.powers(sizes[0], sizes[-1], 2.0) if wide else None
    axis = alt.Axis(values=ticks, format="d") if ticks else alt.Axis(format="d", tickMinStep=1)
    domain = [sizes[0] / margin, sizes[-1] * margin]
    x = alt.X("size:Q", title=name, scale=alt.Scale(**scale, domain=domain, nice=False), axis=axis)
    upper = alt.layer(*_traffic(sweep, name, x, theme)).properties(width=width, height=_TALL)
    lower = alt.layer(*_times(sweep, name, x, theme)).properties(width=width, height=_TALL)
    drawn: Any = alt.vconcat(upper, lower, spacing=26).resolve_scale(color="independent")
    return drawn.properties(title=_title(sweep, width, _said(sweep)), config=config(theme))


def _traffic(sweep: TileSweep, name: str, x: alt.X, theme: Theme) -> list[alt.Chart]:
    import altair as alt

    served = list(sweep.tiles[0].traffic_bytes)
    colours = [*(theme.caches[1:][: len(served) - 1]), theme.memory]
    rows = [
        {"size": tile.sizes[name], "bytes": tile.traffic_bytes[level], "level": level}
        for tile in sweep.tiles
        for level in served
        if tile.traffic_bytes[level] > 0
    ]
    values = [row["bytes"] for row in rows] or [1.0]
    low, high = min(values) / 1.5, max(values) * 3  # room for the names of the caches
    y = alt.Y(
        "bytes:Q",
        title="bytes that a level serves",
        scale=alt.Scale(type="log", domain=[low, high], nice=False),
        axis=alt.Axis(values=axes.decades(low, high), labelExpr=axes.si_label("B")),
    )
    scale = alt.Scale(domain=served, range=colours)
    colour = alt.Color("level:N", title=None, scale=scale, sort=served, legend=_legend())
    tips = [alt.Tooltip("level:N"), alt.Tooltip("size:Q", title=name), alt.Tooltip("bytes:Q", format=".3s")]
    base = alt.Chart(alt.Data(values=rows)).encode(x=x, y=y, color=colour, tooltip=tips)
    # The memory's line broad and below: where a cache serves as much, its own is seen upon it.
    wide = base.transform_filter(alt.FieldEqualPredicate(field="level", equal=served[-1]))
    others = base.transform_filter(alt.FieldOneOfPredicate(field="level", oneOf=served[:-1]))
    layers = [
        wide.mark_line(strokeWidth=6, opacity=0.35),
        wide.mark_point(filled=True, size=60, opacity=0.5),
        others.mark_line(strokeWidth=1.8),
        others.mark_point(filled=True, size=20, opacity=1),
    ]
    rules = [
        {"size": each.at, "text": each.text, "bytes": high, "row": n % 2}
        for n, each in enumerate(passed(sweep, name))
    ]
    if rules:
        marks = alt.Chart(alt.Data(values=rules)).encode(x=x)
        style: dict[str, Any] = {"align": "left", "dx": 4, "baseline": "top", "color": theme.muted, "fontSize": 11}
        layers.append(marks.mark_rule(strokeDash=[3, 3], color=theme.muted))
        for row in (0, 1):
            text = marks.transform_filter(f"datum.row === {row}").mark_text(**style, dy=2 + 14 * row)
            layers.append(text.encode(y=y, text="text:N"))
    return layers


def _times(sweep: TileSweep, name: str, x: alt.X, theme: Theme) -> list[alt.Chart]:
    import altair as alt

    rows = [
        {"size": tile.sizes[name], "seconds": seconds, "what": what}
        for tile in sweep.tiles
        for what, seconds in (("predicted", tile.predicted_s), ("measured", tile.measured_s))
        if seconds is not None
    ]
    names = [each for each in ("predicted", "measured") if any(row["what"] == each for row in rows)]
    colours = {"predicted": theme.ink, "measured": theme.point}
    values = [row["seconds"] for row in rows] or [1.0]
    low, high = min(values) / 1.5, max(values) * 2.2  # room for what to take
    y = alt.Y(
        "seconds:Q",
        title="one run, one core",
        scale=alt.Scale(type="log", domain=[low, high], nice=False),
        axis=alt.Axis(values=axes.decades(low, high), labelExpr=_TIME),
    )
    scale = alt.Scale(domain=names, range=[colours[each] for each in names])
    colour = alt.Color("what:N", title=None, scale=scale, sort=names, legend=_legend())
    tips = [alt.Tooltip("what:N"), alt.Tooltip("size:Q", title=name), alt.Tooltip("seconds:Q", format=".3s")]
    base = alt.Chart(alt.Data(values=rows)).encode(x=x, y=y, color=colour, tooltip=tips)
    taken = next(tile for tile in sweep.tiles if tile.sizes == sweep.best)
    best = {"size": taken.sizes[name], "seconds": taken.measured_s, "text": f"take {name} = {taken.sizes[name]:,}"}
    ring = alt.Chart(alt.Data(values=[best])).encode(x=x, y=y)
    left = _share(x, taken.sizes[name]) > 0.8
    style: dict[str, Any] = {
        "align": "right" if left else "left",
        "dx": 8 if left else -8,
        "dy": -12,
        "fontSize": 12,
    }
    return [
        base.transform_filter("datum.what === 'predicted'").mark_line(strokeWidth=2),
        base.mark_point(filled=True, size=45, opacity=1),
        ring.mark_point(size=190, color=theme.point, strokeWidth=2, opacity=1),
        ring.mark_text(**style, baseline="bottom", color=theme.point, fontWeight=600).encode(text="text:N"),
    ]


def _legend() -> alt.Legend:
    """Above the plane, which keeps its width."""
    import altair as alt

    return alt.Legend(orient="top", symbolOpacity=1, offset=4)


def _share(x: Any, value: float) -> float:
    scale = x.to_dict()["scale"]
    low, high = scale["domain"]
    if scale.get("type") == "log":
        return math.log(value / low) / math.log(high / low)
    return (value - low) / (high - low)


def _over_two(sweep: TileSweep, across: str, up: str, theme: Theme, width: int) -> alt.LayerChart:
    import altair as alt

    others = {key: size for key, size in sweep.best.items() if key not in (across, up)}
    shown = [tile for tile in sweep.tiles if all(tile.sizes[key] == size for key, size in others.items())]
    memory = list(shown[0].traffic_bytes)[-1]
    rows = [_cell(tile, across, up, memory, tile.sizes == sweep.best) for tile in shown]
    timed = any(tile.predicted_s is not None for tile in shown)
    what, label = ("predicted", _TIME) if timed else (f"{memory} traffic", axes.si_label("B"))
    legend = alt.Legend(labelExpr=label, gradientLength=min(_TALL, 160), titleLimit=120)
    colour = alt.Color("value:Q", title=what, scale=alt.Scale(scheme="viridis", reverse=True), legend=legend)
    tips = [across, up, "predicted:N", "measured:N", "traffic:N"]
    x = alt.X(f"{across}:O", title=across, axis=alt.Axis(grid=False, labelAngle=0, labelOverlap=True))
    y = alt.Y(f"{up}:O", title=up, sort="descending", axis=alt.Axis(grid=False))
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=x, y=y, tooltip=[alt.Tooltip(f"{each}:O" if ":" not in each else each) for each in tips]
    )
    ran = base.transform_filter("datum.measured !== '–'")
    layers = [
        base.mark_rect().encode(color=colour),
        ran.transform_filter("!datum.best").mark_point(
            size=40, filled=True, fill="white", stroke="black", opacity=1
        ),
        ran.transform_filter("datum.best").mark_point(
            size=150, filled=True, fill=theme.point, stroke="white", strokeWidth=2, opacity=1
        ),
    ]
    best = ", ".join(f"{key} = {size:,}" for key, size in sweep.best.items())
    subtitle = f"{what.capitalize()}; white: measured; red: take {best}"
    if others:
        subtitle += "; " + ", ".join(f"{key} = {size:,}" for key, size in others.items()) + " in all"
    rows_up = len({tile.sizes[up] for tile in shown})
    room = 110  # the legend
    drawn: Any = alt.layer(*layers)
    height = max(160, min(420, 26 * rows_up))
    return drawn.properties(
        width=width - room, height=height, title=_title(sweep, width - room, subtitle), config=config(theme)
    )


def _cell(tile: Tile, across: str, up: str, memory: str, best: bool) -> dict[str, Any]:
    return {
        across: tile.sizes[across],
        up: tile.sizes[up],
        "value": tile.traffic_bytes[memory] if tile.predicted_s is None else tile.predicted_s,
        "predicted": "–" if tile.predicted_s is None else si(tile.predicted_s, "s"),
        "measured": "–" if tile.measured_s is None else si(tile.measured_s, "s"),
        "traffic": si(tile.traffic_bytes[memory], "B"),
        "best": best,
    }


def _said(sweep: TileSweep) -> str:
    held = ", ".join(f"{name} {iec(nbytes)}" for name, nbytes in sweep.capacities_bytes.items())
    return f"Simulated from empty caches ({held}); dashed: where the misses of a cache rise most"


def _title(sweep: TileSweep, width: int, subtitle: str) -> alt.TitleParams:

    name = sweep.name if sweep.machine is None else f"{sweep.name} on {sweep.machine.name}"
    return axes.title_of(f"Tile sizes of {name}", subtitle, width)
