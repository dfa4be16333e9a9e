"""Times that a user measured, read from CSV or JSON: what was timed, and how long it took."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from rooflab import units
from rooflab.errors import FileError, RooflabError
from rooflab.types.report import Report
from rooflab.work import by_hand, counting

_SECONDS = {"time_s": 1.0, "time_ms": 1e-3, "time_us": 1e-6, "time_ns": 1e-9}
_FRAMEWORKS = {"numpy": "", "torch": "aten."}
_EXAMPLE = "kind,shapes,dtype,time with rows such as matmul,4096x4096 4096x4096,bf16,187 us"


class Timed(NamedTuple):
    """One measured time.

    Attributes:
        title: what was timed, for people.
        report: the program it was part of; `rows` are the numbers of its rows that took `time_s` together.
    """

    title: str
    report: Report
    rows: tuple[int, ...]
    time_s: float


class Timings(NamedTuple):
    """The times of one file, and what was left out of it: "line 3: …"."""

    timed: tuple[Timed, ...]
    dropped: tuple[str, ...]


def read(path: str | Path) -> Timings:
    """The times in the file at `path`: .csv, .json (a list of objects), or a report's JSON with observed times.

    Columns (keys) are those of `rooflab op`: kind, shapes ("4096x1024 1024x4096", in JSON a list too), dtype
    (fp32 where there is none); the time as "187 us" in time, or as a number in time_s, time_ms, time_us or
    time_ns; framework ("numpy", "torch": a CPU runs them differently). Every other column is a setting of the
    operation; empty cells are none.

    Raises:
        FileError: a file that cannot be read, or that has no row that can be used: the first reason.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise FileError(f"{path}: no such file; expected timings: {_EXAMPLE}") from None
    except (OSError, ValueError) as error:
        raise FileError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if path.suffix.lower() == ".json":
        return _from_json(text, path)
    return _rows(((f"line {number}", row) for number, row in _lines(text, path)), path)


def _lines(text: str, path: Path) -> Iterable[tuple[int, dict[str, Any]]]:
    reader = csv.DictReader(io.StringIO(text), skipinitialspace=True)
    names = [name.strip() for name in reader.fieldnames or ()]
    if {"measured_s", "floor_s"} <= set(names):
        raise FileError(
            f"{path}: the rows of a report, which have no shapes: give its .json (rooflab analyze … --measure -o "
            "report.json)"
        )
    if "kind" not in names:
        raise FileError(f"{path}: its first line has no column kind, expected {_EXAMPLE}")
    reader.fieldnames = names
    for row in reader:
        if None in row:
            yield reader.line_num, {"kind": "", "_": f"{len(names) + len(row[None])} cells, expected {len(names)}"}
        else:
            yield reader.line_num, {name: cell.strip() for name, cell in row.items() if cell and cell.strip()}


def _from_json(text: str, path: Path) -> Timings:
    try:
        raw = json.loads(text)
    except json.JSONDecodeError as error:
        raise FileError(f"{path}: not valid JSON: {error}") from None
    if isinstance(raw, dict) and "rows" in raw and "graph" in raw:
        return _observed(raw, path)
    if not isinstance(raw, list):
        raise FileError(f"{path}: got a JSON {type(raw).__name__}, expected a list of timings or a report")
    return _rows(((f"row {number}", row) for number, row in enumerate(raw, 1)), path)


def _rows(rows: Iterable[tuple[str, Any]], path: Path) -> Timings:
    timed, dropped = [], []
    for where, row in rows:
        try:
            timed.append(_timed(row))
        except RooflabError as error:
            dropped.append(f"{where}: {error}")
    if not timed:
        raise FileError(f"{path}: no row can be used: {dropped[0] if dropped else 'it is empty'}")
    return Timings(tuple(timed), tuple(dropped))


def _timed(row: Any) -> Timed:
    if not isinstance(row, Mapping):
        raise RooflabError(f"got {row!r}, expected an object with kind, shapes, dtype and time")
    cells = dict(row)
    if "_" in cells:
        raise RooflabError(f"got {cells['_']}: put quotes around a cell with a comma in it")
    kind = cells.pop("kind", None)
    if not isinstance(kind, str) or not kind:
        raise RooflabError("no kind, expected the name of an operation, such as matmul")
    seconds = _seconds(cells)
    framework = str(cells.pop("framework", "numpy")).lower()
    if framework not in _FRAMEWORKS:
        raise RooflabError(f"framework is {framework!r}, expected {' or '.join(_FRAMEWORKS)}")
    shapes = cells.pop("shapes", ())
    shapes = tuple(shapes.split()) if isinstance(shapes, str) else tuple(shapes)
    dtype = cells.pop("dtype", "fp32")
    attrs = {**cells.pop("attrs", {}), **{name: _setting(value) for name, value in cells.items()}}
    graph = by_hand.graph(kind, shapes, dtype=dtype, **attrs)
    op = msgspec.structs.replace(graph.ops[0], name=_FRAMEWORKS[framework] + graph.ops[0].name)
    title = by_hand.title(kind, shapes, dtype)
    report = counting.report(msgspec.structs.replace(graph, ops=(op,)), title)
    return Timed(title, report, (0,), seconds)


def _seconds(cells: dict[str, Any]) -> float:
    columns = [name for name in ("time", *_SECONDS) if name in cells]
    if len(columns) != 1:
        got = " and ".join(columns) or "no time"
        raise RooflabError(f"got {got}, expected one of time (such as '187 us'), {', '.join(_SECONDS)}")
    value = cells.pop(columns[0])
    if columns[0] == "time":
        seconds = units.parse(value if isinstance(value, str) else str(value), "s")
    else:
        try:
            seconds = float(value) * _SECONDS[columns[0]]
        except (TypeError, ValueError):
            raise RooflabError(f"{columns[0]} is {value!r}, expected a number") from None
    if not math.isfinite(seconds) or seconds <= 0:
        raise RooflabError(f"{columns[0]} is {value}, expected a positive time")
    return seconds


def _setting(value: Any) -> Any:
    """A cell's text as a number or truth where it is one; JSON's values are what they are."""
    return units.number_or_text(value) if isinstance(value, str) else value


def _observed(raw: dict[str, Any], path: Path) -> Timings:
    """A report's rows that carry {"observation": {"time_s": …}}; its other rows only lie between them."""
    observed = {}
    for number, row in enumerate(raw["rows"]):
        observation = row.pop("observation", None) if isinstance(row, dict) else None
        if isinstance(observation, dict) and isinstance(observation.get("time_s"), (int, float)):
            observed[number] = float(observation["time_s"])
    try:
        report = Report.from_dict(raw)
    except RooflabError as error:
        raise FileError(f"{path}: {error}") from None
    timed, dropped = [], []
    for number, seconds in observed.items():
        name = report.rows[number].op.name
        if not math.isfinite(seconds) or seconds <= 0:
            dropped.append(f"row {number + 1}: {name} took {seconds} s, expected a positive time")
        elif report.rows[number].cost is None:
            dropped.append(f"row {number + 1}: {name} has no formula")
        else:
            timed.append(Timed(f"{name} (row {number + 1})", report, (number,), seconds))
    if not timed:
        raise FileError(
            f"{path}: none of the report's {len(report.rows)} rows has an observed time that can be used"
        )
    return Timings(tuple(timed), tuple(dropped))
