"""A simulation of several cores as people see it: what they did to each other's caches."""

from __future__ import annotations

from typing import TextIO

from rooflab.types.core_simulation import CoreSimulation
from rooflab.views.common import sheet as sheets
from rooflab.views.cores.sheet import sheet_of

WRITERS = sheets.writers(sheet_of)


def show(simulation: CoreSimulation, file: TextIO | None = None) -> None:
    """Print `simulation`."""
    sheets.show(sheet_of(simulation), file)


def html(simulation: CoreSimulation) -> str:
    """The page of `simulation`."""
    return sheets.html(sheet_of(simulation))
