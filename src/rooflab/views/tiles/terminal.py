"""A sweep of tile sizes in the terminal: traffic and times by size, then which to take."""

from __future__ import annotations

from typing import TextIO

from rooflab.types.tile_sweep import TileSweep
from rooflab.views.common.console import console, drawn_table
from rooflab.views.tiles import tables


def show(sweep: TileSweep, file: TextIO | None = None) -> None:
    """Print `sweep`."""
    from rich.text import Text

    out = console(file)
    out.print(Text(f"{sweep.name}: tile sizes", style="bold"))
    for each in sweep.warnings:
        out.print(Text(each, style="bold red"))
    for part in drawn_table(tables.tiles(sweep), out.width):
        out.print(part)
    out.print(Text(f"\n{tables.advice(sweep)}", style="bold"))
    for name, reason in list(sweep.failed.items())[:3]:
        out.print(Text(f"left out: {name}: {reason}"))
