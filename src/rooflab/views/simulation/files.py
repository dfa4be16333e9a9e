"""The page of a simulation of caches, and the files of its first accesses one by one."""

from __future__ import annotations

from typing import TextIO

from rooflab.types.simulation import Simulation
from rooflab.views.common import drawing, sheet
from rooflab.views.common.console import console
from rooflab.views.common.files import Writer, json_writer
from rooflab.views.common.page import Drawing, charts
from rooflab.views.simulation import steps
from rooflab.views.simulation.chart import chart
from rooflab.views.simulation.sheet import lines, sheet_of

_CHART = Drawing("Hits, misses and bytes at every level", chart)
show, _, _WRITERS = sheet.room(sheet_of, lines, picture=_CHART)


def html(simulation: Simulation) -> str:
    """The page of `simulation`: hits and misses, its first accesses where they are kept, tables."""
    shown = sheet_of(simulation)
    shown = shown._replace(name=f"Caches under {shown.name}")
    return sheet.html(shown, charts(simulation, (_CHART,)), steps.pictures(simulation))


WRITERS: dict[str, Writer] = {**_WRITERS, ".html": lambda simulation: html(simulation).encode()}
# Of `rooflab simulate … --steps`: the pictures are the accesses one by one.
STEP_WRITERS: dict[str, Writer] = {
    ".json": json_writer,
    ".html": WRITERS[".html"],
    **drawing.writers(steps.drawing),
}


def show_steps(simulation: Simulation, file: TextIO | None = None) -> None:
    """Print `simulation`, then its first accesses one by one."""
    from rich.text import Text

    show(simulation, file)
    out = console(file)
    out.print(Text("\nAccess by access", style="bold"))
    for line in steps.words(simulation):
        out.print(Text(line, no_wrap=True, overflow="ellipsis"))
