"""Rows of text under named columns, and how a number is written in one: what the terminal and the page share."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rooflab import units

if TYPE_CHECKING:
    from rooflab.types.machine import Rate

UNKNOWN = "–"


_UNITS = {
    "byte": "B/s",
    "flop": "FLOP/s",
    "op": "OP/s",
    "inst": "inst/s",
    "transaction": "IOPS",
    "cycle": "Hz",
}


LONGEST_NUMBER = 30  # characters: "1,234 µs (1,200 µs to 1,300 µs)"


class Table(NamedTuple):
    """Rows of text under named columns. The first `words` columns are words, the others numbers."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: int = 1
    note: str = ""

    @property
    def texts(self) -> frozenset[int]:
        """Columns behind the words whose cells are sentences or code, not numbers: they are set as text is."""
        behind = range(self.words, len(self.columns))
        return frozenset(
            at for at in behind if max((len(row[at]) for row in self.rows), default=0) > LONGEST_NUMBER
        )


def rate_text(rate: Rate | None) -> str:
    """A rate with its unit, or a dash where there is none."""
    return UNKNOWN if rate is None else units.si(rate.value, _UNITS[rate.per_s])


def capacity(nbytes: float | None) -> str:
    """Caches in KiB and MiB; a large memory as its maker counts it: 80 GB is no whole number of MiB."""
    if nbytes is None:
        return UNKNOWN
    whole = nbytes < units.GIB or nbytes % units.MIB == 0
    return units.iec(nbytes, 3) if whole else units.si(nbytes, "B")


def quantity(value: float | None, unit: str) -> str:
    """`value` with an SI prefix and `unit`, or a dash where it is unknown."""
    return UNKNOWN if value is None else units.si(value, unit)


def lasting(seconds: float | None) -> str:
    """A time from nanoseconds to years, or a dash where it is unknown."""
    return UNKNOWN if seconds is None else units.duration(seconds)


def without_empty(title: str, columns: tuple[str, ...], rows: list, words: int = 1, note: str = "") -> Table:
    """A table without the columns that hold nothing but unknowns."""
    table = Table(title, columns, tuple(rows), words, note)
    return only(table, [i for i in range(len(columns)) if any(row[i] != UNKNOWN for row in rows)])


def without(table: Table, names: tuple[str, ...]) -> Table:
    """`table` without the columns called `names`."""
    return only(table, [i for i, name in enumerate(table.columns) if name not in names])


def only(table: Table, kept: list[int]) -> Table:
    """`table` with its columns numbered `kept` alone."""
    return table._replace(
        columns=tuple(table.columns[i] for i in kept),
        rows=tuple(tuple(row[i] for i in kept) for row in table.rows),
        words=sum(1 for i in kept if i < table.words),
    )
