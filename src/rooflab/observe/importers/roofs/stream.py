"""STREAM: Copy, Scale, Add and Triad of McCalpin's benchmark, in C or Fortran, as it prints them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from rooflab.observe.importers.roofs import attained
from rooflab.observe.reading.numerals import decimal_comma, numeral
from rooflab.types.machine import Check, Machine, Rate
from rooflab.units import si

SOURCE = "STREAM"

# C 5.10: "Best Rate MB/s  Avg time"; before: "Rate (MB/s)   Avg time"; Fortran: "Rate (MB/s)  Avg time".
_HEADER = re.compile(r"^\s*Function\s+(?:Best )?Rate (?:\(MB/s\)|MB/s)\s+(?:Avg|RMS) time", re.MULTILINE)
_ROW = re.compile(r"^\s*(Copy|Scale|Add|Triad)\s*:?\s+(\S+)\s+(\S+)\s+(\S+)\s+(\S+)\s*$")
_BYTES = re.compile(r"(?:uses|Bytes per Word\s*=?)\s*(\d+)\s*(?:bytes per|$)", re.IGNORECASE)
_SIZE = re.compile(r"Array size\s*=\s*(\d+)", re.IGNORECASE)
_THREADS = re.compile(r"Number of Threads (counted|requested)\s*=\s*(\d+)", re.IGNORECASE)
_ALLOCATE = (
    "Bytes are those that the program names (Copy and Scale 2, Add and Triad 3 elements), without write-allocate"
)


def sniff(head: bytes) -> bool:
    """Whether `head`, the first of a file, is of STREAM: its table's header and a row."""
    text = attained.text_of(head)
    if text.lstrip().startswith("{"):
        return False
    found = _HEADER.search(text)
    return found is not None and "Copy" in text[found.end() :][:400]


def load(path: Path) -> Machine:
    """What the machine attained, of the best of several runs in the file at `path`.

    Raises:
        FileError: no row with a rate.
    """
    facts: dict[str, float] = {}
    best: dict[str, _Row] = {}
    dropped = 0
    lines = attained.lines_of(path)
    rows = [found for line in lines if (found := _ROW.match(line))]
    comma = decimal_comma(cell for row in rows for cell in row.groups()[1:])
    for line in lines:
        _take_fact(line, facts)
        found = _ROW.match(line)
        if found is None:
            continue
        value = attained.positive(numeral(found[2], comma), 1e6)
        if value is None:
            dropped += 1
            continue
        name = found[1].lower()
        if name not in best or value > best[name].value:
            average_s, least_s = (attained.positive(numeral(found[at], comma)) for at in (3, 4))
            best[name] = _Row(value, average_s, least_s, _step(found[4]), facts.copy())
    if not best:
        raise attained.nothing(
            path, SOURCE, "no row with a number", "lines such as 'Triad: 23314.0 0.28 0.27 0.29'"
        )
    return _machine(path, best, dropped)


class _Row(NamedTuple):
    """One line: bytes a second, seconds, and what the run had said before it."""

    value: float
    average_s: float | None
    least_s: float | None
    step_s: float
    facts: dict[str, float]

    @property
    def threads(self) -> int | None:
        """How many threads ran it."""
        return int(self.facts["threads"]) if "threads" in self.facts else None

    @property
    def spread(self) -> float | None:
        """How far the average run is off the best; None where the times contradict themselves."""
        if self.average_s is None or self.least_s is None or self.average_s < self.least_s:
            return None
        return 1 - self.least_s / self.average_s


def _step(text: str) -> float:
    """The last decimal of a time as printed: six decimals, of older versions four."""
    _, _, decimals = text.replace(",", ".").partition(".")
    return 10.0 ** -min(len(decimals), 12)


def _take_fact(line: str, facts: dict[str, float]) -> None:
    for name, pattern, group in (("word_bytes", _BYTES, 1), ("elements", _SIZE, 1), ("threads", _THREADS, 2)):
        found = pattern.search(line)
        value = attained.positive(found[group]) if found else None
        if value is not None:
            facts[name] = value


def _machine(path: Path, best: dict[str, _Row], dropped: int) -> Machine:
    origin = attained.source(SOURCE, path)
    rates: list[tuple[str, Rate]] = []
    checks: list[Check] = []
    where = attained.Place("DRAM")
    for name, row in best.items():
        size = row.facts.get("elements")
        array_bytes = None if size is None else size * row.facts.get("word_bytes", 8)
        where = attained.place(None if array_bytes is None else 3 * array_bytes, None)
        rates.append(
            (
                where.level,
                attained.byte_rate(name, row.value, origin, threads=row.threads, spread=row.spread),
            )
        )
        if array_bytes is not None and row.least_s is not None:
            checks.append(_rate_check(name, row, array_bytes))
    if where.check is not None:
        checks.append(where.check)
    threads = {row.threads for row in best.values()}
    counted = f"; {threads.pop()} threads" if len(threads) == 1 and None not in threads else ""
    return Machine(
        name=f"{path.stem} (STREAM)",
        kind="cpu",
        source=origin,
        levels=attained.levels(rates, None, origin),
        checks=tuple(checks),
        note=attained.note(
            f"Attained, as STREAM printed it; MB is 1e6 bytes{counted}.",
            f"{_ALLOCATE}: {_allocated(best)}.",
            attained.dropped_sentence(dropped),
        ),
    )


def _rate_check(name: str, row: _Row, array_bytes: float) -> Check:
    """Whether the rate is the arrays' bytes over the least time, as far as its decimals tell."""
    least_s = row.least_s or 1.0
    expected = attained.ELEMENTS[name] * array_bytes / least_s
    sentence = (
        f"{name} {si(row.value, 'B/s')} beside {si(expected, 'B/s')}, which is {attained.ELEMENTS[name]} arrays "
        f"of {array_bytes:,.0f} bytes in {si(least_s, 's')}"
    )
    return attained.agree(f"{name} against its time", row.value, expected, sentence, 0.002 + row.step_s / least_s)


def _allocated(best: dict[str, _Row]) -> str:
    """What memory moved where each store read its line first."""
    parts = [f"{name} {si(row.value * attained.WITH_ALLOCATE[name], 'B/s')}" for name, row in best.items()]
    return f"where ordinary stores read their line first, memory moved {', '.join(parts)}"
