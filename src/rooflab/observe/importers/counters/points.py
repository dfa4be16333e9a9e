"""Tables of kernels with time and work, whoever wrote them: a name, a time, FLOP or bytes a line.

Columns are known by their headings, units by what stands in them. Where a table says one thing twice (bytes and
FLOP/byte), the unit that makes both agree is taken: that tells MiB printed as MB.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from rooflab.dtypes import dtype as dtype_of
from rooflab.errors import FileError, RooflabError
from rooflab.observe.importers.counters.point_columns import Columns, number, of_header, resolved
from rooflab.observe.reading.numerals import decimal_comma, numeral
from rooflab.observe.reading.opened import content
from rooflab.observe.reading.tables import Table, plain_text, tables
from rooflab.types.counted import Counted, Counters
from rooflab.types.machine import Engine
from rooflab.types.trace import Device, Dropped
from rooflab.types.work import Flop, Traffic

SOURCE = "a table of kernels"

_BINARY = {1e3: 2.0**10, 1e6: 2.0**20, 1e9: 2.0**30, 1e12: 2.0**40}
_AGREE = 0.005  # two figures of one table that mean the same

_ENGINE = re.compile(r"(?:(matrix|vector|tensor|cuda|simd)[ _])?(\w+)")
_ENGINES: dict[str, Engine] = {"matrix": "matrix", "tensor": "matrix"}
_MOST_LINES = 1_000_000


def sniff(head: bytes) -> bool:
    """Whether `head`, the first of a file, has a line with the headings of such a table."""
    text = plain_text(head)
    if text.lstrip()[:1] in ("{", "["):
        return False  # JSON: its lines are no headings, and looking through them takes long
    return _separator(text) is not None


def _separator(text: str) -> str | None:
    """What stands between the cells of such a table; None where `text`, the first of a file, has none."""
    for line in text.splitlines()[:50]:
        found = next((each for each in (",", ";", "\t") if each in line and _is_header(line.split(each))), None)
        if found is not None:
            return found
    return None


def load(path: Path) -> Counters:
    """The kernels in the file at `path`.

    Raises:
        FileError: no such table, or no line of it with a name, a time, and FLOP or bytes.
    """
    text = plain_text(content(path))
    found = list(tables(text, _is_header, _separator(text) or ","))
    rows: list[Counted] = []
    notes: dict[str, None] = {}
    devices: set[str] = set()
    unusable = 0
    for table in found:
        columns = of_header(table.header)
        if columns is None:
            continue
        unusable += table.dropped
        comma = _comma(table)
        known = columns.places()
        columns, told = resolved(table, columns, comma)
        scale, said = _byte_scale(table, columns)
        notes |= dict.fromkeys([*told, *said, *_said(columns), *_unread(table, known, comma)])
        alike = _alike(table, columns)
        for row in table.rows[:_MOST_LINES]:
            one = _counted(row, columns, scale, comma, alike)
            if one is None:
                unusable += 1
                continue
            rows.append(one)
            if columns.device is not None and row[columns.device].strip():
                devices.add(row[columns.device].strip())
        if columns.form is None and (columns.flop or columns.rate):
            notes["the table names no number format: FLOP are taken for fp32 of vector units"] = None
    if not any(one.flop is not None or one.traffic for one in rows):
        raise FileError(
            f"{path}: a table of kernels without a usable line; {unusable} have no name and measured time "
            "(a report's CSV holds predictions; its JSON is read back)"
        )
    return Counters(
        source=SOURCE,
        rows=tuple(rows),
        device=Device(number=0, name=next(iter(devices)) if len(devices) == 1 else None),
        dropped=(Dropped(unusable, "lines without a name and a time"),) if unusable else (),
        notes=tuple(notes),
    )


def _comma(table: Table) -> bool:
    return decimal_comma(cell for row in table.rows[:50] for cell in row)


def _is_header(cells: Sequence[str]) -> bool:
    return len(cells) > 2 and of_header(cells) is not None


def _byte_scale(table: Table, columns: Columns) -> tuple[float, list[str]]:
    """What bytes are multiplied by so that FLOP ÷ bytes is what the table says; and what is to be said of it."""
    if columns.moved is None or columns.intensity is None or columns.flop is None:
        return 1.0, []
    comma = _comma(table)
    ratios = []
    for row in table.rows[:1000]:
        flop, moved, intensity = (
            number(row, column, comma) for column in (columns.flop, columns.moved, columns.intensity)
        )
        if flop and moved and intensity:
            ratios.append(flop / intensity / moved)
    if not ratios:
        return 1.0, []
    ratio = sorted(ratios)[len(ratios) // 2]
    binary = _BINARY.get(columns.moved.factor, 0.0) / columns.moved.factor
    if binary and abs(ratio / binary - 1) < _AGREE:
        return binary, [f'"{columns.moved.title}" holds powers of 1024: so FLOP ÷ bytes is what the table says']
    if abs(ratio - 1) > _AGREE:
        return 1.0, [f"FLOP ÷ bytes is {1 / ratio:.3g} times what the table says: its columns do not agree"]
    return 1.0, []


_OF_ONE = re.compile(r"\b(?:mean|avg|average|median|min|best|latency|per)\b")


def _said(columns: Columns) -> Iterator[str]:
    """What is to be known of how the columns were read."""
    if columns.total and columns.runs is not None:
        yield "times are totals over their number of calls; FLOP and bytes are taken for those of one call"
    elif columns.runs is not None and not _OF_ONE.search(columns.time.title):
        yield f'"{columns.time.title}" is taken for the time of one call, not of all of them'
    if columns.flop is not None and "mac" in columns.flop.title:
        yield f'"{columns.flop.title}": one multiply-accumulate is two FLOP'
    if columns.moved is None and not (columns.read and columns.written):
        if columns.byte_rate is not None:
            yield f'bytes are "{columns.byte_rate.title}" times the time'
        elif columns.intensity is not None and (columns.flop or columns.rate):
            yield f'bytes are FLOP over "{columns.intensity.title}"'


_MOST_NAMED = 6


def _unread(table: Table, known: set[int], comma: bool) -> Iterator[str]:
    """Columns of numbers whose headings say nothing that is known here."""
    sample = table.rows[:50]
    left = [
        f'"{title.strip()}"'
        for place, title in enumerate(table.header)
        if title.strip() and place not in known and any(numeral(row[place], comma) is not None for row in sample)
    ]
    if left:
        named, more = ", ".join(left[:_MOST_NAMED]), len(left) - _MOST_NAMED
        yield f"columns that are not read: {named}{f' and {more} more' if more > 0 else ''}"


def _alike(table: Table, columns: Columns) -> frozenset[str]:
    """Names that several lines have, which other columns tell apart."""
    seen = Counter(row[columns.name].strip() for row in table.rows) if columns.variants else {}
    return frozenset(name for name, times in seen.items() if times > 1)


def _counted(
    row: list[str], columns: Columns, byte_scale: float, comma: bool, alike: frozenset[str]
) -> Counted | None:
    name = row[columns.name].strip()
    time_s = number(row, columns.time, comma)
    if not name or not time_s:
        return None
    if name in alike:
        name = ", ".join((name, *(row[place].strip() for place in columns.variants if row[place].strip())))
    runs = None if columns.runs is None else numeral(row[columns.runs], comma)
    runs = int(runs) if runs is not None and 1 <= runs < 1e12 else 1
    if columns.total:
        time_s /= runs
    count, rate = number(row, columns.flop, comma), number(row, columns.rate, comma)
    if count is None and rate is not None:
        count = rate * time_s
    return Counted(
        name=name,
        time_s=time_s,
        runs=runs,
        flop=None if count is None else tuple(_flop(row, columns, count)),
        traffic=tuple(_traffic(row, columns, byte_scale, comma, time_s, count)),
    )


def _traffic(
    row: list[str], columns: Columns, byte_scale: float, comma: bool, time_s: float, flop: float | None
) -> Iterator[Traffic]:
    """The bytes of a line: stated, else of their rate, else of FLOP and the intensity."""
    level, basis = ("DRAM", "counted") if columns.main_memory else ("memory", "modelled")
    moved, each = number(row, columns.moved, comma), number(row, columns.byte_rate, comma)
    read, written = number(row, columns.read, comma), number(row, columns.written, comma)
    intensity = number(row, columns.intensity, comma)
    if moved is not None:
        yield Traffic(level, moved * byte_scale, 0.0, basis)
    elif read is not None and written is not None:
        yield Traffic(level, read, written, basis)
    elif columns.moved is None and each is not None:
        yield Traffic("memory", each * time_s, 0.0, "modelled")
    elif columns.moved is None and columns.byte_rate is None and flop and intensity:
        yield Traffic("memory", flop / intensity, 0.0, "modelled")


def _flop(row: list[str], columns: Columns, count: float) -> Iterator[Flop]:
    if not count:
        return
    text = "" if columns.form is None else row[columns.form].strip().lower()
    match = _ENGINE.fullmatch(text)
    engine: Engine = _ENGINES.get(match[1] or "", "vector") if match else "vector"
    try:
        form = dtype_of(match[2]).name if match else "fp32"
    except RooflabError:
        form = "fp32"
    yield Flop(engine, form, count)
