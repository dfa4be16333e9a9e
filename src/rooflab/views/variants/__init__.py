"""One program's variants as people see them: predictions side by side."""

from __future__ import annotations

from typing import TextIO

from rooflab.types.variants import Variants
from rooflab.views.common import sheet as sheets
from rooflab.views.variants.sheet import csv_text, sheet_of

WRITERS = {**sheets.writers(sheet_of), ".csv": lambda variants: csv_text(variants).encode()}


def show(variants: Variants, file: TextIO | None = None) -> None:
    """Print `variants`."""
    sheets.show(sheet_of(variants), file)


def html(variants: Variants) -> str:
    """The page of `variants`."""
    return sheets.html(sheet_of(variants))
