"""Tables of kernels with time and work, whoever wrote them: a name, a time, FLOP or bytes a line.

Columns are known by their headings, units by what stands in them. Where a table says one thing twice (bytes and
FLOP/byte), the unit that makes both agree is taken: that tells MiB printed as MB.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from rooflab.dtypes import dtype as dtype_of
from rooflab.errors import FileError, RooflabError
from rooflab.observe.reading.numerals import decimal_comma, numeral
from rooflab.observe.reading.opened import content
from rooflab.observe.reading.tables import Table, plain_text, tables
from rooflab.types.counted import Counted, Counters
from rooflab.types.machine import Engine
from rooflab.types.trace import Device, Dropped
from rooflab.types.work import Flop, Traffic

SOURCE = "a table of kernels"

_SECONDS = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9}
_PREFIX = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15}
_BYTES = {"b": 1.0, "byte": 1.0, "bytes": 1.0, "": 1.0} | {f"{each}b": _PREFIX[each] for each in "kmgt"}
_BYTES |= {"kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30, "tib": 2.0**40}
_BINARY = {1e3: 2.0**10, 1e6: 2.0**20, 1e9: 2.0**30, 1e12: 2.0**40}
_AGREE = 0.005  # two figures of one table that mean the same

_NAME = re.compile(r"kernel(?: name)?|name|op(?:eration)?|loop|region|function|benchmark")
_TIME = re.compile(
    r"(?:(?:mean|avg|average|median|kernel|gpu|total) )*(?:time|duration|runtime|elapsed|mean|median)? ?"
    r"\(?(s|sec|seconds|ms|us|µs|μs|ns)\)?(?: mean)?"
)
_FLOP = re.compile(r"(?:total )?([kmgtp]?)flops?(?: count)?")
_FLOP_RATE = re.compile(r"(?:achieved |mean )?([kmgtp]?)flops?(?:/s(?:ec)?|ps| per s)(?: mean)?|([kmgtp])flops")
_MOVED = re.compile(
    r"(?:(dram|hbm) )?(?:bytes|nbytes|total bytes|data moved|bytes moved|memory traffic) ?"
    r"\(?(b|byte|bytes|[kmgt]i?b)?\)?"
)
_INTENSITY = re.compile(r"ai|(?:arithmetic|operational) intensity|intensity|flops?/b(?:yte)?")
_RUNS = re.compile(r"(?:operation )?count|calls|runs|instances|times")
_FORMAT = re.compile(r"dtype|precision|data ?type|compute spec|number format")
_DEVICE = re.compile(r"(?:gpu|device)(?: name| model)?|cpu(?: name)?|machine")
_ENGINE = re.compile(r"(?:(matrix|vector|tensor|cuda|simd)[ _])?(\w+)")
_ENGINES: dict[str, Engine] = {"matrix": "matrix", "tensor": "matrix"}
_MOST_LINES = 1_000_000


class _Column(NamedTuple):
    place: int
    factor: float
    title: str


class _Columns(NamedTuple):
    """Where what stands; None for what the table lacks."""

    name: int
    time: _Column
    flop: _Column | None
    rate: _Column | None
    moved: _Column | None
    intensity: _Column | None
    runs: int | None
    form: int | None
    device: int | None
    main_memory: bool  # the bytes are said to be those of main memory


def sniff(head: bytes) -> bool:
    """Whether `head`, the first of a file, has a line with the headings of such a table."""
    text = plain_text(head)
    if text.lstrip()[:1] in ("{", "["):
        return False  # JSON: its lines are no headings, and looking through them takes long
    lines = text.splitlines()[:50]
    return any(_is_header(line.split(",")) for line in lines if "," in line)


def load(path: Path) -> Counters:
    """The kernels in the file at `path`.

    Raises:
        FileError: no such table, or no line of it with a name, a time, and FLOP or bytes.
    """
    found = list(tables(plain_text(content(path)), _is_header))
    rows: list[Counted] = []
    notes: dict[str, None] = {}
    devices: set[str] = set()
    unusable = 0
    for table in found:
        columns = _columns(table.header)
        if columns is None:
            continue
        unusable += table.dropped
        scale, said = _byte_scale(table, columns)
        notes |= dict.fromkeys(said)
        for row in table.rows[:_MOST_LINES]:
            one = _counted(row, columns, scale, _comma(table))
            if one is None:
                unusable += 1
                continue
            rows.append(one)
            if columns.device is not None and row[columns.device].strip():
                devices.add(row[columns.device].strip())
        if columns.form is None and (columns.flop or columns.rate):
            notes["the table names no number format: FLOP are taken for fp32 of vector units"] = None
    if not any(one.flop is not None or one.traffic for one in rows):
        raise FileError(f"{path}: a table of kernels without a usable line; {unusable} have no name and time")
    return Counters(
        source=SOURCE,
        rows=tuple(rows),
        device=Device(number=0, name=next(iter(devices)) if len(devices) == 1 else None),
        dropped=(Dropped(unusable, "lines without a name and a time"),) if unusable else (),
        notes=tuple(notes),
    )


def _comma(table: Table) -> bool:
    return decimal_comma(cell for row in table.rows[:50] for cell in row)


def _plain(title: str) -> str:
    return re.sub(r"\s+", " ", title.strip().lstrip("\ufeff").strip('"').lower().replace("_", " "))


def _is_header(cells: Sequence[str]) -> bool:
    return len(cells) > 2 and _columns(cells) is not None


def _columns(header: Sequence[str]) -> _Columns | None:
    """Where what stands under `header`; None unless there are a name, a time and work."""
    titles = [_plain(title) for title in header]

    def first(pattern: re.Pattern[str]) -> int | None:
        return next((place for place, title in enumerate(titles) if pattern.fullmatch(title)), None)

    name = first(_NAME)
    time = _timed(titles)
    rate = _matched(titles, _FLOP_RATE, lambda match: _PREFIX[match[1] or match[2] or ""])
    flop = _matched(titles, _FLOP, lambda match: _PREFIX[match[1]])
    # "GFLOPS" alone is mostly a rate; beside a rate with "/s" it is a count.
    if flop is not None and flop.factor > 1 and titles[flop.place].endswith("s"):
        other = rate if rate is not None and rate.place != flop.place else None
        rates = [title for title in titles if "/s" in title and "flop" in title]
        flop, rate = (flop, other) if rates else (None, flop)
    moved = _matched(titles, _MOVED, lambda match: _BYTES[match[2] or ""])
    if name is None or time is None or not (flop or rate or moved):
        return None
    if any(title.startswith("start") for title in titles):
        return None  # a list of what ran when, which is a trace
    return _Columns(
        name=name,
        time=time,
        flop=flop,
        rate=rate,
        moved=moved,
        intensity=_matched(titles, _INTENSITY, lambda _: 1.0),
        runs=first(_RUNS),
        form=first(_FORMAT),
        device=first(_DEVICE),
        main_memory=moved is not None and titles[moved.place].startswith(("dram", "hbm")),
    )


def _timed(titles: list[str]) -> _Column | None:
    """The time of one execution: the device's before the host's, a mean before a total."""
    found = []
    for place, title in enumerate(titles):
        match = _TIME.fullmatch(title)
        if match and title not in _SECONDS:
            rank = ("kernel" not in title and "gpu" not in title, "mean" not in title and "avg" not in title)
            found.append(((*rank, "total" in title, place), _Column(place, _SECONDS[match[1]], titles[place])))
    return min(found)[1] if found else None


def _matched(
    titles: list[str], pattern: re.Pattern[str], factor: Callable[[re.Match[str]], float]
) -> _Column | None:
    for place, title in enumerate(titles):
        match = pattern.fullmatch(title)
        if match:
            return _Column(place, factor(match), title)
    return None


def _number(row: list[str], column: _Column | None, comma: bool) -> float | None:
    value = None if column is None else numeral(row[column.place], comma)
    return None if value is None or column is None or value < 0 else value * column.factor


def _byte_scale(table: Table, columns: _Columns) -> tuple[float, list[str]]:
    """What bytes are multiplied by so that FLOP ÷ bytes is what the table says; and what is to be said of it."""
    if columns.moved is None or columns.intensity is None or columns.flop is None:
        return 1.0, []
    comma = _comma(table)
    ratios = []
    for row in table.rows[:1000]:
        flop, moved, intensity = (
            _number(row, column, comma) for column in (columns.flop, columns.moved, columns.intensity)
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


def _counted(row: list[str], columns: _Columns, byte_scale: float, comma: bool) -> Counted | None:
    name = row[columns.name].strip()
    time_s = _number(row, columns.time, comma)
    if not name or not time_s:
        return None
    count = _number(row, columns.flop, comma)
    rate = _number(row, columns.rate, comma)
    if count is None and rate is not None:
        count = rate * time_s
    moved = _number(row, columns.moved, comma)
    runs = None if columns.runs is None else numeral(row[columns.runs], comma)
    level, basis = ("DRAM", "counted") if columns.main_memory else ("memory", "modelled")
    return Counted(
        name=name,
        time_s=time_s,
        runs=int(runs) if runs is not None and 1 <= runs < 1e12 else 1,
        flop=None if count is None else tuple(_flop(row, columns, count)),
        traffic=() if moved is None else (Traffic(level, moved * byte_scale, 0.0, basis),),
    )


def _flop(row: list[str], columns: _Columns, count: float) -> Iterator[Flop]:
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
