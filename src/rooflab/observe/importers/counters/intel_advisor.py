"""Intel Advisor: loops of its survey and roofline reports as CSV, points and roofs of its roofline page (HTML)."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rooflab.errors import FileError
from rooflab.observe.importers.counters import advisor_roofs
from rooflab.observe.importers.counters.advisor_roofs import Roof
from rooflab.observe.importers.counters.cpu_event_rows import ANY_FLOAT
from rooflab.observe.importers.counters.cpu_events import cpu_name
from rooflab.observe.reading.columns import number
from rooflab.observe.reading.numerals import decimal_comma, numeral
from rooflab.observe.reading.opened import content
from rooflab.observe.reading.tables import Table, plain_text, tables
from rooflab.types.counted import Counted, Counters
from rooflab.types.machine import Engine, Machine, Source
from rooflab.types.trace import Device, Dropped
from rooflab.types.work import Flop, Traffic

SOURCE = "Intel Advisor"

_NAMES = "function call sites and loops"
_HEADER = re.compile(r'^\s*"?ID"?\s*([,;\t])\s*"?Function Call Sites and Loops"?', re.MULTILINE | re.IGNORECASE)
_DATA = re.compile(r'\{\s*"rooflineData"\s*:')
_LEVELS = {"L1": "memory", "L2": "l2", "L3": "l3", "DRAM": "dram"}  # how the columns of levels are called
_GIGA = 1e9
# Units in titles of columns that are of 10⁹, and their base; longer ones first.
_SCALED = (
    ("gflops", "flop/s"),
    ("gflop", "flop"),
    ("gintops", "intop/s"),
    ("gintop", "intop"),
    ("giga ops", "op/s"),
    ("giga op", "op"),
    ("gb/s", "bytes/s"),
    (" gb", " bytes"),
)
_CHILD = re.compile(r"\[child\]", re.IGNORECASE)
_MOST_LOG = 30.0  # of ten, in a page: beyond is no number of a program
_AGREES = 0.02
_MOST_POINTS = 200_000


def sniff(head: bytes) -> bool:
    """Whether `head`, the first of a file, is a report of Advisor with loops, or its roofline page."""
    text = plain_text(head)
    if _HEADER.search(text):
        return True
    lower = text.lower()
    page = "<html" in lower or "<!doctype html" in lower
    return page and (
        '"rooflinedata"' in lower or ("roofline" in lower and ("idvcjs" in lower or "intel advisor" in lower))
    )


def load(path: Path) -> Counters:
    """The loops in the file at `path`; with the roofs of the machine, where the file is a roofline page.

    Raises:
        FileError: no report of Advisor with loops, or none of them was counted.
    """
    text = plain_text(content(path))
    if _HEADER.search(text):
        return _of_tables(text, path)
    return _of_page(text, path)


# A report as CSV


def _is_header(cells: list[str]) -> bool:
    return len(cells) > 2 and cells[0].strip().lower() == "id" and cells[1].strip().lower() == _NAMES


def _of_tables(text: str, path: Path) -> Counters:
    header = _HEADER.search(text)
    found = list(tables(text, _is_header, header.group(1) if header else ","))
    rows: list[Counted] = []
    notes: dict[str, None] = {}
    dropped = without = 0
    for table in found:
        more, uncounted = _loops(table, notes)
        rows += more
        without += uncounted
        dropped += table.dropped
    if not rows:
        raise FileError(
            f"{path}: none of the {without} loops in Advisor's report has a time and FLOP or bytes; expected "
            "columns Self Time, Self GFLOP, Self Memory GB (--collect=roofline; --show-all-columns)"
        )
    if without:
        notes[f"{without} functions and loops without a time and without FLOP or bytes are left out"] = None
    return Counters(
        source=SOURCE,
        rows=tuple(rows),
        device=Device(number=0),
        dropped=(Dropped(dropped, "lines that are no loop"),) if dropped else (),
        notes=tuple(notes),
    )


class _Loop(NamedTuple):
    """A line of a report: its cells by the names of their columns in small letters."""

    name: str
    child: bool
    row: Counted | None


def _loops(table: Table, notes: dict[str, None]) -> tuple[list[Counted], int]:
    """The loops that were counted, and how many lines were not; parts of a loop only where it has no numbers."""
    titles = [title.lower() for title in table.header]
    comma = decimal_comma(cell for row in table.rows[:200] for cell in row)
    loops: list[_Loop] = []
    for cells in table.rows:
        row = {title: cell.strip() for title, cell in reversed(list(zip(titles, cells, strict=True)))}
        name = re.sub(r"\s+", " ", row.get(_NAMES, "")).strip("- ")
        loops.append(_Loop(name, bool(_CHILD.search(name)), _counted(name, row, comma, notes)))
    rows: list[Counted] = []
    uncounted, parent = 0, False
    for loop in loops:
        if not loop.child:
            parent = loop.row is not None
        if loop.row is None:
            uncounted += 1
        elif loop.child and parent:
            notes["parts of a loop (body, peel, remainder) are in the loop's own numbers and are no rows"] = None
        else:
            rows.append(loop.row)
    return rows, uncounted


def _counted(name: str, row: Mapping[str, str], comma: bool, notes: dict[str, None]) -> Counted | None:
    elapsed, self_time = _cell(row, "self elapsed time", comma), _cell(row, "self time", comma)
    time_s = elapsed or self_time
    if not time_s or not name:
        return None
    if not elapsed:
        notes["there is no elapsed time of loops: their Self Time is CPU time, of all threads together"] = None
    gflop = _cell(row, "self gflop", comma)
    flop = None if gflop is None else _flop(gflop * _GIGA, row)
    traffic = tuple(
        one for level, word in _LEVELS.items() if (one := _traffic(level, word, row, comma)) is not None
    )
    if flop is None and not traffic:
        return None
    rate = _cell(row, "self gflops", comma)
    if gflop and rate and abs(gflop / time_s - rate) > _AGREES * rate + 0.001:
        notes[
            "Self GFLOPS of some loops are not Self GFLOP over their time: times are rounded to a millisecond or "
            "sampled; FLOP and time are used"
        ] = None
    if traffic:
        notes[
            "bytes of L1 are those of every load and store; those of L2, L3 and DRAM are simulated by Advisor"
        ] = None
    return Counted(
        name=_CHILD.sub("", name).strip(), time_s=time_s, flop=flop, traffic=traffic, metrics=_metrics(row, comma)
    )


def _metrics(row: Mapping[str, str], comma: bool) -> dict[str, float]:
    """Every column with a number, in base units: "self gflops" is "self flop/s"."""
    found: dict[str, float] = {}
    for title, text in row.items():
        value = _number(text, comma)
        if value is None or title in ("id", _NAMES):
            continue
        base = title
        for scaled, plain in _SCALED:
            base = base.replace(scaled, plain)
        found.setdefault(base, value if base == title else value * _GIGA)
    return found


def _cell(row: Mapping[str, str], title: str, comma: bool) -> float | None:
    return _number(row.get(title, ""), comma)


def _number(text: str, comma: bool) -> float | None:
    """A cell: "4.050s", "57.4", "1.2%"; None for "< 0.001s", which is less than it says."""
    found = numeral(re.sub(r"(?<=[\d.,])\s*(?:s|%|x)$", "", text.strip()), comma)
    return found if found is not None and found >= 0 else None


def _flop(count: float, row: Mapping[str, str]) -> tuple[Flop, ...]:
    if not count:
        return ()
    engine: Engine = "scalar" if row.get("type", "").lower().startswith("scalar") else "vector"
    return (Flop(engine, _dtype(row.get("data types", "")), count),)


def _dtype(types: str) -> str:
    """Of a loop whose data types are "Float64; UInt64": the format of its floats, where it is one."""
    sizes = set(re.findall(r"(?:b?float)(16|32|64)", types.lower()))
    if len(sizes) != 1:
        return ANY_FLOAT
    return ("bf" if "bfloat16" in types.lower() else "fp") + sizes.pop()


def _traffic(level: str, word: str, row: Mapping[str, str], comma: bool) -> Traffic | None:
    """Bytes of a level, both ways where the report tells them apart."""
    prefix = "self" if word == "memory" else f"self {word}"
    loaded, stored = _cell(row, f"{prefix} loaded gb", comma), _cell(row, f"{prefix} stored gb", comma)
    if loaded is not None and stored is not None:
        return Traffic(level, loaded * _GIGA, stored * _GIGA, "counted" if level == "L1" else "simulated")
    total = _cell(row, f"self {word} gb", comma)
    if total is None:
        return None
    return Traffic(level, total * _GIGA, 0.0, "counted" if level == "L1" else "simulated")


# The roofline page: JSON within, its coordinates are logarithms to the base of ten


def _of_page(text: str, path: Path) -> Counters:
    payload = _payload(text, path)
    data = payload["rooflineData"]
    rows, dropped = _points(data)
    machine = _machine(payload, path)
    if not rows and machine is None:
        raise FileError(f"{path}: Advisor's roofline page has no point and no roof that can be read")
    notes = ["bytes of each level are FLOP over the page's FLOP/byte, both ways together: they stand as read"]
    if str(data.get("measureY", "GFLOPS")).upper() not in ("GFLOPS", "GFLOP/S"):
        notes.append(
            f"operations are in {data.get('measureY')}, no FLOP: the page is of integer or mixed operations"
        )
    if machine is not None:
        notes.append("the roofs are those that Advisor's own benchmarks attained")
    name = _platform(payload, ("cpu name", "processor", "cpu model", "cpu"))
    return Counters(
        source=SOURCE,
        rows=tuple(rows),
        device=Device(number=0, name=cpu_name(name)),
        machine=machine,
        dropped=(Dropped(dropped, "points without a place or a time"),) if dropped else (),
        notes=tuple(notes) if rows else tuple(notes[-1:]),
    )


def _payload(text: str, path: Path) -> dict[str, Any]:
    match = _DATA.search(text)
    if match is None:
        raise FileError(f"{path}: no roofline data in Advisor's page, expected one of --report=roofline")
    try:
        payload, _ = json.JSONDecoder().raw_decode(text, match.start())
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path}: the roofline data in Advisor's page are broken: {str(error)[:80]}") from None
    if not isinstance(payload, dict) or not isinstance(payload.get("rooflineData"), dict):
        raise FileError(f"{path}: the roofline data in Advisor's page are no object")
    return payload


def _items(value: Any) -> list[dict[str, Any]]:
    """The objects in `value`, a list; none for anything else."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _power(value: Any) -> float | None:
    """Ten to the power of `value`."""
    found = number(value)
    return None if found is None or abs(found) > _MOST_LOG else math.pow(10.0, found)


