"""A result that is a heading, sentences and tables: one definition for the terminal and the page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TextIO

from rooflab.views.common import page
from rooflab.views.common.console import console, drawn_table
from rooflab.views.common.files import Writer, json_writer
from rooflab.views.common.table import Table


class Sheet(NamedTuple):
    """What is shown of a result.

    Attributes:
        name: the heading.
        what: kind of result, for a window's title.
        sentences: under the heading.
        tables: in reading order.
        warnings: what a reader must know first.
        notes: conventions and assumptions, last.
    """

    name: str
    what: str
    sentences: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def show(sheet: Sheet, file: TextIO | None = None) -> None:
    """Print `sheet`."""
    from rich.text import Text

    out = console(file)
    out.print(Text(sheet.name, style="bold"))
    for line in sheet.warnings:
        out.print(Text(line, style="bold red"))
    for line in sheet.sentences:
        out.print(Text(line))
    for table in sheet.tables:
        if table.rows:
            out.print(Text(""))
            for part in drawn_table(table, out.width):
                out.print(part)
    if sheet.notes:
        out.print(Text(""))
    for line in sheet.notes:
        out.print(Text(f"- {line}", style="dim"))


def html(sheet: Sheet) -> str:
    """The page of `sheet`."""
    notes = Table("Conventions and assumptions", ("",), tuple((line,) for line in sheet.notes))
    facts = (*sheet.warnings, *sheet.sentences)
    return page.render(sheet.name, sheet.what, facts=facts, tables=(*sheet.tables, notes))


def writers(sheet_of: Callable[[Any], Sheet]) -> dict[str, Writer]:
    """Writers of a result that `sheet_of` makes a sheet of: .json holds everything, .html is its page."""
    return {".json": json_writer, ".html": lambda result: html(sheet_of(result)).encode()}
