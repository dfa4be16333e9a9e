"""Reports of `nsys stats`, as CSV or as tables of text: the trace of the GPU, or sums by kernel and operation."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rooflab.errors import FileError
from rooflab.observe.reading.activities import Activities, numbered
from rooflab.observe.reading.numerals import numeral, scale
from rooflab.observe.reading.opened import content
from rooflab.observe.reading.tables import Table, plain_text, tables
from rooflab.observe.reading.text_columns import TextColumns
from rooflab.types.counted import Counted, Counters
from rooflab.types.trace import COPY, KERNEL, MEMSET, NONE, Device, Dropped, Kernels, Shape, Trace

SOURCE = "Nsight Systems reports"

# "Start (ns),Duration (ns),CorrId" is a trace, "Time (%),Total Time (ns),Instances" a sum; before 2021 it was
# "Start(nsec)" and "Time(%)". Tables of text have spaces where CSV has commas.
_NEXT = r'"?(?:,|  +)"?'
_TRACE = re.compile(rf'"?Start ?\(\w+\){_NEXT}Duration ?\(\w+\){_NEXT}CorrId')
_SUM = re.compile(
    rf'"?Time ?\(%\){_NEXT}Total(?: Time)?(?: ?\(\w+\))?{_NEXT}(?:Instances|Count|Num Calls|Operations)'
)
_SIZES = re.compile(rf'"?Total ?\((?:\w?B|bytes)\){_NEXT}(?:Count|Operations){_NEXT}(?:Avg|Average)')
_HEADERS = (_TRACE, _SUM, _SIZES)
# What the tool says between its reports.
_SAID = re.compile(
    r"(?:Processing |NOTICE|WARNING|Generating |Exporting |SKIPPED|Using |Importer | \*\* | {8,}(?:It|Con))"
)
_RULE = re.compile(r"\s*-{2,}(?:\s+-{2,})+\s*")
_HEADING = re.compile(r"^\s*(?:Time ?\(%\)|Total ?\(|Start ?\()")
_NAME_UNIT = re.compile(r"(.+?) ?\((\w+|%)\)$")

# Names of columns over the versions, and what they are here.
_ALIKE = {
    "average": "avg",
    "minimum": "min",
    "maximum": "max",
    "median": "med",
    "total": "total time",
    "operations": "count",
    "num calls": "calls",
}
_EACH = ("avg", "med", "min", "max", "stddev")
_TIMES = ("start", "duration", "total time", *_EACH)
_SECONDS = {"s": 1.0, "sec": 1.0, "ms": 1e-3, "msec": 1e-3, "us": 1e-6, "usec": 1e-6, "ns": 1e-9, "nsec": 1e-9}
_DEVICE = re.compile(r"(.*\S)\s*\((\d{1,4})\)$")
_SURE_BYTES = 1e5  # of a number printed in MB with three decimals: to half a percent
_COARSE = "bytes of copies are printed in MB with three decimals: those of small ones are not known"


def sniff(head: bytes) -> bool:
    """Whether the header of a report of `nsys stats` is in `head`, the first of a file."""
    text = plain_text(head)
    return any(pattern.search(text) for pattern in _HEADERS)


def load(path: Path) -> Trace | Counters:
    """The trace of the GPU where the file at `path` has one, else its sums.

    Raises:
        FileError: no report, or nothing in its rows that can be used.
    """
    reports = [_Report(table) for table in _tables(plain_text(content(path)))]
    if not reports:
        raise FileError(f"{path}: no report of nsys stats, expected its output with --format csv")
    traces = [one for one in reports if "duration" in one.columns]
    found = _trace(traces) if traces else _counters(reports)
    if found is None:
        raise FileError(f"{path}: the reports of nsys stats in it have no row that can be used")
    return found


class _Report:
    """A table with its columns by one name over all versions, and their units in seconds or bytes."""

    def __init__(self, table: Table) -> None:
        self.dropped = table.dropped
        self.columns = TextColumns(table, _column)
        factors = {_column(name): _factor(name) for name in reversed(table.header)}
        # Times without a unit are in that of the total, which has had one since the first version.
        total = factors.get("total time") or _SECONDS["ns"]
        self._factors = {
            name: (total if name in _TIMES else 1.0) if factor is None else factor
            for name, factor in factors.items()
        }

    def values(self, name: str) -> NDArray[np.float64]:
        """The numbers in the column `name`, in base units; NaN for what is none."""
        return self.columns.numbers(name) * self._factors.get(name, 1.0)

    def ticks(self, name: str) -> NDArray[np.int64]:
        """The times in the column `name` in whole nanoseconds."""
        if self._factors[name] == _SECONDS["ns"]:
            return self.columns.wholes(name)
        values = np.round(self.values(name) / _SECONDS["ns"])
        good = np.isfinite(values) & (np.abs(values) < 2**62)
        return np.where(good, values, NONE).astype(np.int64)

    def is_coarse(self, name: str) -> bool:
        """Whether bytes in the column `name` are printed in units of a million or more."""
        return self._factors.get(name, 1.0) >= 1e6


def _column(heading: str) -> str:
    found = _NAME_UNIT.match(heading.strip())
    name = (found.group(1) if found else heading.strip()).lower()
    return _ALIKE.get(name, name)


def _factor(heading: str) -> float | None:
    """What a number under `heading` is multiplied by; None where it has no unit."""
    found = _NAME_UNIT.match(heading.strip())
    if found is None:
        return None
    unit = found.group(2)
    return _SECONDS.get(unit) or scale(unit.replace("ps", "/s")) or 1.0


def _tables(text: str) -> Iterator[Table]:
    lines = [line for line in text.splitlines(keepends=True) if line.strip() and not _SAID.match(line)]
    yield from _ruled(lines)
    yield from tables("".join(lines), lambda cells: len(cells) > 3 and _is_header(cells))


def _is_header(cells: list[str]) -> bool:
    return any(one.match(",".join(cells)) for one in _HEADERS)


def _ruled(lines: list[str]) -> Iterator[Table]:
    """Tables of text, whose columns a line of dashes shows."""
    for place, line in enumerate(lines):
        if not _RULE.fullmatch(line.rstrip()) or not place:
            continue
        spans = [found.span() for found in re.finditer("-+", line)]
        header = _cut(lines[place - 1], spans)
        if not _is_header(header):
            continue
        rows, dropped = [], 0
        for row in itertools.takewhile(lambda row: not _HEADING.search(row), lines[place + 1 :]):
            cells = _cut(row, spans)
            if numeral(cells[0]) is None or not cells[-1]:  # the last is a name: without it the line was cut
                dropped += 1
            else:
                rows.append([cell.replace(",", "") if numeral(cell) is not None else cell for cell in cells])
        yield Table(header, rows, dropped)


def _cut(line: str, spans: list[tuple[int, int]]) -> list[str]:
    """The cells of `line`; the last one may be longer than its rule."""
    ends = [end for _, end in spans[:-1]] + [len(line)]
    return [line[begin:end].strip() for (begin, _), end in zip(spans, ends, strict=True)]


def _trace(reports: list[_Report]) -> Trace | None:
    activities = Activities()
    devices: dict[str, int] = {}
    coarse = False
    for report in reports:
        columns = report.columns
        start, duration = report.ticks("start"), report.ticks("duration")
        end = np.where((start >= 0) & (duration >= 0), start + duration, NONE)
        names = columns.texts("name")
        kind = np.array([_kind(one) for one in names], np.int8)
        nbytes, rough = _bytes(report)
        coarse |= bool(np.any(rough & (kind != KERNEL)))
        activities.add(
            Kernels,
            start,
            end,
            {
                "name": numbered(activities.names, names),
                "kind": kind,
                "device": np.array([_number(one, devices) for one in columns.texts("device")], np.int64),
                "stream": columns.wholes("strm"),
                "correlation": columns.wholes("corrid"),
                "nbytes": np.where(kind == KERNEL, np.nan, nbytes),
                "shape": numbered(activities.shapes, _shapes(report)),
            },
        )
    if activities.empty:
        return None
    notes = ["no calls of CUDA are in this report: the causes of idle time are not known"]
    return activities.trace(
        SOURCE,
        devices=(Device(number=number, name=_model(name), warp_size=32) for name, number in devices.items()),
        dropped=_lines(reports),
        notes=notes + [_COARSE] * coarse,
    )


def _kind(name: str) -> int:
    if name.startswith("[CUDA mem"):
        return MEMSET if name.startswith("[CUDA memset") else COPY
    return KERNEL


def _number(device: str, seen: dict[str, int]) -> int:
    """The number in "NVIDIA H200 (0)", else one of its own."""
    if not device:
        return NONE
    if device not in seen:
        told = _DEVICE.match(device)
        seen[device] = int(told.group(2)) if told else len(seen)
    return seen[device]


def _model(device: str) -> str:
    told = _DEVICE.match(device)
    return told.group(1) if told else device


def _bytes(report: _Report) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Bytes of copies, and which of them are not known for the few decimals in which they are printed."""
    nbytes = report.values("bytes")
    if not report.is_coarse("bytes"):
        return nbytes, np.zeros(len(nbytes), np.bool_)
    rough = nbytes < _SURE_BYTES
    return np.where(rough, np.nan, nbytes), rough