def _points(data: dict[str, Any]) -> tuple[list[Counted], int]:
    """A row for each loop, its places at all memory levels together; the program where there is no loop."""
    loops = _items(data.get("loops"))[:_MOST_POINTS]
    dropped = 0
    floats = str(data.get("measureY", "GFLOPS")).upper() in ("GFLOPS", "GFLOP/S")
    general = str(data.get("memoryLevelPref", "") or "L1").strip()
    together: dict[tuple[object, ...], Counted] = {}
    for place, loop in enumerate(loops or _items(data.get("programTotal"))):
        point = _point(loop, general, floats)
        if point is None:
            # A function that only calls others has no place of its own: it is not lost.
            dropped += loop.get("x") is not None or loop.get("y") is not None
            continue
        # A loop stands there once for each memory level, with the same time and rate.
        key = point.name, point.time_s, str(loop.get("y"))
        before = together.get(key)
        if before is not None and before.at(point.traffic[0].level) is not None:
            key, before = (*key, place), None
        together[key] = point if before is None else _joined(before, point)
    return list(together.values()), dropped


def _point(loop: dict[str, Any], general: str, floats: bool) -> Counted | None:
    intensity, rate = _power(loop.get("x")), _power(loop.get("y"))
    time_s = number(loop.get("selfElapsedTime")) or number(loop.get("selfTime"))
    if intensity is None or rate is None or not time_s or time_s < 0:
        return None
    name = " ".join(str(loop.get("name") or loop.get("locat") or "program").split())[:500]
    where = str(loop.get("locat") or "")
    level = str(loop.get("memoryLevelPref") or general).split(" ")[0].upper() or "L1"
    operations = rate * _GIGA * time_s
    return Counted(
        name=name if name.startswith("[") or not where or where in name else f"{name} {where[:200]}",
        time_s=time_s,
        flop=(Flop("vector", ANY_FLOAT, operations),) if floats else None,
        traffic=(Traffic(level, operations / intensity, 0.0, "counted" if level == "L1" else "simulated"),),
        metrics={
            key: value
            for key in ("selfTime", "selfElapsedTime", "totalTime", "totalElapsedTime")
            if (value := number(loop.get(key))) is not None
        },
    )


