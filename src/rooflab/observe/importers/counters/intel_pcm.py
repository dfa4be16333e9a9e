"""Intel PCM's CSV (pcm, pcm-memory): two header lines, an interval a line; bytes of memory, instructions."""

from __future__ import annotations

import csv
import datetime
import itertools
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from rooflab.errors import FileError
from rooflab.observe.importers.counters.cpu_events import cpu_name
from rooflab.observe.reading.numerals import decimal_comma, numeral
from rooflab.observe.reading.opened import content
from rooflab.observe.reading.tables import plain_text
from rooflab.types.counted import Counted, Counters
from rooflab.types.trace import Device, Dropped
from rooflab.types.work import Traffic

SOURCE = "Intel PCM"

_HEAD = re.compile(r'^\s*"?Date"?\s*([,;\t])\s*"?Time"?\s*\1', re.MULTILINE)
_OURS = re.compile(r"(?<!\w)(EXEC|IPC|UTIL|Mem Read \(MB/s\)|Ch0Read|Memory \(MB/s\)|DRAMRead|L3MISS)(?!\w)")
_CPU = re.compile(r"Detected (.+?) \"Intel\(r\) microarchitecture", re.IGNORECASE)
_NOMINAL = re.compile(r"Nominal core frequency:\s*(\d+)\s*Hz")
_DAY = ("%Y-%m-%d", "%d-%m-%y", "%m/%d/%Y", "%d.%m.%Y")
_MEMORY = re.compile(r"(Mem|HBM) ?(Read|Write) ?\(MB/s\)")
_MB = 1e6  # 64 bytes a CAS over 10⁶, as pcm-memory.cpp divides
# Columns of pcm: counts in millions, bytes in GB of 10⁹ (pcm.cpp). Those of 2016 and before: powers of 1024.
_MILLIONS = ("INST", "ACYC", "L3MISS", "L2MISS", "TIME(ticks)")
_GIGABYTES = {"READ": ("DRAM", "read"), "WRITE": ("DRAM", "write")} | {
    "HBM_READ": ("HBM", "read"),
    "HBM_WRITE": ("HBM", "write"),
}
_DAY_S = 86_400.0
_EPOCH = datetime.date(1970, 1, 1).toordinal()
_OLD = ("L3CLK", "L2CLK")  # estimates that were dropped with the units


def sniff(head: bytes) -> bool:
    """Whether `head`, the first of a file, is of PCM: its second header line."""
    text = plain_text(head)
    found = _HEAD.search(text)
    return bool(found and _OURS.search(text[found.start() :].partition("\n")[0]))


class _Column(NamedTuple):
    """A column: its domain ("System", "SKT0", "Core3 (Socket 0)") and metric."""

    domain: str
    metric: str


class _Read(NamedTuple):
    """The table: columns, rows as numbers, the moments of the rows, and lines that were no row."""

    separator: str
    columns: list[_Column]
    rows: list[list[float | None]]
    moments: list[float | None]
    dropped: int


def load(path: Path) -> Counters:
    """The counters in the file at `path`: all intervals as one row, their mean.

    Raises:
        FileError: no table of PCM, or no interval in it.
    """
    text = plain_text(content(path))
    read = _table(text)
    if read is None:
        raise FileError(f"{path}: no table of PCM, expected two header lines, the second beginning with Date,Time")
    if not read.rows:
        raise FileError(f"{path}: PCM's table has no interval; {read.dropped} lines could not be used")
    notes: list[str] = []
    row = _counted(read, text, notes)
    cpu = _CPU.search(text)
    return Counters(
        source=SOURCE,
        rows=(row,),
        device=Device(number=0, name=cpu_name(cpu.group(1)) if cpu else None),
        dropped=(Dropped(read.dropped, "lines that are no interval"),) if read.dropped else (),
        notes=tuple(notes),
    )


