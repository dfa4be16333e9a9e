"""One HTML page that shows a sweep of tile sizes: what to take and why, the chart, every configuration."""

from __future__ import annotations

from rooflab.types.tile_sweep import TileSweep
from rooflab.views.common import page
from rooflab.views.common.table import Table
from rooflab.views.tiles import tables
from rooflab.views.tiles.chart import chart

# The legend stands beside the plane.
_DRAWINGS = (page.Drawing("Traffic and time over tile size", chart),)


def html(sweep: TileSweep) -> str:
    """The page of `sweep`: what to take and why, the chart, every configuration."""
    failed = Table("Left out", ("sizes", "why"), tuple(sweep.failed.items()), words=2)
    return page.render(
        sweep.name,
        "tile sizes",
        heading=f"Tile sizes of {sweep.name}" + ("" if sweep.machine is None else f" on {sweep.machine.name}"),
        facts=(tables.advice(sweep), *sweep.warnings),
        charts=page.charts(sweep, _DRAWINGS),
        tables=(tables.tiles(sweep, most=len(sweep.tiles))._replace(title="Every configuration"), failed),
        sources=() if sweep.machine is None else sweep.machine.sources,
    )
