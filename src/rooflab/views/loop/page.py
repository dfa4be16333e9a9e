"""One HTML page that shows a loop: its bound, its roofline and times, its source line by line, all tables."""

from __future__ import annotations

from typing import NamedTuple

from rooflab.types.loop import LoopReport
from rooflab.views.common import advice as helping
from rooflab.views.common import page
from rooflab.views.common.table import Table
from rooflab.views.loop import charts, count_tables, tables
from rooflab.views.loop.shared_lines import shared

_DRAWINGS = (
    page.Drawing("Roofline", charts.roofline, (460, 330)),
    page.Drawing("What takes how long", charts.times),  # as high as it has bars
    page.Drawing("Over cores", charts.scaling, (300, 260)),
)


class Line(NamedTuple):
    """A line of the source on the page: each of `cells` is a text and its share of that column's total."""

    number: int
    text: str
    cells: tuple[tuple[str, float], ...]


def html(report: LoopReport) -> str:
    """The page of `report`: its bound, the roofline and the times by level, its source with misses, all tables."""
    bound = tables.bound(report).rstrip(".")
    return page.render(
        report.name,
        "a loop",
        heading=f"Loop {report.name}" + ("" if report.machine is None else f" on {report.machine.name}"),
        facts=(f"{bound[0].upper()}{bound[1:]}.", report.where),
        charts=page.charts(report, _DRAWINGS),
        tables=every(report),
        sources=() if report.machine is None else report.machine.sources,
        template="loop/page.html.j2",
        warnings=report.warnings,
        advice=helping.cards(report.advice),
        columns=("FLOP", "accesses", *(f"{level.name} misses" for level in report.simulation.levels)),
        listing=listing(report),
    )


def every(report: LoopReport) -> tuple[Table, ...]:
    """All tables of `report` in reading order."""
    left_out = ("Bound", "Measured", "Predicted", "prange", "OpenMP", "Compiled")
    facts = [fact for fact in tables.facts(report) if fact[0] not in left_out]
    totals = Table("Totals", ("", ""), tuple(facts), words=2)
    first = (totals, tables.levels(report), tables.core_loops(report), tables.scaling(report), shared(report))
    conditions = tuple((each,) for each in tables.conditions(report))
    last = (
        Table("Layer conditions", ("",), conditions),
        Table("Checked", ("",), tuple((each,) for each in report.checks)),
        Table("Conventions and assumptions", ("",), tuple((each,) for each in report.conventions)),
    )
    shown = (*first, *count_tables.every(report), *last)
    return tuple(table for table in shown if table is not None and table.rows)


def listing(report: LoopReport) -> tuple[Line, ...]:
    """The source line by line, with what each line computes, accesses and misses."""
    names = [level.name for level in report.simulation.levels]
    counted = {
        each.line: (each.flop, each.accesses, *(each.misses.get(name, 0) for name in names))
        for each in report.lines
    }
    totals = [max(sum(column), 1) for column in zip(*counted.values(), strict=True)]
    source = report.source or tuple((each.line, each.text) for each in report.lines)
    nothing = (("", 0.0),) * (2 + len(names))
    return tuple(
        Line(
            number,
            text,
            tuple(
                (tables.short(count), count / total) for count, total in zip(counted[number], totals, strict=True)
            )
            if number in counted
            else nothing,
        )
        for number, text in source
    )
