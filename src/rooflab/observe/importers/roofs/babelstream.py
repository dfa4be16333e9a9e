"""BabelStream: Copy, Mul, Add, Triad, Dot and Nstream on CPUs and GPUs, as it prints them or as its CSV."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from rooflab.observe.importers.roofs import attained
from rooflab.observe.reading.numerals import numeral
from rooflab.types.machine import Check, Kind, Machine, Rate
from rooflab.units import si

SOURCE = "BabelStream"

# What it calls its kernels, and what they are here.
_KERNELS = {"copy": "copy", "mul": "scale", "add": "add", "triad": "triad", "dot": "dot", "nstream": "nstream"}
_UNITS = {
    "mbytes/sec": 1e6,
    "mibytes/sec": 2.0**20,
    "max_mbytes_per_sec": 1e6,
    "max_mibytes_per_sec": 2.0**20,
    "gbytes_per_sec": 1e9,
    "gibytes_per_sec": 2.0**30,
}
_TABLE = re.compile(r"^\s*Function\s+(MBytes/sec|MiBytes/sec)\s+Min \(sec\)\s+Max\s+Average", re.IGNORECASE)
_CSV = re.compile(
    r"^\s*function(.{1,3}?)num_times\1n_elements\1sizeof\1(max_mi?bytes_per_sec|g(?:i)?bytes_per_sec)\1(.*)$"
)
_ROW = re.compile(r"^\s*(Copy|Mul|Add|Triad|Dot|Nstream)\s+(\S+)\s+(\S+)\s+(\S+)\s+(\S+)\s*$", re.IGNORECASE)
_SIZE = re.compile(r"^\s*Array size:\s*(\S+) (MB|MiB)", re.IGNORECASE)
_ELEMENTS = re.compile(r"^\s*Number of elements:\s*(\d+)")
_PRECISION = re.compile(r"^\s*Precision:\s*(float|double)", re.IGNORECASE)
_DEVICE = re.compile(r"^\s*(?:Using|Running on)\s+(?:a )?(?:(CUDA|HIP|OpenCL|SYCL|HC)\s+)?device:?\s+(.+?)\s*$")
_MADE = re.compile(r"^\s*Implementation:\s*(.+?)\s*$")
_BANDWIDTH = re.compile(r"^\s*Bandwidth \((GB/s|GiB/s)\):\s*(\S+)")
_RUNTIME = re.compile(r"^\s*Runtime \(seconds\):\s*(\S+)")
_TIMES = re.compile(r"^\s*Running (?:kernels|triad) (\d+) times")
_BINARY = {"MB": 1e6, "MiB": 2.0**20, "GB/s": 1e9, "GiB/s": 2.0**30}


def sniff(head: bytes) -> bool:
    """Whether `head`, the first of a file, is of BabelStream: a header of it, or its name and a rate."""
    text = attained.text_of(head)
    lines = text.splitlines()
    if any(_CSV.match(line) or _TABLE.match(line) for line in lines):
        return True
    named = any(line.strip() in ("BabelStream", "GPU-STREAM") for line in lines)
    return named and any(_BANDWIDTH.match(line) for line in lines)


class _Facts:
    """What the output says besides rates."""

    def __init__(self) -> None:
        self.device: str | None = None
        self.api = ""
        self.made = ""
        self.word_bytes = 8
        self.array_bytes: float | None = None
        self.runtime_s: float | None = None
        self.times: float | None = None


class _Row(NamedTuple):
    """One kernel: bytes a second, least and average seconds, and the bytes of an array as its own line says."""

    value: float
    least_s: float | None
    average_s: float | None
    array_bytes: float | None


def load(path: Path) -> Machine:
    """What the device attained, the best of several runs in the file at `path`.

    Raises:
        FileError: no row with a rate.
    """
    facts, best, dropped = _Facts(), dict[str, _Row](), 0
    unit: float | None = None
    cut, columns = "", list[str]()
    for line in attained.lines_of(path):
        _take_fact(line, facts)
        table, csv = _TABLE.match(line), _CSV.match(line)
        if table:
            unit, cut = _UNITS[table[1].lower()], ""
        elif csv:
            unit, cut = _UNITS[csv[2]], csv[1]
            columns = line.strip().split(cut)
        elif _BANDWIDTH.match(line):
            dropped += not _keep(best, "triad", _alone(line, facts))
        elif unit is not None and cut:
            cells = line.strip().split(cut)
            if cells[0].lower() in _KERNELS:
                dropped += not _keep(best, cells[0].lower(), _of_csv(cells, columns, unit))
        elif unit is not None and (row := _ROW.match(line)):
            value = attained.positive(row[2], unit)
            least_s, average_s = attained.positive(row[3]), attained.positive(row[5])
            found = None if value is None else _Row(value, least_s, average_s, facts.array_bytes)
            dropped += not _keep(best, row[1].lower(), found)
    if not best:
        raise attained.nothing(
            path, SOURCE, "no row with a number", "lines such as 'Triad  1358183.472  0.00059 …'"
        )
    return _machine(path, facts, best, dropped)


def _keep(best: dict[str, _Row], kernel: str, row: _Row | None) -> bool:
    """Whether `row` has a rate; the fastest of each kernel is kept."""
    if row is None:
        return False
    if kernel not in best or row.value > best[kernel].value:
        best[kernel] = row
    return True


def _take_fact(line: str, facts: _Facts) -> None:
    if found := _DEVICE.match(line):
        facts.api, facts.device = found[1] or facts.api, found[2]
    elif found := _MADE.match(line):
        facts.made = found[1]
    elif found := _PRECISION.match(line):
        facts.word_bytes = 4 if found[1].lower() == "float" else 8
    elif found := _SIZE.match(line):
        facts.array_bytes = attained.positive(found[1], _BINARY[found[2]])
    elif found := _RUNTIME.match(line):
        facts.runtime_s = attained.positive(found[1])
    elif found := _TIMES.match(line):
        facts.times = attained.positive(found[1])


def _alone(line: str, facts: _Facts) -> _Row | None:
    """Triad by itself: one rate over all its repetitions."""
    found = _BANDWIDTH.match(line)
    value = attained.positive(found[2], _BINARY[found[1]]) if found else None
    if value is None:
        return None
    each_s = facts.runtime_s / facts.times if facts.runtime_s and facts.times else None
    return _Row(value, each_s, None, facts.array_bytes)


def _of_csv(cells: list[str], columns: list[str], unit: float) -> _Row | None:
    named = dict(zip(columns, cells, strict=False))
    value = attained.positive(cells[4], unit) if len(cells) > 4 else None
    if value is None:
        return None
    elements, word = numeral(named.get("n_elements", "")), numeral(named.get("sizeof", ""))
    array_bytes = attained.positive(elements * word) if elements and word else None
    least_s = attained.positive(named.get("min_runtime"))
    if least_s is None and "runtime" in named:
        runtime_s, times = attained.positive(named["runtime"]), attained.positive(named.get("num_times"))
        least_s = runtime_s / times if runtime_s and times else None
    return _Row(value, least_s, attained.positive(named.get("avg_runtime")), array_bytes)


def _machine(path: Path, facts: _Facts, best: dict[str, _Row], dropped: int) -> Machine:
    origin = attained.source(SOURCE, path)
    known = attained.known_device(facts.device)
    rates: list[tuple[str, Rate]] = []
    checks: list[Check | None] = []
    for kernel, row in best.items():
        what = _KERNELS[kernel]
        array_bytes = row.array_bytes
        where = attained.place(None if array_bytes is None else 3 * array_bytes, known)
        spread = _spread(row)
        rate = attained.byte_rate(what, row.value, origin, spread=spread)
        rates.append((where.level, rate))
        checks.append(where.check)
        checks.append(attained.above_theory(rate, where.level, known))
        if array_bytes is not None and row.least_s is not None:
            checks.append(_rate_check(kernel, row, array_bytes))
    device = f"{facts.device} " if facts.device else ""
    said = "" if facts.device or facts.made else "The file names no device: taken for a CPU."
    return Machine(
        name=f"{device}(BabelStream)" if device else f"{path.stem} (BabelStream)",
        kind=_kind(facts, known),
        vendor=None if known is None else known.vendor,
        source=origin,
        compute_unit=None if known is None else known.compute_unit,
        compute_units=None if known is None else known.compute_units,
        levels=attained.levels(rates, known, origin),
        checks=tuple(dict.fromkeys(check for check in checks if check is not None)),
        note=attained.note(
            f"Attained, as BabelStream printed it{f' ({facts.made})' if facts.made else ''}, in bytes a second of "
            "1e6 or 2^20 as its header says. Bytes are those that the program names, without write-allocate; Dot "
            "reads two arrays and writes none.",
            said,
            attained.dropped_sentence(dropped),
        ),
    )


def _spread(row: _Row) -> float | None:
    """How far the average run is off the best; None where the times contradict themselves."""
    if row.least_s is None or row.average_s is None or row.average_s < row.least_s:
        return None
    return 1 - row.least_s / row.average_s


def _rate_check(kernel: str, row: _Row, array_bytes: float) -> Check:
    elements, least_s = attained.ELEMENTS[_KERNELS[kernel]], row.least_s or 1.0
    expected = elements * array_bytes / least_s
    sentence = (
        f"{kernel} {si(row.value, 'B/s')} beside {si(expected, 'B/s')}, which is {elements} arrays of "
        f"{array_bytes:,.0f} bytes in {si(least_s, 's')}"
    )
    # Five decimals of the least time, four digits of the size.
    return attained.agree(f"{kernel} against its time", row.value, expected, sentence, 0.005 + 1e-5 / least_s)


def _kind(facts: _Facts, known: Machine | None) -> Kind:
    if known is not None:
        return known.kind
    words = f"{facts.api} {facts.made} {facts.device or ''}".upper()
    return (
        "gpu" if any(each in words for each in ("CUDA", "HIP", "NVIDIA", "RADEON", "INSTINCT", "GPU")) else "cpu"
    )
