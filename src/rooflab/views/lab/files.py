"""The files that a sweep of the teaching model is written to."""

from __future__ import annotations

from rooflab.types.lab import Sweep
from rooflab.views.common import files
from rooflab.views.common import markdown as texts
from rooflab.views.common.lines import Lines
from rooflab.views.lab import terminal
from rooflab.views.lab.page import html
from rooflab.views.lab.roofline import with_times


def lines(sweep: Sweep) -> Lines:
    """A line for each value, in base units."""
    rows = [
        (value, each.memory_s, each.compute_s, each.total_s, each.regime)
        for value, each in zip(sweep.values, sweep.results, strict=True)
    ]
    return Lines((sweep.parameter, "memory_s", "compute_s", "total_s", "regime"), rows)


def markdown(sweep: Sweep) -> str:
    """`sweep` for a pull request: what is fixed, where the regime turns, the values."""
    said = (*terminal.fixed(sweep), terminal.turning(sweep))
    return texts.document(sweep.name, said, (terminal.table(sweep),))


WRITERS = files.writers(html, lines, with_times, markdown)
