"""One HTML page that shows a sweep of tile sizes: a single file that opens without a network."""

from __future__ import annotations

from rooflab.types.loop import TileSweep
from rooflab.types.machine import Source
from rooflab.views import loop_tables, page, tile_chart
from rooflab.views.loop_page import Named
from rooflab.views.tables import Table
from rooflab.views.tables import sources as sources_of
from rooflab.views.theme import DARK, LIGHT


def render(sweep: TileSweep) -> str:
    """The page of `sweep`: what to take and why, the chart, every configuration.

    Vega is inlined and nothing is loaded from elsewhere. All text from the sweep is escaped.
    """
    sources: tuple[Source, ...] = () if sweep.machine is None else sources_of(sweep.machine)
    failed = Table("Left out", ("sizes", "why"), tuple(sweep.failed.items()), words=2)
    shown = (loop_tables.tiles(sweep, most=len(sweep.tiles))._replace(title="Every configuration"), failed)
    return page.template().render(
        machine=Named(sweep.name),
        what="tile sizes",
        facts=(loop_tables.advice(sweep), *sweep.warnings),
        ridge=None,
        tables=tuple(table for table in shown if table.rows),
        checks=(),
        environment=Table("", (), ()),
        sources=sources,
        charts=charts(sweep),
        light=LIGHT,
        dark=DARK,
        vega=page.vega(),
    )


def charts(sweep: TileSweep) -> list[dict[str, object]]:
    """The chart of `sweep` by theme and width."""
    specs = {}
    for name, theme in (("light", LIGHT), ("dark", DARK)):
        # The legend stands beside the plane.
        for size, width in (("wide", page.WIDE - 90), ("narrow", page.NARROW - 90)):
            drawn = tile_chart.chart(sweep, theme=theme, width=width)
            specs[f"{name} {size}"] = drawn.to_dict() | {"padding": {"left": 0, "right": 2, "bottom": 4}}
    return [{"title": "Traffic and time over tile size", "specs": specs}]