def _table(text: str) -> _Read | None:
    head = _HEAD.search(text)
    if head is None:
        return None
    separator = head.group(1)
    before = text[: head.start()].rstrip("\r\n").rpartition("\n")[2]
    lines = csv.reader(text[head.start() :].replace("\0", "").lstrip().splitlines(), delimiter=separator)
    metrics: list[str] = []
    rows: list[list[str]] = []
    dropped = 0
    try:
        for cells in lines:
            if not metrics:
                metrics = [cell.strip() for cell in cells]
            elif _moment(cells) is not None and len(metrics) - 1 <= len(cells) <= len(metrics) + 1:
                rows.append([cell.strip() for cell in cells])
            elif [cell.strip() for cell in cells] != metrics and any(cell.strip() for cell in cells):
                dropped += not _is_domains(cells)
    except csv.Error:
        dropped += 1
    domains = _filled(before.split(separator), len(metrics))
    columns = [_Column(domain, metric) for domain, metric in zip(domains, metrics, strict=True)]
    comma = separator != "," and decimal_comma(cell for row in rows[:50] for cell in row[2:])
    numbers = [[numeral(cell, comma) for cell in row[2 : len(columns)]] for row in rows]
    return _Read(separator, columns[2:], numbers, [_moment(row) for row in rows], dropped)


def _is_domains(cells: Sequence[str]) -> bool:
    """Whether `cells` are a first header line, which stands there again where PCM was started again."""
    return bool(re.fullmatch(r"(?:System|SKT\d+)?", cells[0].strip())) and any(
        re.match(r"System|SKT\d", cell.strip()) for cell in cells
    )


def _filled(domains: Sequence[str], count: int) -> list[str]:
    """`count` domains; an empty cell means the one before it, as older versions write."""
    found: list[str] = []
    last = ""
    for place in range(count):
        last = (domains[place].strip().strip('"') if place < len(domains) else "") or last
        found.append(last)
    return found


def _moment(cells: Sequence[str]) -> float | None:
    """Seconds of the first two cells, a date and a time; None where they are none."""
    if len(cells) < 3:
        return None
    clock = re.fullmatch(r"(\d{1,2}):(\d{1,2}):(\d{1,2}(?:[.,]\d+)?)", cells[1].strip())
    if clock is None:
        return None
    hours, minutes, seconds = (float(part.replace(",", ".")) for part in clock.groups())
    for form in _DAY:
        try:
            day = datetime.datetime.strptime(cells[0].strip(), form).replace(tzinfo=datetime.UTC)
        except ValueError:
            continue
        return (day.toordinal() - _EPOCH) * _DAY_S + hours * 3600 + minutes * 60 + seconds
    return None


def _counted(read: _Read, text: str, notes: list[str]) -> Counted:
    count = len(read.rows)
    means = _means(read)
    old = any(column.metric in _OLD for column in read.columns)
    million, gigabyte = (2.0**20, 2.0**30) if old else (1e6, 1e9)
    if old:
        notes.append("this version of PCM wrote millions of 2²⁰ and GB of 2³⁰: read as such")
    elif read.separator == ";" and _has(means, "READ"):
        notes.append(
            "versions of PCM that wrote semicolons may mean GB of 2³⁰: bytes are read as GB of 10⁹, 7 % less"
        )
    time_s = _interval_s(read.moments) or _of_ticks(means, text, million)
    if count > 1:
        notes.append(
            f"{count} intervals are one row, their mean: idle ones before and after the program count too"
        )
    traffic = _of_rates(means, time_s, notes) or _of_gigabytes(means, gigabyte)
    if time_s is None and traffic and not _has(means, "READ"):
        time_s = 1.0
        notes.append(
            "the length of the only interval is not in the file: its rates are written as those of a second"
        )
    elif time_s is None:
        notes.append("the length of the only interval is not in the file: no time is known")
    if traffic:
        notes.append("bytes of memory are those of whole memory controllers, other programs' included")
    instructions = _system(means, "INST")
    return Counted(
        name="system",
        time_s=time_s,
        runs=count,
        traffic=traffic,
        instructions=None if instructions is None else instructions * million,
        metrics=_metrics(means, million, gigabyte),
    )


def _means(read: _Read) -> dict[_Column, float]:
    """The mean of each column over its intervals; a value below zero is what PCM writes for a missing channel."""
    found: dict[_Column, float] = {}
    for place, column in enumerate(read.columns):
        values = [row[place] for row in read.rows if place < len(row)]
        known = [value for value in values if value is not None and (value >= 0 or column.metric == "TEMP")]
        if known:
            found.setdefault(column, sum(known) / len(known))
    return found


