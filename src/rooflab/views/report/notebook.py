"""A report in a notebook's cell: what limits it, what would help, its roofline as a picture, its operations."""

from __future__ import annotations

from rooflab.types.report import Report
from rooflab.views.common import advice as helping
from rooflab.views.common import page
from rooflab.views.common.table import Table
from rooflab.views.report import own_times, tables, verdict
from rooflab.views.report.roofline import roofline

LINES = 40  # operations; the page has all
_DRAWINGS = (page.Drawing("Roofline", roofline, (400, 330)),)


def cell(report: Report) -> str:
    """The page of `report` for a cell: short, and without a script where charts are pictures."""
    by = "bytes" if report.time_at_least_s is None else "time"
    helps = tuple((line,) for line in helping.lines(report.advice))
    said = (
        f"{verdict.headline(report)}.",
        verdict.distance(report),
        own_times.sentence(report),
        *tables.coverage(report),
    )
    return page.render(
        report.name,
        "operations",
        facts=(*(one for one in said if one), *report.warnings),
        charts=page.charts(report, _DRAWINGS),
        tables=(
            Table("What would help", ("",), helps),
            Table("Totals", ("", ""), tables.facts(report), words=2),
            own_times.suspects(report),
            own_times.table(report, LINES),
            tables.operations(report, by, LINES),
            Table("Conventions", ("",), tuple((each,) for each in report.conventions)),
        ),
    )
