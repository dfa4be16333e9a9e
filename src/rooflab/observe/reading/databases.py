"""SQLite files of others, read without trusting them: tables alone, columns as arrays, damaged pages survived."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rooflab.errors import FileError
from rooflab.observe.reading.collector import collecting_nothing
from rooflab.observe.reading.columns import whole_numbers_of
from rooflab.observe.reading.opened import chunks

MAGIC = b"SQLite format 3\0"
_ROWS = 10_000  # that are held as Python's objects at a time
_CELL_BYTES = 64 * 2**20  # of a text, a blob, a row
_TABLES = 2_000  # exports of profilers have a hundred


class Database:
    """The tables of an SQLite file.

    Attributes:
        tables: columns by table; views and virtual tables are left out.
        damaged: tables whose rows could be read in part only.
    """

    def __init__(self, connection: sqlite3.Connection, tables: dict[str, tuple[str, ...]]) -> None:
        self._connection = connection
        self.tables = tables
        self.damaged: dict[str, str] = {}

    def pieces(self, table: str, wanted: Sequence[str]) -> Iterator[list[Sequence[Any]]]:
        """The columns `wanted` of `table`, piece by piece, as the file holds them; none where one is missing."""
        if not self.has(table, *wanted):
            return
        names = ", ".join(_quoted(one) for one in wanted)
        broken = False
        try:
            found = self._connection.execute(f"SELECT {names} FROM {_quoted(table)}")
        except sqlite3.Error as error:
            self.damaged[table] = str(error)
            return
        while not broken:
            rows: list[tuple[Any, ...]] = []
            try:
                with collecting_nothing():
                    rows.extend(islice(found, _ROWS))
            except (sqlite3.Error, OverflowError) as error:
                # What came before stays in `rows`.
                self.damaged[table] = str(error)
                broken = True
            if not rows:
                return
            yield list(zip(*rows, strict=True))

    def has(self, table: str, *columns: str) -> bool:
        """Whether `table` is there, with all of `columns`."""
        return table in self.tables and set(columns) <= set(self.tables[table])

    def wholes(self, table: str, columns: Sequence[str]) -> dict[str, NDArray[np.int64]]:
        """The columns of `table` that are there, as whole numbers; `NONE` for what is none."""
        there = [one for one in columns if self.has(table, one)]
        parts = (
            [[whole_numbers_of(column) for column in piece] for piece in self.pieces(table, there)]
            if there
            else []
        )
        return {
            name: np.concatenate([part[place] for part in parts]) if parts else np.empty(0, np.int64)
            for place, name in enumerate(there)
        }

    def rows(self, table: str, columns: Sequence[str]) -> list[dict[str, Any]]:
        """The rows of a small table by the columns that are there."""
        there = [one for one in columns if self.has(table, one)]
        pieces = self.pieces(table, there) if there else ()
        return [dict(zip(there, row, strict=True)) for piece in pieces for row in zip(*piece, strict=True)]

    def texts(self, table: str, key: str, value: str, wanted: NDArray[np.int64] | None = None) -> dict[int, str]:
        """The texts of the column `value` by the number in `key`; only those of `wanted` where it is given."""
        only = None if wanted is None else set(wanted.tolist())
        return {
            number: text
            for numbers, texts in self.pieces(table, (key, value))
            for number, text in zip(numbers, texts, strict=True)
            if isinstance(text, str) and isinstance(number, int) and (only is None or number in only)
        }


@contextmanager
def database(path: Path) -> Iterator[Database]:
    """The SQLite file at `path`, packed or not, as long as it is needed.

    Raises:
        FileError: a file that cannot be read, or no database.
    """
    with path.open("rb") as file:
        plain = file.read(len(MAGIC)) == MAGIC
    if plain:
        with _opened(path, path) as found:
            yield found
        return
    with tempfile.TemporaryDirectory(prefix="rooflab-") as folder:
        unpacked = Path(folder) / "database"
        with unpacked.open("wb") as file:
            for piece in chunks(path):
                file.write(piece)
        with _opened(unpacked, path) as found:
            yield found


@contextmanager
def _opened(file: Path, path: Path) -> Iterator[Database]:
    # "immutable": no journal or log beside the file is looked for, and nothing is written.
    address = f"{file.resolve().as_uri()}?mode=ro&immutable=1"
    with closing(sqlite3.connect(address, uri=True)) as connection:
        connection.text_factory = _text
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _CELL_BYTES)
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        try:
            # The first lets a file be read whose end is missing; it is opened read-only all the same.
            for setting in ("writable_schema=ON", "trusted_schema=OFF", "query_only=ON", "mmap_size=0"):
                connection.execute(f"PRAGMA {setting}").close()
            tables = _tables(connection)
        except sqlite3.Error as error:
            raise FileError(f"{path}: no SQLite database that can be read: {error}") from None
        connection.set_authorizer(_permits)
        yield Database(connection, tables)


def _permits(action: int, *_: str | None) -> int:
    """Reads alone: a file's own SQL (computed columns, virtual tables) runs nothing."""
    return sqlite3.SQLITE_OK if action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ) else sqlite3.SQLITE_DENY


def _tables(connection: sqlite3.Connection) -> dict[str, tuple[str, ...]]:
    found = {}
    listed = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
    for name, sql in listed[:_TABLES]:
        if isinstance(name, str) and isinstance(sql, str) and sql.lstrip().upper().startswith("CREATE TABLE"):
            columns = connection.execute(f"PRAGMA table_info({_quoted(name)})").fetchall()
            found[name] = tuple(str(column[1]) for column in columns)
    return found


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
