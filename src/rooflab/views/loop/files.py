"""The files that a loop's report is written to."""

from __future__ import annotations

from rooflab.types.loop import LoopReport
from rooflab.views.common import files
from rooflab.views.common import markdown as texts
from rooflab.views.common.lines import Lines
from rooflab.views.loop import tables
from rooflab.views.loop.charts import picture
from rooflab.views.loop.page import every, html

_COUNTS = (
    *("hits", "misses", "compulsory", "capacity", "conflict"),
    *("evictions", "writebacks", "read_bytes", "write_bytes"),
)


def lines(report: LoopReport) -> Lines:
    """A row for each access of the source at each cache level, from empty caches; unknown is empty."""
    rows = []
    for level in report.simulation.levels:
        for each in level.references:
            line, _, access = each.name.partition(": ")
            rows.append((line, access, each.array, level.name, *(getattr(each, name) for name in _COUNTS)))
    return Lines(("line", "access", "array", "level", *_COUNTS), rows)


def markdown(report: LoopReport) -> str:
    """`report` for a pull request: what binds it, traffic and times by level; the counts folded away."""
    first, *others = every(report)
    said = (f"{tables.bound(report).rstrip('.')}.", report.where)
    return texts.document(report.name, said, (first,), warnings=report.warnings, folded=others)


# JSON holds everything, CSV a row for each access of the source at each level; the pictures are the roofline
# with a point for each level, of a loop without FLOP the times by level.
WRITERS = files.writers(html, lines, picture, markdown)