def _shapes(report: _Report) -> list[Shape]:
    columns = report.columns
    sizes = [columns.wholes(name).tolist() for name in ("grdx", "grdy", "grdz", "blkx", "blky", "blkz")]
    registers = columns.wholes("reg/trd").tolist()
    static, dynamic = report.values("stcsmem"), report.values("dymsmem")
    # Kilobytes with three decimals are exact, megabytes are not.
    exact = not (report.is_coarse("stcsmem") or report.is_coarse("dymsmem"))
    shared = (static + dynamic).tolist() if exact else [float("nan")] * len(registers)
    return [
        Shape(
            one[:3] if min(one[:3]) > 0 else None,
            one[3:] if min(one[3:]) > 0 else None,
            number if number >= 0 else None,
            both if both == both else None,
        )
        for one, number, both in zip(zip(*sizes, strict=True), registers, shared, strict=True)
    ]


def _lines(reports: list[_Report]) -> tuple[Dropped, ...]:
    count = sum(one.dropped for one in reports)
    return (Dropped(count, "lines that are no row of a report"),) if count else ()


def _counters(reports: list[_Report]) -> Counters | None:
    """Sums of kernels and copies; of calls on the host where nothing else is there."""
    of_devices = [one for one in reports if "instances" in one.columns or "count" in one.columns]
    of_devices = [one for one in of_devices if "range" not in one.columns]
    sizes = [one for one in of_devices if "time" not in one.columns]
    parts = [one for one in of_devices if "time" in one.columns and "category" not in one.columns]
    whole = [one for one in of_devices if "category" in one.columns]
    used = parts or whole or [one for one in reports if one not in of_devices]
    bytes_of = {
        name: value
        for one in sizes
        for name, value in zip(one.columns.texts("operation"), one.values("total time").tolist(), strict=True)
        if value == value and not (one.is_coarse("total time") and value < _SURE_BYTES)
    }
    unusable, rows = 0, []
    for report in used:
        for row in _rows(report, bytes_of):
            unusable += row is None
            rows += [row] if row is not None else []
    if not rows:
        return None
    notes = ["sums over all launches of a kernel: when each ran is not recorded (--report cuda_gpu_trace has it)"]
    left = len(reports) - len(used) - len(sizes)
    if left:
        notes.append(f"{left} more reports in the file were not read: calls of the host, ranges, the same again")
    dropped = _lines(reports)
    if unusable:
        dropped += (Dropped(unusable, "rows without a name, a time or a count that can be true"),)
    return Counters(source=SOURCE, rows=tuple(rows), dropped=dropped, notes=tuple(notes))


