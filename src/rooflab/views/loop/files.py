"""The files that a loop's report is written to."""

from __future__ import annotations

from rooflab.types.loop import LoopReport
from rooflab.views.common import files
from rooflab.views.loop.charts import picture
from rooflab.views.loop.page import html

_COUNTS = (
    *("hits", "misses", "compulsory", "capacity", "conflict"),
    *("evictions", "writebacks", "read_bytes", "write_bytes"),
)


def csv_text(report: LoopReport) -> str:
    """A row for each access of the source at each cache level, from empty caches; unknown is empty."""
    rows = []
    for level in report.simulation.levels:
        for each in level.references:
            line, _, access = each.name.partition(": ")
            rows.append((line, access, each.array, level.name, *(getattr(each, name) for name in _COUNTS)))
    return files.csv_text(("line", "access", "array", "level", *_COUNTS), rows)


# JSON holds everything, CSV a row for each access of the source at each level; the pictures are the roofline
# with a point for each level, of a loop without FLOP the times by level.
WRITERS = files.writers(html, csv_text, picture)
