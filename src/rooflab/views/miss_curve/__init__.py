"""A miss-ratio curve as people see it: misses by capacity."""

from __future__ import annotations

from typing import TextIO

from rooflab.types.simulation import MissCurve
from rooflab.views.common import sheet as sheets
from rooflab.views.miss_curve.sheet import sheet_of

WRITERS = sheets.writers(sheet_of)


def show(curve: MissCurve, file: TextIO | None = None) -> None:
    """Print `curve`."""
    sheets.show(sheet_of(curve), file)


def html(curve: MissCurve) -> str:
    """The page of `curve`."""
    return sheets.html(sheet_of(curve))
