"""A comparison as people see it: what changed and why, operations ranked, arrows on the roofline."""

from __future__ import annotations

from typing import TextIO

from rooflab.types.comparison import Comparison
from rooflab.views.common import sheet as sheets
from rooflab.views.common.console import console
from rooflab.views.comparison.chart import arrows
from rooflab.views.comparison.markdown import markdown
from rooflab.views.comparison.sheet import lines, sheet_of

_, html, _known = sheets.room(sheet_of, lines, arrows)
# Markdown is what a pull request is told in.
WRITERS = {**_known, ".md": lambda comparison: markdown(comparison).encode()}
_ROOMY = 130  # columns where names need not be cut
_NUMBERS = 48  # columns of the numbers of an operation
_LEAST = 24  # letters of a name, and of its shapes, that are worth a line with the numbers


def show(comparison: Comparison, file: TextIO | None = None) -> None:
    """Print `comparison`, names cut where the terminal is narrow."""
    width = console(file).width
    # What does not fit beside the numbers stands below them, after the name again.
    one_line = width >= _NUMBERS + 2 * _LEAST
    cut = None if width >= _ROOMY else max((width - _NUMBERS) // 2 if one_line else width - _NUMBERS, 12)
    sheets.show(sheet_of(comparison, cut), file)
