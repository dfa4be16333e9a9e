"""The files that a sweep of tile sizes is written to."""

from __future__ import annotations

from rooflab.types.tile_sweep import TileSweep
from rooflab.views.common import files
from rooflab.views.common import markdown as texts
from rooflab.views.common.lines import Lines
from rooflab.views.tiles import tables
from rooflab.views.tiles.chart import chart
from rooflab.views.tiles.page import html


def lines(sweep: TileSweep) -> Lines:
    """A line for each configuration, in base units; unknown is empty."""
    names, levels = list(sweep.tiles[0].sizes), list(sweep.tiles[0].traffic_bytes)
    columns = [*names, *(f"{level}_bytes" for level in levels), "predicted_s", "measured_s", "runs", "spread"]
    rows = []
    for tile in sweep.tiles:
        sizes, traffic = [tile.sizes[name] for name in names], [int(tile.traffic_bytes[level]) for level in levels]
        measured = (None, None, None) if tile.measured_s is None else (tile.measured_s, tile.runs, tile.spread)
        rows.append([*sizes, *traffic, tile.predicted_s, *measured])
    return Lines(tuple(columns), rows)


def markdown(sweep: TileSweep) -> str:
    """`sweep` for a pull request: what to take and why, the best configurations."""
    return texts.document(sweep.name, (tables.advice(sweep),), (tables.tiles(sweep),), warnings=sweep.warnings)


# JSON holds everything, CSV a line for each configuration; the pictures are traffic and time over the tile size.
WRITERS = files.writers(html, lines, chart, markdown)
