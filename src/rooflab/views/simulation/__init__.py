"""A simulation of caches as people see it: what every level did, by array."""

from __future__ import annotations

from typing import TextIO

from rooflab.types.simulation import Simulation
from rooflab.views.common import sheet as sheets
from rooflab.views.simulation.sheet import csv_text, sheet_of

WRITERS = {**sheets.writers(sheet_of), ".csv": lambda simulation: csv_text(simulation).encode()}


def show(simulation: Simulation, file: TextIO | None = None) -> None:
    """Print `simulation`."""
    sheets.show(sheet_of(simulation), file)


def html(simulation: Simulation) -> str:
    """The page of `simulation`."""
    return sheets.html(sheet_of(simulation))
