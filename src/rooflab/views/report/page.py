"""One HTML page that shows a report: coverage, totals, the roofline with its operations, tables."""

from __future__ import annotations

from rooflab.types.report import Report
from rooflab.views.common import page
from rooflab.views.common.table import Table
from rooflab.views.report import tables
from rooflab.views.report.roofline import roofline

LINES = 200  # operations on the page; the CSV and JSON files have all
_DRAWINGS = (page.Drawing("Roofline", roofline, (460, 330)),)


def html(report: Report) -> str:
    """The page of `report`: coverage first, totals, the roofline with its operations, tables, conventions.

    Without a machine, or without FLOP, there is no roofline.
    """
    return page.render(
        report.name,
        "operations",
        facts=(*tables.coverage(report), *report.warnings),
        charts=page.charts(report, _DRAWINGS),
        tables=every(report),
        environment=Table("Environment", ("what", "value"), tuple(report.environment.items())),
        sources=() if report.machine is None else report.machine.sources,
    )


def every(report: Report) -> tuple[Table, ...]:
    """All tables of `report` in reading order."""
    totals = [(name, value) for name, value in tables.facts(report)]
    shown = [Table("Totals", ("", ""), tuple(totals), words=2)]
    if len(report.rows) > 1:
        shown += [tables.groups(report, "module"), tables.groups(report, "kind")]
    shown.append(tables.operations(report, "bytes" if report.time_at_least_s is None else "time", LINES))
    reasons = tuple((reason,) for reason in tables.reasons(report))
    shown.append(Table("No bound", ("",), reasons, words=1))
    shown.append(Table("Conventions", ("",), tuple((each,) for each in report.conventions)))
    return tuple(table for table in shown if table.rows)