def _rows(report: _Report, bytes_of: dict[str, float]) -> Iterator[Counted | None]:
    columns = report.columns
    name_in = next((one for one in ("name", "operation", "range") if one in columns), "name")
    count_in = next((one for one in ("instances", "count", "calls") if one in columns), "instances")
    several = {
        one: report.values(one).tolist() for one in ("avg", "med", "min", "max", "stddev") if one in columns
    }
    grids, blocks = columns.texts("gridxyz"), columns.texts("blockxyz")
    totals, counts = report.values("total time").tolist(), columns.wholes(count_in).tolist()
    for place, name in enumerate(columns.texts(name_in)):
        total_s, runs = totals[place], counts[place]
        if not name or not total_s >= 0 or runs < 1:
            yield None
            continue
        metrics = {one: values[place] for one, values in several.items() if values[place] == values[place]}
        metrics["total time"] = total_s
        if name in bytes_of:
            metrics["total bytes"] = bytes_of[name]
        yield Counted(
            name=name,
            time_s=total_s / runs,
            runs=runs,
            grid=_xyz(grids[place]),
            block=_xyz(blocks[place]),
            metrics=metrics,
        )


def _xyz(text: str) -> tuple[int, ...] | None:
    return tuple(int(one) for one in re.findall(r"\d{1,10}", text)) or None
