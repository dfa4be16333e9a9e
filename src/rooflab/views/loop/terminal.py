"""A loop in the terminal: what it asks for, what limits it at each level, what the compiler left, line by line."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

from rooflab.types.loop import LoopReport
from rooflab.views.common import advice as helping
from rooflab.views.common.console import console, drawn_table, fold, paragraph
from rooflab.views.common.table import Table, without
from rooflab.views.loop import count_tables, tables
from rooflab.views.loop.shared_lines import shared

if TYPE_CHECKING:
    from rich.console import RenderableType

_LABEL = 10  # columns of the names of facts
_SOURCE = 40  # columns of a line of source, where the terminal is narrow


def show(report: LoopReport, file: TextIO | None = None, *, advice: int | None = helping.TOP) -> None:
    """Print `report` with so many changes that would help; None for all of them."""
    out = console(file)
    for part in pages(report, out.width, advice=advice):
        out.print(part)


def show_advice(report: LoopReport, *, advice: int | None = helping.TOP) -> None:
    """Print what would help alone, behind a report that was shown before it was known."""
    out = console(None)
    for part in _advice(report, out.width, advice):
        out.print(part)


def pages(report: LoopReport, width: int = 80, *, advice: int | None = helping.TOP) -> list[RenderableType]:
    """What `show` prints, in order."""
    from rich.text import Text

    parts: list[RenderableType] = [Text(f"{report.name}  ({report.where})", style="bold")]
    parts += [Text(line, style="bold red") for each in report.warnings for line in paragraph(each, width)]
    parts.append(Text(""))
    parts += [_fact(name, value, width) for name, value in tables.facts(report)]
    parts += _advice(report, width, advice)
    shown = (
        tables.levels(report),
        tables.core_loops(report),
        tables.scaling(report),
        shared(report),
        lines(report, width),
        count_tables.kinds(report),
    )
    for table in shown:
        if table is not None and table.rows:
            parts += [Text(""), *drawn_table(table, width)]
    for title, lines_of_text in (("Layer conditions", tables.conditions(report)), ("Checked", report.checks)):
        if lines_of_text:
            parts += [Text(""), Text(title, style="bold")]
            parts += [Text(line) for each in lines_of_text for line in _listed(each, width)]
    parts += [Text(""), Text("Conventions", style="bold")]
    parts += [Text(line, style="dim") for each in report.conventions for line in _listed(each, width)]
    return parts


def _advice(report: LoopReport, width: int, advice: int | None) -> list[RenderableType]:
    from rich.text import Text

    helps = helping.lines(report.advice, advice)
    if not helps:
        return []
    said = [Text(line) for each in helps for line in paragraph(each, width)]
    return [Text(""), Text("What would help", style="bold"), *said]


def lines(report: LoopReport, width: int = 80) -> Table | None:
    """FLOP, accesses and misses by line of the source, as wide as `width` allows."""
    table = tables.lines(report)
    if table is None:
        return None
    room = max(_SOURCE, width - 16 * (len(table.columns) - 1))
    rows = tuple((number, _cut(text, room), *counts) for number, text, *counts in table.rows)
    table = table._replace(rows=rows)
    if len(fold(table, width)) == 1:
        return table
    note = f"{table.note} The source beside them: wider terminals, and -o loop.html.".strip()
    return without(table, ("source",))._replace(note=note)


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 1] + "…"


def _fact(name: str, value: str, width: int) -> RenderableType:
    from rich.text import Text

    wrapped = paragraph(value, max(width - _LABEL, 20)) or [""]
    return Text.assemble((name.ljust(_LABEL), "dim"), f"\n{' ' * _LABEL}".join(wrapped))


def _listed(text: str, width: int) -> list[str]:
    return paragraph(f"- {text}", width, "  ")
