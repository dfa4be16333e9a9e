"""Headings of tables of kernels: which column is the name, the time, the work, as a count or a rate.

The headings are those that people's benchmarks write ("Time_ms", "GFLOP_s", "latency_us", "Duration [ns]"); those
that mean two things ("GFLOPS", a rate or a count) are told by the table's own numbers, else it is said how they
were taken.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from rooflab.observe.reading.numerals import numeral
from rooflab.observe.reading.tables import Table

_SECONDS = {"s": 1.0, "sec": 1.0, "secs": 1.0, "second": 1.0, "seconds": 1.0}
_SECONDS |= {"ms": 1e-3, "msec": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "usec": 1e-6, "ns": 1e-9, "nsec": 1e-9}
_PREFIX = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15}
_BYTES = {"b": 1.0, "byte": 1.0, "bytes": 1.0, "": 1.0} | {f"{each}b": _PREFIX[each] for each in "kmgt"}
_BYTES |= {"kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30, "tib": 2.0**40}

# The better name first.
_NAMES = (
    r"kernel(?: name)?|name",
    r"op(?:eration)?|loop|region|function|benchmark|layer(?: name)?",
    r"label|case(?: key| id| name)?|op type|workload",
)
_TIME = re.compile(
    r"(?:(?:mean|avg|average|median|min|best|kernel|gpu|total|exec|execution|wall|self)(?: |$))*"
    r"(?:time|duration|runtime|elapsed|latency|mean|median)?(?: time)? ?"
    rf"({'|'.join(sorted(_SECONDS, key=len, reverse=True))})(?: mean| per (?:iter|iteration|step|call|run))?"
)
_UNIT_ALONE = ("seconds", "ms", "us", "µs", "μs", "ns", "msec", "usec", "nsec")
_FLOP = re.compile(r"(?:total |num |n )?(?:([kmgtp])flop|flops?|flop)(?: count)?")
_MACS = re.compile(r"(?:total |num |n )?([kmgt]?)macs?(?: count)?")
_FLOP_EITHER = re.compile(r"(?:total )?([kmgtp])flops")
_ATTAINED = "achieved|measured|effective|sustained|mean"
_FLOP_RATE = re.compile(
    rf"(?:(?:{_ATTAINED}) ([kmgtp]?)flops"
    rf"|(?:(?:{_ATTAINED}) )?([kmgtp]?)flops?(?:/s(?:ec)?|ps| per s(?:ec)?| s))(?: mean)?"
)
_MOVED = re.compile(
    r"(?:(?:dram|hbm) )?(?:bytes|nbytes|total bytes|data moved|bytes moved|memory traffic)"
    r" ?(b|byte|bytes|[kmgt]i?b)?"
)
_MOVED_UNIT = re.compile(  # where no rate says it better: some tables have a column GB that is rounded to 0
    r"(?:(?:data|traffic|transferred|moved|dram|hbm) )?([kmgt]i?b)(?: moved| transferred)?"
)
_READ = re.compile(r"(?:dram |hbm )?(?:bytes read|read bytes|bytes loaded) ?(b|byte|bytes|[kmgt]i?b)?")
_WRITTEN = re.compile(r"(?:dram |hbm )?(?:bytes written|write bytes|bytes stored) ?(b|byte|bytes|[kmgt]i?b)?")
_BYTE_RATE = re.compile(
    r"(?:(?:achieved|measured|effective|mean|dram|hbm|memory|mem|bandwidth|bw|throughput) )*"
    r"([kmgt]i?b)(?:ytes)?(?:/s(?:ec)?| per s(?:ec)?| s|s)(?: mean)?"
)
_INTENSITY = re.compile(r"ai|(?:arithmetic|arith|operational) intensity|intensity|flops?/b(?:yte)?")
_RUNS = re.compile(r"(?:operation )?count|calls|runs|instances|times")
_FORMAT = re.compile(r"dtype|precision|data ?type|compute spec|number format")
_DEVICE = re.compile(r"(?:gpu|device)(?: name| model)?|cpu(?: name)?|machine")
_VARIANT = re.compile(r"impl(?:ementation)?|variant|version|backend|params|size|shape|m|n|k")
_OWN = {"time s", "floor s", "measured s"}
_AGREE = 0.02  # of a count over a time beside a rate, both of them printed with few digits


class Column(NamedTuple):
    """A column of numbers: where it stands, what one of it is in base units, and its heading."""

    place: int
    factor: float
    title: str


class Columns(NamedTuple):
    """Where what stands; None for what the table lacks.

    Attributes:
        either: FLOP of which the heading does not tell whether they are a count or a rate.
        total: whether the time is that of all runs.
        main_memory: whether the bytes are said to be those of main memory.
    """

    name: int
    time: Column
    flop: Column | None
    rate: Column | None
    either: Column | None
    moved: Column | None
    read: Column | None
    written: Column | None
    byte_rate: Column | None
    intensity: Column | None
    runs: int | None
    form: int | None
    device: int | None
    variants: tuple[int, ...]
    total: bool
    main_memory: bool

    def places(self) -> set[int]:
        """Of all that are read."""
        one = (self.time, self.flop, self.rate, self.either, self.moved, self.read, self.written, self.byte_rate)
        known = {each.place for each in (*one, self.intensity) if each is not None}
        plain = (self.name, self.runs, self.form, self.device, *self.variants)
        return known | {each for each in plain if each is not None}


def of_header(header: Sequence[str]) -> Columns | None:
    """Where what stands under `header`; None unless there are a name, a time and work."""
    titles = [_plain(title) for title in header]

    def first(pattern: str | re.Pattern[str]) -> int | None:
        return next((place for place, title in enumerate(titles) if re.fullmatch(pattern, title)), None)

    def matched(pattern: re.Pattern[str], factor: Callable[[re.Match[str]], float]) -> Column | None:
        for place, title in enumerate(titles):
            if match := pattern.fullmatch(title):
                return Column(place, factor(match), title)
        return None

    name = next((place for each in _NAMES if (place := first(each)) is not None), None)
    own = set(titles) >= _OWN  # rooflab's own lines: their "time_s" was predicted, and all is of all executions
    time = Column(titles.index("measured s"), 1.0, "measured s") if own else _timed(titles)
    if name is None or time is None or any(title.startswith("start") for title in titles):
        return None  # with a start: a list of what ran when, which is a trace
    flop = matched(_FLOP, lambda match: _PREFIX[match[1] or ""])
    if flop is None:
        flop = matched(_MACS, lambda match: 2 * _PREFIX[match[1]])
    moved, read, written = (
        matched(each, lambda match: _BYTES[match[1] or ""]) for each in (_MOVED, _READ, _WRITTEN)
    )
    byte_rate = matched(_BYTE_RATE, lambda match: _BYTES[match[1]])
    if moved is None and byte_rate is None and not (read and written):
        moved = matched(_MOVED_UNIT, lambda match: _BYTES[match[1]])
    columns = Columns(
        name=name,
        time=time,
        flop=flop,
        rate=matched(_FLOP_RATE, lambda match: _PREFIX[match[1] or match[2] or ""]),
        either=matched(_FLOP_EITHER, lambda match: _PREFIX[match[1]]),
        moved=moved,
        read=read,
        written=written,
        byte_rate=byte_rate,
        intensity=matched(_INTENSITY, lambda _: 1.0),
        runs=None if own else first(_RUNS),
        form=first(_FORMAT),
        device=first(_DEVICE),
        variants=tuple(place for place, title in enumerate(titles) if _VARIANT.fullmatch(title)),
        total="total" in time.title,
        main_memory=any(one is not None and one.title.startswith(("dram", "hbm")) for one in (moved, read)),
    )
    work = (flop, columns.rate, columns.either, moved, columns.byte_rate, read and written)
    return columns if any(work) else None


def _plain(title: str) -> str:
    """`title` in small letters, a space for each "_" and around units in brackets."""
    small = re.sub(r"[_\[\]()]", " ", title.lstrip("\ufeff").strip().strip('"').lower())
    return re.sub(r"\s+", " ", small).strip()


def _timed(titles: list[str]) -> Column | None:
    """The time of one execution: the device's before the host's, a mean before a total, the least last."""
    found = []
    for place, title in enumerate(titles):
        match = _TIME.fullmatch(title)
        if match and (title not in _SECONDS or title in _UNIT_ALONE):
            rank = (
                "total" in title,
                bool(re.search(r"\b(?:min|best)\b", title)),
                "kernel" not in title and "gpu" not in title,
                "mean" not in title and "avg" not in title,
                place,
            )
            found.append((rank, Column(place, _SECONDS[match[1]], title)))
    return min(found)[1] if found else None


def number(row: Sequence[str], column: Column | None, comma: bool) -> float | None:
    """What stands in `column` of `row`, in base units; None for what is no number, or one below zero."""
    value = None if column is None else numeral(row[column.place], comma)
    return None if value is None or column is None or value < 0 else value * column.factor


def resolved(table: Table, columns: Columns, comma: bool) -> tuple[Columns, list[str]]:
    """`columns` with `either` made a count or a rate, by what agrees; and what is to be said of it."""
    either = columns.either
    if either is None or columns.flop is not None:
        return columns._replace(either=None), []
    as_count, as_rate = columns._replace(flop=either, either=None), columns._replace(rate=either, either=None)
    if columns.rate is not None:
        told = _told(table, either, columns.rate, columns.time, comma)
        if told == "count":
            return as_count, []
        said = (
            []
            if told == "rate"
            else [f'"{either.title}" and "{columns.rate.title}" do not agree: the second is used']
        )
        return columns._replace(either=None), said
    if columns.intensity is not None and (columns.moved or columns.byte_rate):
        told = _by_intensity(table, columns, either, comma)
        if told:
            return (as_count if told == "count" else as_rate), []
    return as_rate, [f'"{either.title}" is taken for a rate a second, not for a count']


def _told(table: Table, either: Column, rate: Column, time: Column, comma: bool) -> str:
    """Whether `either` is "rate" itself, or the "count" that makes it over the time; "" for neither."""
    seen = [
        (number(row, either, comma), number(row, rate, comma), number(row, time, comma))
        for row in table.rows[:1000]
    ]
    counts = [value / time_s / known for value, known, time_s in seen if value and known and time_s]
    rates = [value / known for value, known, _ in seen if value and known]
    return "count" if _near_one(counts) else "rate" if _near_one(rates) else ""


def _by_intensity(table: Table, columns: Columns, either: Column, comma: bool) -> str:
    """Whether FLOP ÷ bytes is what the table says where `either` is a "count", or a "rate"; "" for neither."""
    counts, rates = list[float](), list[float]()
    for row in table.rows[:1000]:
        value, time_s = number(row, either, comma), number(row, columns.time, comma)
        intensity, moved = number(row, columns.intensity, comma), number(row, columns.moved, comma)
        if moved is None and (each := number(row, columns.byte_rate, comma)) and time_s:
            moved = each * time_s
        if value and time_s and intensity and moved:
            counts.append(value / moved / intensity)
            rates.append(value * time_s / moved / intensity)
    return "count" if _near_one(counts) else "rate" if _near_one(rates) else ""


def _near_one(ratios: Iterable[float]) -> bool:
    """Whether the median of `ratios` is one; also 1.024 to the third, where MiB or GiB are printed as MB or GB."""
    ordered = sorted(ratios)
    if not ordered:
        return False
    median = ordered[len(ordered) // 2]
    return any(abs(median * factor - 1) < _AGREE for factor in (1.0, 1.024**2, 1.024**3))
