"""One HTML page that shows a report: a single file that opens without a network."""

from __future__ import annotations

from typing import NamedTuple

from rooflab.errors import RooflabError
from rooflab.types.machine import Source
from rooflab.types.report import Report
from rooflab.views import page, report_chart
from rooflab.views import report_tables as tables
from rooflab.views.tables import Table
from rooflab.views.tables import sources as sources_of
from rooflab.views.theme import DARK, LIGHT

LINES = 200  # operations on the page; the CSV and JSON files have all


class _Named(NamedTuple):
    """What the page's template asks of its subject: a name."""

    name: str


def render(report: Report) -> str:
    """The page of `report`: coverage first, totals, the roofline with its operations, tables, conventions."""
    sources: tuple[Source, ...] = () if report.machine is None else sources_of(report.machine)
    return page.template().render(
        machine=_Named(report.name),
        what="operations",
        facts=(*tables.coverage(report), *report.warnings),
        ridge=None,
        tables=every(report),
        checks=(),
        environment=Table("Environment", ("what", "value"), tuple(report.environment.items())),
        sources=sources,
        charts=charts(report),
        light=LIGHT,
        dark=DARK,
        vega=page.vega(),
    )


def every(report: Report) -> tuple[Table, ...]:
    """All tables of `report` in reading order."""
    totals = [(name, value) for name, value in tables.facts(report)]
    made = [Table("Totals", ("", ""), tuple(totals), words=2)]
    if len(report.rows) > 1:
        made += [tables.groups(report, "module"), tables.groups(report, "kind")]
    made.append(tables.operations(report, "bytes" if report.prediction is None else "time", LINES))
    reasons = tuple((reason,) for reason in tables.reasons(report))
    made.append(Table("No bound", ("",), reasons, words=1))
    made.append(Table("Conventions", ("",), tuple((each,) for each in report.conventions)))
    return tuple(table for table in made if table.rows)


def charts(report: Report) -> list[dict[str, object]]:
    """The roofline by theme and width; none for a report without a machine or without FLOP."""
    specs = {}
    for name, theme in (("light", LIGHT), ("dark", DARK)):
        for size, width, height in (("wide", page.WIDE, 460), ("narrow", page.NARROW, 330)):
            try:
                drawn = report_chart.roofline(report, theme=theme, width=width, height=height)
            except RooflabError:
                # Nothing to draw: the tables hold what there is.
                return []
            specs[f"{name} {size}"] = drawn.to_dict() | {"padding": {"left": 0, "right": 2, "bottom": 4}}
    return [{"title": "Roofline", "specs": specs}]
