"""Nsight Compute's CSV: details and raw pages, a metric a line or a kernel a line, as printed or exported."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from rooflab.errors import FileError
from rooflab.observe.importers.counters import ncu_metrics, ncu_peaks
from rooflab.observe.importers.counters.ncu_access import access
from rooflab.observe.reading.numerals import decimal_comma, numeral, scale
from rooflab.observe.reading.opened import content
from rooflab.observe.reading.tables import Table, plain_text, tables
from rooflab.types.counted import Counted, Counters
from rooflab.types.trace import Device, Dropped

SOURCE = "Nsight Compute"

_PERMISSION = (
    "Nsight Compute was not permitted to read the counters (ERR_NVGPUCTRPERM). Load the driver with "
    "NVreg_RestrictProfilingToAdminUsers=0, or profile as root (in a container: --cap-add SYS_ADMIN)"
)
_ERROR = re.compile(r"^==ERROR==\s*(.+)$", re.MULTILINE)
_IDENTITY = ("ID", "Kernel Name")
_SUMMARY = ("Kernel Name", "Invocations", "Metric Name", "Average")  # of --print-summary
_MORE = {"Process ID", "Context", "Metric Name", "CC"}  # one of them is in each of its tables
# Units of what is counted in whole numbers, and of times that have no finer one.
_WHOLE = {"ns", "nsecond", "byte", "inst", "sector", "request", "warp", "thread", "block"}
_COMMAS = "numbers are read as written with a comma before the fraction and dots between thousands"
_NUMBERS = re.compile(r"\d+")


def sniff(head: bytes) -> bool:
    """Whether `head`, the first of a file, is of Nsight Compute: its marks, or its header."""
    text = plain_text(head)
    if "==PROF==" in text or "ERR_NVGPUCTRPERM" in text or ('"Kernel Name"' in text and '"ID"' in text):
        return True
    # Saved again by a spreadsheet: without quotes, or with semicolons.
    several = (
        re.split("[,;\t]", line.replace('"', "")) for line in text.splitlines()[:200] if "Kernel Name" in line
    )
    return any(_is_header(cells) for cells in several)


def load(path: Path) -> Counters:
    """The counters in the file at `path`.

    Raises:
        FileError: no table of Nsight Compute, an error of Nsight Compute instead, or no kernel in it.
    """
    text = plain_text(content(path))
    found = next((some for mark in ",;\t" if (some := list(tables(text, _is_header, mark)))), [])
    if not found:
        raise FileError(f"{path}: {_no_table(text)}")
    kernels: dict[tuple[str, ...], _Kernel] = {}
    dropped = 0
    notes: list[str] = []
    for number, table in enumerate(map(_of_summary, found)):
        comma = _comma(table)
        dropped += table.dropped + _take(table, number, kernels, comma)
        if comma and _COMMAS not in notes:
            notes.append(_COMMAS)
    if not kernels:
        raise FileError(f"{path}: Nsight Compute's table has no kernel; {dropped} lines could not be used")
    rows = tuple(one.counted() for one in kernels.values())
    if not any(row.flop is not None for row in rows):
        section = "SpeedOfLight_HierarchicalSingleRooflineChart"
        notes.append(f"no FLOP was counted: profile with --section {section} or --set full")
    lacking = dict.fromkeys(each for one in kernels.values() for each in ncu_metrics.uncounted(one.metrics))
    if lacking:
        notes.append(
            f"FLOP are those of the metrics in the file alone; not in it, of some kernel: {', '.join(lacking)}"
        )
    if not any(row.at("DRAM") for row in rows):
        notes.append("no bytes of DRAM were counted: profile with --section MemoryWorkloadAnalysis or --set full")
    device = _device(next(iter(kernels.values())))
    return Counters(
        source=SOURCE,
        rows=rows,
        device=device,
        machine=next((one for row in rows if (one := ncu_peaks.machine(row.metrics, device))), None),
        dropped=(Dropped(dropped, "lines that are no metric of a kernel"),) if dropped else (),
        notes=tuple(notes),
    )


def _no_table(text: str) -> str:
    if "ERR_NVGPUCTRPERM" in text:
        return _PERMISSION
    error = _ERROR.search(text)
    if error:
        return f"Nsight Compute failed: {error.group(1).strip()}"
    return "no table of Nsight Compute, expected the output of ncu --csv (with --page details or --page raw)"


def _is_header(cells: list[str]) -> bool:
    names = {cell.strip() for cell in cells}
    return names.issuperset(_SUMMARY) or (names.issuperset(_IDENTITY) and not _MORE.isdisjoint(names))


def _of_summary(table: Table) -> Table:
    """A table of --print-summary in the form of the others: its means, kernels numbered as they come."""
    if "ID" in table.header or not set(_SUMMARY).issubset(table.header):
        return table
    header = ["ID", *("Metric Value" if name == "Average" else name for name in table.header)]
    of_kernel = [
        place
        for place, name in enumerate(table.header)
        if name in ("Kernel Name", "Block Size", "Grid Size", "Range")
    ]
    numbers: dict[tuple[str, ...], int] = {}
    rows = []
    for row in table.rows:
        number = numbers.setdefault(tuple(row[place] for place in of_kernel), len(numbers))
        rows.append([str(number), *row])
    return Table(header, rows, table.dropped)


class _Kernel:
    """A kernel as its lines are read: identity, and metrics in base units."""

    def __init__(self, identity: dict[str, str]) -> None:
        self.identity = identity
        self.metrics: dict[str, float] = {}
        self.texts: dict[str, str] = {}

    def counted(self) -> Counted:
        counted = ncu_metrics.counted(
            self.identity.get("Kernel Name", ""),
            self.metrics,
            _sizes(self.identity.get("Grid Size", "")),
            _sizes(self.identity.get("Block Size", "")),
        )
        runs = self.identity.get("Invocations", "1")
        known = int(runs) if _NUMBERS.fullmatch(runs) and len(runs) < 16 else 1
        return msgspec.structs.replace(counted, access=access(self.metrics), runs=max(known, 1))


def _columns(table: Table) -> dict[str, int]:
    return {name: place for place, name in reversed(list(enumerate(table.header)))}


def _comma(table: Table) -> bool:
    """Whether the numbers of `table` have a comma before their fraction."""
    columns = _columns(table)
    if "Metric Name" in columns and "Metric Value" in columns:
        value, unit = columns["Metric Value"], columns.get("Metric Unit")
        whole = [row[value] for row in table.rows if unit is not None and row[unit].strip() in _WHOLE]
        return decimal_comma((row[value] for row in table.rows), whole)
    if not table.rows or table.rows[0][columns["ID"]].strip():
        return decimal_comma(cell for row in table.rows[:50] for cell in row)
    units, rows = table.rows[0], table.rows[1:51]
    places = [place for place, unit in enumerate(units) if unit.strip() in _WHOLE]
    return decimal_comma((cell for row in rows for cell in row), (row[place] for row in rows for place in places))


def _take(table: Table, number: int, kernels: dict[tuple[str, ...], _Kernel], comma: bool) -> int:
    """Add the metrics of `table` to `kernels`; how many lines could not be used."""
    columns = _columns(table)
    if "Metric Name" in columns and "Metric Value" in columns:
        return _take_long(table, columns, number, kernels, comma)
    return _take_wide(table, columns, number, kernels, comma)


def _identity(columns: dict[str, int], row: list[str]) -> dict[str, str]:
    wanted = (
        "ID",
        "Process ID",
        "Kernel Name",
        "Context",
        "Stream",
        "Block Size",
        "Grid Size",
        "Device",
        "CC",
        "Invocations",
    )
    return {name: row[columns[name]].strip() for name in wanted if name in columns}


def _key(number: int, identity: dict[str, str]) -> tuple[str, ...]:
    where = (identity.get(name, "") for name in ("Process ID", "Device", "Context"))
    return str(number), identity["ID"], identity["Kernel Name"], *where


def _take_long(
    table: Table, columns: dict[str, int], number: int, kernels: dict[tuple[str, ...], _Kernel], comma: bool
) -> int:
    name_at, value_at, unit_at = columns["Metric Name"], columns["Metric Value"], columns.get("Metric Unit")
    unusable = 0
    for row in table.rows:
        identity = _identity(columns, row)
        if not _NUMBERS.fullmatch(identity["ID"]):
            unusable += 1
            continue
        kernel = kernels.setdefault(_key(number, identity), _Kernel(identity))
        name = row[name_at].strip()
        if not name:
            continue  # the line of a rule
        value, text = numeral(row[value_at], comma), row[value_at].strip()
        unit = row[unit_at] if unit_at is not None else ""
        factor = _factor(name, unit)
        if value is not None and factor is not None:
            kernel.metrics.setdefault(ncu_metrics.metric(name, unit), value * factor)
        else:
            kernel.texts.setdefault(name, text)
    return unusable


def _take_wide(
    table: Table, columns: dict[str, int], number: int, kernels: dict[tuple[str, ...], _Kernel], comma: bool
) -> int:
    unusable = 0
    units: list[str] = [""] * len(table.header)
    rows = table.rows
    # The second line holds units, and no kernel.
    if rows and not rows[0][columns["ID"]].strip():
        units, rows = rows[0], rows[1:]
    factors = [_factor(name, unit) for name, unit in zip(table.header, units, strict=True)]
    for row in rows:
        identity = _identity(columns, row)
        if not _NUMBERS.fullmatch(identity["ID"]):
            unusable += 1
            continue
        # Each line is a kernel, also where lines of several files were put together and numbers come again.
        kernel = kernels[*_key(number, identity), str(len(kernels))] = _Kernel(identity)
        for place, name in enumerate(table.header):
            factor = factors[place]
            value = numeral(row[place], comma) if factor is not None and row[place] else None
            if value is not None and factor is not None and name not in identity:
                kernel.metrics.setdefault(name, value * factor)
            elif row[place]:
                kernel.texts.setdefault(name, row[place].strip())
    return unusable


def _factor(name: str, unit: str) -> float | None:
    """What makes base units of a number in `unit`; a duration without one is in the metric's own, nanoseconds."""
    return 1e-9 if not unit.strip() and name.startswith(("gpu__time_duration", "Duration")) else scale(unit)


def _sizes(text: str) -> tuple[int, ...] | None:
    """The numbers in "(256, 1, 1)" or "256, 1, 1"."""
    sizes = tuple(int(one) for one in _NUMBERS.findall(text))
    return sizes or None


def _device(kernel: _Kernel) -> Device:
    metrics = kernel.metrics
    units = metrics.get("device__attribute_multiprocessor_count", metrics.get("launch__sm_count"))
    return Device(
        number=int(kernel.identity["Device"]) if kernel.identity.get("Device", "").isdigit() else 0,
        name=kernel.texts.get("device__attribute_display_name"),
        memory_bytes=metrics.get("device__attribute_total_memory"),
        compute_units=None if units is None else int(units),
        capability=kernel.identity.get("CC") or None,
        warp_size=32,
    )
