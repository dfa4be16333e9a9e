"""One HTML page that shows a loop: a single file that opens without a network."""

from __future__ import annotations

from typing import Any, NamedTuple

from rooflab.errors import RooflabError
from rooflab.types.loop import LoopReport
from rooflab.views import loop_chart, loop_counts, loop_tables, page
from rooflab.views.tables import Table
from rooflab.views.tables import sources as sources_of
from rooflab.views.theme import DARK, LIGHT

_TEMPLATE = "loop.html.j2"
_TALL, _SMALL = (460, 330), (None, None)  # pixels of a wide and of a narrow plane; None: by the number of bars


class Named(NamedTuple):
    """What the page's template asks of its subject: a name."""

    name: str


class Line(NamedTuple):
    """A line of the source on the page: each of `cells` is a text and its share of that column's total."""

    number: int
    text: str
    cells: tuple[tuple[str, float], ...]


def render(report: LoopReport) -> str:
    """The page of `report`: its bound, the roofline and the times by level, its source with misses, all tables.

    Vega is inlined and nothing is loaded from elsewhere. All text from the report is escaped.
    """
    said = loop_tables.bound(report).rstrip(".")
    return page.template(_TEMPLATE).render(
        machine=Named(report.name),
        what="a loop",
        facts=(f"{said[0].upper()}{said[1:]}.", report.where),
        warnings=report.warnings,
        ridge=None,
        columns=("FLOP", "accesses", *(f"{level.name} misses" for level in report.simulation.levels)),
        listing=listing(report),
        tables=every(report),
        checks=(),
        environment=Table("", (), ()),
        sources=() if report.machine is None else sources_of(report.machine),
        charts=charts(report),
        light=LIGHT,
        dark=DARK,
        vega=page.vega(),
    )


def every(report: LoopReport) -> tuple[Table, ...]:
    """All tables of `report` in reading order."""
    left_out = ("Bound", "Measured", "Predicted", "prange", "Compiled")
    facts = [fact for fact in loop_tables.facts(report) if fact[0] not in left_out]
    first = (Table("Totals", ("", ""), tuple(facts), words=2), loop_tables.levels(report))
    conditions = tuple((each,) for each in loop_tables.conditions(report))
    last = (
        Table("Layer conditions", ("",), conditions),
        Table("Checked", ("",), tuple((each,) for each in report.checks)),
        Table("Conventions and assumptions", ("",), tuple((each,) for each in report.conventions)),
    )
    made = (*first, *loop_counts.every(report), *last)
    return tuple(table for table in made if table is not None and table.rows)


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
                (loop_tables.short(count), count / total)
                for count, total in zip(counted[number], totals, strict=True)
            )
            if number in counted
            else nothing,
        )
        for number, text in source
    )


def charts(report: LoopReport) -> list[dict[str, object]]:
    """The roofline and the times by level that there is data for, by theme and width."""
    made = []
    for title, draw, heights in (("Roofline", loop_chart.roofline, _TALL), ("Time", loop_chart.times, _SMALL)):
        specs: dict[str, object] = {}
        try:
            for name, theme in (("light", LIGHT), ("dark", DARK)):
                for size, width, height in (("wide", page.WIDE, heights[0]), ("narrow", page.NARROW, heights[1])):
                    more: dict[str, Any] = {} if height is None else {"height": height}
                    drawn = draw(report, theme=theme, width=width, **more)
                    specs[f"{name} {size}"] = drawn.to_dict() | {"padding": {"left": 0, "right": 2, "bottom": 4}}
        except RooflabError:
            # No roofs or no point under them: the tables hold what there is.
            continue
        made.append({"title": title, "specs": specs})
    return made
