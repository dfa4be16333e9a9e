"""Cache lines that threads take from one another, as people see them: whose, how often, what that costs."""

from __future__ import annotations

from rooflab.types.loop import LoopReport
from rooflab.units import duration, si
from rooflab.views.common.table import Table

_LOST = "lines taken from one another"  # as the model calls it


def shared(report: LoopReport) -> Table | None:
    """A row for each line of the source that has threads take lines from one another; None where none does."""
    if not report.shared_lines:
        return None
    threads = report.shared_lines[0].threads
    rows = tuple(
        (
            f"{each.line}",
            each.array,
            f"{each.cache_lines:,}",
            si(each.taken, ""),
            si(each.falsely, ""),
        )
        for each in report.shared_lines
    )
    note = f"Of {threads} threads, in one run."
    if sum(each.falsely for each in report.shared_lines):
        note += (
            " Falsely: nothing that the thread then used was written by another since, the line only holds what"
            " belongs to several. What each thread writes on lines of its own (padded to whole lines, or in shares"
            " that are whole lines long) is not taken."
        )
    lost_s = max((each.lost_s.get(_LOST, 0.0) for each in report.scaling), default=0.0)
    if lost_s:
        note += (
            f" Predicted to cost {duration(lost_s)}, more or less by how much a core writes while it has a line."
        )
    return Table("Lines that threads take from one another", ("line", "array", "lines", "taken", "falsely"), rows,
                 words=2, note=note)  # fmt: skip