def _joined(before: Counted, point: Counted) -> Counted:
    """A loop's place at another memory level."""
    return Counted(
        name=before.name,
        time_s=before.time_s,
        flop=before.flop,
        traffic=(*before.traffic, *point.traffic),
        metrics={**point.metrics, **before.metrics},
    )


def _machine(payload: dict[str, Any], path: Path) -> Machine | None:
    data = payload["rooflineData"]
    groups = _items(data.get("allRoofs")) or [{"roofs": data.get("roofs")}]
    roofs: list[Roof] = []
    for group in groups[:1000]:
        threads = number(group.get("threadCount"))
        count = int(threads) if threads is not None and 1 <= threads < 2**31 else None
        roofs += list(_roofs(_items(group.get("roofs"))[:1000], count))
    cpu = cpu_name(_platform(payload, ("cpu name", "processor", "cpu model", "cpu")))
    source = Source("reported", f"Intel Advisor's own benchmarks, in {path.name}")
    return advisor_roofs.machine(roofs, cpu or f"the machine of {path.name}", source)


def _roofs(roofs: Iterable[dict[str, Any]], threads: int | None) -> Iterable[Roof]:
    for roof in roofs:
        value = _power(roof.get("val"))
        if value is not None:
            yield Roof(" ".join(str(roof.get("name", "")).split())[:200], value * _GIGA, threads)


def _platform(payload: dict[str, Any], captions: tuple[str, ...]) -> str:
    """What the page's summary says under one of `captions`; "" for nothing."""
    summary = payload.get("summaryInfo")
    items = _items(summary.get("platform")) if isinstance(summary, dict) else []
    for wanted in captions:
        for item in items:
            if wanted == str(item.get("caption", "")).strip().lower():
                return str(item.get("value", "")).strip()[:200]
    return ""
