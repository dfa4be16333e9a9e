"""The files that a sweep of the teaching model is written to."""

from __future__ import annotations

from rooflab.types.lab import Sweep
from rooflab.views.common import files
from rooflab.views.lab.page import html
from rooflab.views.lab.roofline import with_times


def csv_text(sweep: Sweep) -> str:
    """A line for each value, in base units."""
    rows = [
        (value, each.memory_s, each.compute_s, each.total_s, each.regime)
        for value, each in zip(sweep.values, sweep.results, strict=True)
    ]
    return files.csv_text((sweep.parameter, "memory_s", "compute_s", "total_s", "regime"), rows)


WRITERS = files.writers(html, csv_text, with_times)
