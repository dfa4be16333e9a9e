"""Tables of comma-separated values in files that hold other lines too: what a program printed, banners, marks."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from typing import NamedTuple


class Table(NamedTuple):
    """A table: its header, its rows as lists of text, and how many lines beneath it were no row of it."""

    header: list[str]
    rows: list[list[str]]
    dropped: int


def plain_text(content: bytes) -> str:
    """`content` as text, whatever it is encoded in: marks of byte order say so, else UTF-8, else Latin-1."""
    for mark, encoding in ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"), (b"\xef\xbb\xbf", "utf-8-sig")):
        if content.startswith(mark):
            return content.decode(encoding, "replace")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return content.decode("latin-1")


def tables(text: str, is_header: Callable[[list[str]], bool], separator: str = ",") -> Iterator[Table]:
    """The tables in `text` whose header's cells `is_header` knows; a new header begins a new table.

    Lines with another number of cells than the header are dropped and counted; so is a quoted cell that never
    ends.
    """
    header: list[str] | None = None
    rows: list[list[str]] = []
    dropped = 0
    for cells in _records(text, separator):
        if is_header(cells):
            if header is not None:
                yield Table(header, rows, dropped)
            header, rows, dropped = [cell.strip() for cell in cells], [], 0
        elif header is not None and cells:
            if len(cells) == len(header):
                rows.append(cells)
            elif len(cells) < len(header) and len(cells) > 1 and not any(cells[len(cells) :]):
                # A row that leaves its empty last cells out.
                rows.append(cells + [""] * (len(header) - len(cells)))
            else:
                dropped += 1
    if header is not None:
        yield Table(header, rows, dropped)


def _records(text: str, separator: str) -> Iterator[list[str]]:
    """The lines of `text` as cells; a quoted cell may hold a line's end, but not a hundred of them."""
    lines = io.StringIO(text.replace("\0", ""))
    waiting = ""
    held = 0
    for line in lines:
        waiting += line
        if waiting.count('"') % 2 and held < 100:
            held += 1
            continue
        try:
            source = io.StringIO(waiting) if held else [waiting.rstrip("\r\n")]
            yield next(csv.reader(source, delimiter=separator), [])
        except csv.Error:
            yield [waiting]
        waiting, held = "", 0
    if waiting:
        yield waiting.split(separator)
