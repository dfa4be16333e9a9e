"""A result that is a heading, sentences and tables: one definition for the terminal and the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO, cast

from rooflab.views.common.console import console, drawn_table
from rooflab.views.common.drawn import Drawing
from rooflab.views.common.files import Writer, writers
from rooflab.views.common.lines import Lines
from rooflab.views.common.table import Table

if TYPE_CHECKING:
    from rooflab.types.advice import Advices
    from rooflab.views.common.drawing import Picture
    from rooflab.views.common.files import Chart


class Sheet(NamedTuple):
    """What is shown of a result.

    Attributes:
        name: the heading.
        what: kind of result, for a window's title.
        sentences: under the heading.
        tables: in reading order.
        warnings: what a reader must know first.
        notes: conventions and assumptions, last.
        advice: what would help, shown where there is any: after the sentences, on the page as cards.
    """

    name: str
    what: str
    sentences: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    advice: Advices | None = None


def show(sheet: Sheet, file: TextIO | None = None) -> None:
    """Print `sheet`."""
    from rich.text import Text

    out = console(file)
    out.print(Text(sheet.name, style="bold"))
    for line in sheet.warnings:
        out.print(Text(line, style="bold red"))
    for line in sheet.sentences:
        out.print(Text(line))
    if sheet.advice is not None:
        from rooflab.views.common import advice as helping

        said = helping.lines(sheet.advice)
        if said:
            out.print(Text("\nWhat would help", style="bold"))
        for line in said:
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


def html(sheet: Sheet, charts: Sequence[dict[str, object]] = (), pictures: Sequence[Picture] = ()) -> str:
    """The page of `sheet`, with `charts` as `page.charts` makes them, and `pictures`."""
    from rooflab.views.common import advice as helping
    from rooflab.views.common import page

    notes = Table("Conventions and assumptions", ("",), tuple((line,) for line in sheet.notes))
    facts = (*sheet.warnings, *sheet.sentences)
    return page.render(
        sheet.name,
        sheet.what,
        facts=facts,
        charts=charts,
        pictures=pictures,
        tables=(*sheet.tables, notes),
        advice=helping.cards(sheet.advice),
    )


def markdown(sheet: Sheet) -> str:
    """`sheet` as Markdown: its first table at once, the others folded away."""
    from rooflab.views.common import advice as helping
    from rooflab.views.common import markdown as texts

    first, others = sheet.tables[:1], sheet.tables[1:]
    if sheet.advice is not None:
        first = (helping.short(sheet.advice), *first)
    return texts.document(
        sheet.name, sheet.sentences, first, warnings=sheet.warnings, notes=sheet.notes, folded=others
    )


class Room(NamedTuple):
    """What a room offers for its results."""

    show: Callable[..., None]
    html: Callable[[Any], str]
    writers: dict[str, Writer]


def room(
    sheet_of: Callable[[Any], Sheet],
    lines_of: Callable[[Any], Lines] | None = None,
    roofline: Callable[..., Chart] | None = None,
    more: tuple[Drawing, ...] = (),
    picture: Drawing | None = None,
    own_page: Callable[[Any], str] | None = None,
) -> Room:
    """What a room offers: `sheet_of` makes a sheet of a result, `lines_of` its numbers, `roofline` a picture.

    On the page `more` drawings follow that one. A result without a roofline may have another `picture`.
    A room with a page of its own hands it over as `own_page`; a notebook's cell, without scripts, holds the sheet.
    """
    if roofline is not None:
        picture = Drawing("Roofline", roofline, (460, 330))
    drawings = more if picture is None else (picture, *more)

    def show_result(result: Any, file: TextIO | None = None) -> None:
        """Print `result`."""
        show(sheet_of(result), file)

    def page_of(result: Any) -> str:
        """The page of `result`."""
        from rooflab.views.common import page

        if own_page is not None and not page.is_still():
            return own_page(result)
        return html(sheet_of(result), page.charts(result, drawings))

    def markdown_of(result: Any) -> str:
        """`result` for a pull request."""
        return markdown(sheet_of(result))

    draw = None if picture is None else cast("Callable[..., Chart]", picture.draw)
    known = writers(page_of, lines_of, draw, markdown_of)
    return Room(show_result, page_of, known)