def _interval_s(moments: Iterable[float | None]) -> float | None:
    """Mean seconds between the rows: from the first to the last, where time goes forward."""
    known = [moment for moment in moments if moment is not None]
    steps = [after - before for before, after in itertools.pairwise(known) if after > before]
    return sum(steps) / len(steps) if steps else None


def _of_ticks(means: dict[_Column, float], text: str, million: float) -> float | None:
    """Seconds of an interval by the time stamp counter, where the file names its frequency."""
    nominal, ticks = _NOMINAL.search(text), _system(means, "TIME(ticks)")
    if nominal is None or not ticks or not int(nominal.group(1)[:15]):
        return None
    return ticks * million / int(nominal.group(1)[:15])


def _has(means: dict[_Column, float], metric: str) -> bool:
    return any(column.metric == metric for column in means)


def _system(means: dict[_Column, float], metric: str) -> float | None:
    """`metric` of the whole system; the sum of its sockets where the file has these only."""
    whole = means.get(_Column("System", metric))
    if whole is not None:
        return whole
    parts = [value for column, value in means.items() if column.metric == metric and _socket(column.domain)]
    return sum(parts) if parts else None


def _socket(domain: str) -> bool:
    return bool(re.fullmatch(r"(?:SKT|Socket) ?\d+", domain))


def _of_rates(means: dict[_Column, float], time_s: float | None, notes: list[str]) -> tuple[Traffic, ...]:
    """Bytes of an interval by the rates of pcm-memory's sockets; of a second where its length is unknown."""
    found: dict[str, dict[str, float]] = {}
    for column, value in means.items():
        match = _MEMORY.fullmatch(column.metric)
        if match and _socket(column.domain):
            ways = found.setdefault("DRAM" if match.group(1) == "Mem" else "HBM", {})
            ways[match.group(2)] = ways.get(match.group(2), 0.0) + value
    if not found:
        read = means.get(_Column("System", "DRAMRead"), means.get(_Column("System", "Read")))
        write = means.get(_Column("System", "DRAMWrite"), means.get(_Column("System", "Write")))
        if read is not None and write is not None:
            found["DRAM"] = {"Read": read, "Write": write}
    printed = means.get(_Column("System", "Memory"))
    own = sum(sum(ways.values()) for ways in found.values())
    other = any("PMM" in column.metric.upper() for column in means)
    if printed is not None and found and not other and abs(printed - own) > 0.01 * max(printed, own) + 0.1:
        notes.append(
            f"PCM prints {printed:,.6g} MB/s of memory in all, its sockets are {own:,.6g} MB/s: these are used"
        )
    seconds = time_s or 1.0
    return tuple(
        Traffic(level, ways["Read"] * _MB * seconds, ways["Write"] * _MB * seconds, "counted")
        for level, ways in sorted(found.items(), reverse=True)
        if {"Read", "Write"} <= ways.keys()
    )


def _of_gigabytes(means: dict[_Column, float], gigabyte: float) -> tuple[Traffic, ...]:
    """Bytes of an interval of pcm."""
    found: dict[str, dict[str, float]] = {}
    for metric, (level, way) in _GIGABYTES.items():
        value = _system(means, metric)
        if value is not None:
            found.setdefault(level, {})[way] = value * gigabyte
    return tuple(
        Traffic(level, ways["read"], ways["write"], "counted")
        for level, ways in sorted(found.items(), reverse=True)
        if {"read", "write"} <= ways.keys()
    )


def _metrics(means: dict[_Column, float], million: float, gigabyte: float) -> dict[str, float]:
    """The mean of every column, in base units, of the system by its own name and of others behind their domain."""
    found: dict[str, float] = {}
    for column, value in means.items():
        factor, name = 1.0, column.metric
        if name in _MILLIONS:
            factor = million
        elif name in _GIGABYTES or (name.startswith("PMM_") and "MB/s" not in name):
            factor = gigabyte
        elif "MB/s" in name or re.fullmatch(r"Ch\d+(?:PMM_)?(?:Read|Write)", name):
            factor, name = _MB, name.replace("MB/s", "B/s")
        elif name in ("Read", "Write", "Memory", "DRAMRead", "DRAMWrite", "PMMREAD", "PMMWrite", "CXLRead"):
            factor = _MB
        key = name if column.domain in ("", "System") else f"{column.domain} {name}"
        found.setdefault(key, value * factor)
    return found
