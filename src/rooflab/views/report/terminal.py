"""A report in the terminal: coverage first, totals, tables, then what the numbers mean."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, TextIO

import msgspec

from rooflab.types.groups import GroupBy
from rooflab.types.report import Report
from rooflab.views.common import advice as helping
from rooflab.views.common.console import console, drawn_table, fold, paragraph
from rooflab.views.common.table import UNKNOWN, Table, without
from rooflab.views.report import own_times
from rooflab.views.report import tables as tables
from rooflab.views.report.selection import Selection

if TYPE_CHECKING:
    from rich.console import RenderableType

_LABEL = 13  # columns of the names of totals
_NAME, _LEAST = 16, 10  # a name is cut to the first while there are columns to leave out, then to the second
# What a narrow table can do without, the first first.
_OPTIONAL = ("MAC", "of bytes", "ridge", "of FLOP", "times", "FLOP", "FLOP/byte")


def show(
    report: Report,
    file: TextIO | None = None,
    *,
    group_by: GroupBy = "module",
    sort: str | None = None,
    top: int | None = None,
    advice: int | None = helping.TOP,
    selection: Selection | None = None,
) -> None:
    """Print `report`.

    Args:
        report: to print.
        file: stdout by default.
        group_by: what the subtotals are of.
        sort: "order", "time", "flop", "bytes" or "intensity"; by default operations by predicted time,
            else bytes, and groups by FLOP.
        top: lines of each table; by default all groups and a dozen operations.
        advice: changes that would help; None for all of them.
        selection: which operations are listed; by default any.

    Raises:
        UnknownNameError: no operation as the selection asks for.
    """
    out = console(file)
    how = {"sort": sort, "top": top, "advice": advice, "selection": selection}
    for part in pages(report, out.width, group_by=group_by, **how):
        out.print(part)


def pages(
    report: Report,
    width: int = 80,
    *,
    group_by: GroupBy = "module",
    sort: str | None = None,
    top: int | None = None,
    advice: int | None = helping.TOP,
    selection: Selection | None = None,
) -> list[RenderableType]:
    """What `show` prints, in order."""
    from rich.text import Text

    whole = report.coverage.complete
    parts: list[RenderableType] = [Text(report.name, style="bold")]
    parts += [Text(line, style="" if whole else "bold red") for line in tables.coverage(report)]
    parts += [Text(line, style="bold red") for each in report.warnings for line in _wrapped(each, width)]
    parts.append(Text(""))
    parts += [_fact(name, value, width) for name, value in tables.facts(report, suspects=True)]
    helps = helping.lines(report.advice, advice)
    if helps:
        parts += [Text(""), Text("What would help", style="bold")]
        parts += [Text(line) for each in helps for line in _wrapped(each, width)]
    own = own_times.table(report, own_times.ROWS if top is None else top)
    if own.rows:
        parts += [Text(""), *drawn(own, width)]
    by = "bytes" if report.time_at_least_s is None else "time"
    if len(report.rows) > 1:
        parts += [Text(""), *drawn(tables.groups(report, group_by, sort or "flop", top), width)]
    listed = report
    if selection is not None:
        rows = selection.rows(report)
        parts += [Text(""), *(Text(line) for line in _wrapped(selection.sentence(report, rows), width))]
        listed = msgspec.structs.replace(report, rows=rows)
    table = tables.operations(listed, sort or by, tables.TOP if top is None else top)
    parts += [Text(""), *drawn(table, width)]
    parts += [Text(line, style="dim") for each in tables.reasons(report) for line in _wrapped(each, width)]
    parts += [Text(""), Text("Conventions", style="bold")]
    parts += [Text(line, style="dim") for each in report.conventions for line in _wrapped(f"- {each}", width)]
    return parts


def drawn(table: Table, width: int) -> list[RenderableType]:
    """`table` as `terminal` draws it, its words shortened where that keeps it in one part."""
    return drawn_table(shortened(table, width), width)


def shortened(table: Table, width: int) -> Table:
    """`table` in one part of `width`: first its longest words are cut, then `_OPTIONAL` columns left out."""
    left_out = []
    while len(fold(table, width)) > 1:
        widths = [max(len(row[i]) for row in table.rows) for i in range(table.words)]
        widest = max(range(table.words), key=lambda i: widths[i])
        optional = next((name for name in _OPTIONAL if name in table.columns), None)
        if widths[widest] > (_NAME if optional else _LEAST):
            rows = tuple(_cut(row, widest, widths[widest] - 1) for row in table.rows)
            table = table._replace(rows=rows)
            continue
        if optional is None:
            break
        left_out.append(optional)
        table = without(table, (optional,))
    if left_out:
        table = table._replace(note=f"{table.note} Wider terminals show {', '.join(left_out)}.".strip())
    return table


def show_kinds(kinds: Mapping[str, tuple[str, Mapping[str, object]]], file: TextIO | None = None) -> None:
    """Print the operations that can be written by hand: their operands in order, their settings with defaults."""
    from rich.text import Text

    out = console(file)
    room = max((out.width - 24) // 2, 24)
    rows, alike = [], {}
    for name, (operands, settings) in kinds.items():
        if not settings and operands.startswith(("1 operand", "2 operand", "3 operand")):
            alike.setdefault(operands, []).append(name)
            continue
        written = (n if d is inspect.Parameter.empty else f"{n}={d}" for n, d in settings.items())
        told = (operands, ", ".join(written) or UNKNOWN)
        rows.append((name, *("\n".join(paragraph(text, room)) for text in told)))
    for part in drawn_table(Table("", ("kind", "shapes, in order", "settings"), tuple(rows), words=3), out.width):
        out.print(part)
    for operands, names in sorted(alike.items()):
        text = f"Element by element, {operands}: {', '.join(names)}"
        out.print(Text("\n" + "\n".join(paragraph(text, out.width))))


def _cut(row: tuple[str, ...], column: int, length: int) -> tuple[str, ...]:
    text = row[column]
    if len(text) > length:
        # The end of a module's path says more than its beginning; a tree's indent must stay.
        indent = len(text) - len(text.lstrip())
        text = text[:indent] + "…" + text[len(text) - (length - indent - 1) :]
    return (*row[:column], text, *row[column + 1 :])


def _fact(name: str, value: str, width: int) -> RenderableType:
    from rich.text import Text

    lines = paragraph(value, max(width - _LABEL, 20)) or [""]
    return Text.assemble((name.ljust(_LABEL), "dim"), f"\n{' ' * _LABEL}".join(lines))


def _wrapped(text: str, width: int) -> list[str]:
    return paragraph(text, width, "  ")
