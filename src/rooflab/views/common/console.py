"""The terminal: a console as wide as it is, plain text in a pipe, tables folded to its width."""

from __future__ import annotations

import re
import sys
import textwrap
from typing import TYPE_CHECKING, Any, TextIO, cast

from rooflab.views.common.table import Table, only

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table as RichTable


# One sign for one, so that columns stay aligned.
_ASCII = str.maketrans("–—−×·µμ…─│→²³’“”", '---x.uu.-|>23\'""')
PIPE_WIDTH = 120  # a pipe has no width of its own: wide enough for every table


class _Spelled:
    """A text file that holds fewer characters than Unicode (LC_ALL=C): the others are spelled with those."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> int:
        """Write `text`, its known signs spelled out and any other that does not fit as a question mark."""
        spelled = text.translate(_ASCII)
        return self._file.write(spelled.encode(self._file.encoding, "replace").decode(self._file.encoding))

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)


def console(file: TextIO | None = None) -> Console:
    """A console on `file` (stdout): colours on a terminal unless NO_COLOR is set, none in a pipe."""
    from rich.console import Console
    from rich.text import Text

    class Plain(Console):
        """rich's console, which leaves a broken pipe to the command line, and no control to names of programs."""

        def print(self, *objects: Any, **how: Any) -> None:
            """Print `objects`, with what would steer the terminal in their text made visible."""
            for each in objects:
                if isinstance(each, Text):
                    each.plain = visible(each.plain)
            super().print(*objects, **how)

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    file = sys.stdout if file is None else file
    width = None if file is not None and file.isatty() else PIPE_WIDTH
    if file is not None and not speaks_unicode(file):
        file = cast("TextIO", _Spelled(file))
    return Plain(file=file, width=width, highlight=False, emoji=False, markup=False)


def visible(text: str) -> str:
    """`text` with every control character but tab and newline, and marks of writing direction, as U+FFFD."""
    return text if text.isprintable() else _STEERING.sub("\ufffd", text)


_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def paragraph(text: str, width: int, indent: str = "") -> list[str]:
    """`text` in lines of at most `width`, further ones after `indent`; a number is not parted from its unit."""
    lines = textwrap.wrap(unbroken(text), width, subsequent_indent=indent)
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]


def unbroken(text: str) -> str:
    """`text` in which a number and its unit stay on one line."""
    return _UNIT.sub("\N{NO-BREAK SPACE}", text)


_UNIT = re.compile(
    r"(?<=\d) (?=(?:%|[nµmkMGTPE]?(?:s|B|OP|MAC|FLOP|B/s|FLOP/s|OP/s)|[KMGT]iB|min|h|days|years|×)(?:[\s.,;:)]|$))"
)  # `format.js` has the same


def speaks_unicode(file: TextIO) -> bool:
    """Whether every character can be written to `file`; a made-up file that names no encoding takes them."""
    return (getattr(file, "encoding", None) or "utf-8").lower().startswith("utf")


def drawn_table(table: Table, width: int) -> list[RenderableType]:
    """The title, the rich table and the note; columns that don't fit go to a second table below."""
    from rich.text import Text

    parts: list[RenderableType] = [Text(table.title, style="bold")] if table.title else []
    for number, part in enumerate(fold(table, width)):
        parts += [Text(""), _drawn(part)] if number else [_drawn(part)]
    if table.note:
        parts.append(Text(table.note, style="dim"))
    return parts


def fold(table: Table, width: int) -> list[Table]:
    """`table` in as few parts as `width` columns allow, each with the first column repeated."""
    rows = (table.columns, *table.rows)
    widths = [max(len(row[i]) for row in rows) + 2 for i in range(len(table.columns))]
    groups, used = [[0]], widths[0]
    for i in range(1, len(widths)):
        if used + widths[i] > width and len(groups[-1]) > 1:
            groups.append([0])
            used = widths[0]
        groups[-1].append(i)
        used += widths[i]
    return [only(table, group) for group in groups]


def _drawn(table: Table) -> RichTable:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    drawn = RichTable(
        box=box.SIMPLE_HEAD, header_style="dim", padding=(0, 1, 0, 0), pad_edge=False, show_edge=False
    )
    for i, name in enumerate(table.columns):
        drawn.add_column(Text(visible(name)), justify="left" if i < table.words else "right", overflow="fold")
    for row in table.rows:
        drawn.add_row(*(Text(visible(cell)) for cell in row))
    return drawn
