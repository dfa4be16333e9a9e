"""SQLite databases that profilers write: whose one is, its tables say."""

from __future__ import annotations

from pathlib import Path

from rooflab.errors import FileError
from rooflab.observe.importers.traces import nsight_systems, rocpd
from rooflab.observe.reading.databases import MAGIC, database
from rooflab.types.counted import Counters
from rooflab.types.trace import Trace

# Each has `SOURCE`, `knows` (its tables) and `read`. The first 64 KiB of a database need not name any table, so
# that one format stands for all of them.
_READERS = (nsight_systems, rocpd)
SOURCE = " or ".join(reader.SOURCE for reader in _READERS) + " (SQLite)"


def sniff(head: bytes) -> bool:
    """Whether `head`, the first of a file, begins an SQLite database."""
    return head.startswith(MAGIC)


def load(path: Path) -> Trace | Counters:
    """The trace, or the counters, in the database at `path`.

    Raises:
        FileError: no database, one of no known profiler, or one without activities that can be read.
    """
    with database(path) as file:
        for reader in _READERS:
            if reader.knows(file):
                return reader.read(file, path)
        tables = ", ".join(sorted(file.tables)[:5]) or "none"
    raise FileError(f"{path}: an SQLite database with the tables {tables}; expected an export of {SOURCE}")
