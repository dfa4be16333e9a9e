"""rocprof-compute's roofline.csv: what its benchmark attained on an AMD GPU, a device a line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from rooflab.errors import FileError
from rooflab.observe.reading.numerals import numeral
from rooflab.observe.reading.opened import content
from rooflab.observe.reading.tables import plain_text, tables
from rooflab.types.machine import Engine, Level, Machine, Rate, Source
from rooflab.units import GIGA, percent, si

SOURCE = "rocprof-compute roofline"

# Memory levels near to far by the start of their columns ("HBMBw", "HBMBwLow", "hbmBwHigh").
_LEVELS = {"lds": "LDS", "l1": "L1", "l2": "L2", "mall": "L3", "hbm": "HBM"}


class _Peak(NamedTuple):
    engine: Engine
    dtype: str


# Peaks by the start of their columns ("FP32Flops", "MFMABF16FlopsLow", "MFMAI8Ops"): the vector units, then MFMA.
# "MFMA_FLOPs_F6F4" is of versions that measured fp6 and fp4 as one.
_PEAKS = {
    "fp64flops": _Peak("vector", "fp64"),
    "fp32flops": _Peak("vector", "fp32"),
    "fp16flops": _Peak("vector", "fp16"),
    "bf16flops": _Peak("vector", "bf16"),
    "fp8flops": _Peak("vector", "fp8"),
    "i64ops": _Peak("vector", "int64"),
    "i32ops": _Peak("vector", "int32"),
    "i8ops": _Peak("vector", "int8"),
    "mfmaf64flops": _Peak("matrix", "fp64"),
    "mfmaf32flops": _Peak("matrix", "fp32"),
    "mfmaxf32flops": _Peak("matrix", "tf32"),
    "mfmabf16flops": _Peak("matrix", "bf16"),
    "mfmaf16flops": _Peak("matrix", "fp16"),
    "mfmaf8flops": _Peak("matrix", "fp8"),
    "mfmaf6flops": _Peak("matrix", "fp6"),
    "mfmaf4flops": _Peak("matrix", "fp4"),
    "mfma_flops_f6f4": _Peak("matrix", "fp6"),
    "mfmai8ops": _Peak("matrix", "int8"),
}
_WITHOUT_UNIT = re.compile(r"mfmafi8ops")  # "MFMAFI8OpsLow", as one version misspells it
_DEVICES = ("device", "devid")
_MOST = 1e21  # per second: beyond is no number that a machine attains
_FOUND = 2  # columns of levels and peaks that make a header


def sniff(head: bytes) -> bool:
    """Whether `head`, the first of a file, has the header of such a table."""
    lines = plain_text(head).splitlines()[:200]
    return any(_is_header(line.replace('"', "").split(",")) for line in lines)


def load(path: Path) -> Machine:
    """The first device that was measured in the file at `path`, with what it attained.

    Raises:
        FileError: no such table, or no line with a rate that can be used.
    """
    found = list(tables(plain_text(content(path)), _is_header))
    if not found:
        raise FileError(f"{path}: no table of rocprof-compute's benchmark, expected its roofline.csv")
    names = [_column(one) for one in found[0].header]
    devices = [_Device(dict(zip(names, row, strict=True))) for table in found[:1] for row in table.rows]
    used = [one for one in devices if one.rates]
    if not used:
        raise FileError(f"{path}: none of the {len(devices)} devices in this roofline.csv has a rate above zero")
    first = used[0]
    notes = [f"lines of {len(devices) - len(used)} devices have no rate"] if len(used) < len(devices) else []
    notes += [_others(first, used[1:])] if len(used) > 1 else []
    notes += [f"{found[0].dropped} lines are no device"] if found[0].dropped else []
    return first.machine(path.name, "; ".join(notes))


def _column(name: str) -> str:
    return _WITHOUT_UNIT.sub("mfmai8ops", name.strip().lower())


def _is_header(cells: Sequence[str]) -> bool:
    names = [_column(cell) for cell in cells]
    known = sum(1 for name in names if name in _PEAKS or name.removesuffix("bw") in _LEVELS)
    return any(name in names for name in _DEVICES) and known >= _FOUND


class _Device:
    """A line: rates above zero by column, in GB/s and GFLOP/s, which are of 10⁹."""

    def __init__(self, cells: Mapping[str, str]) -> None:
        self.number = next((cells[name].strip() for name in _DEVICES if name in cells), "")
        values = {name: numeral(cell) for name, cell in cells.items()}
        self._values = {name: value * GIGA for name, value in values.items() if value is not None}
        wanted = (*_PEAKS, *(f"{level}bw" for level in _LEVELS))
        # 0 is what was not measured.
        self.rates = {name: self._values[name] for name in wanted if 0 < self._values.get(name, 0.0) < _MOST}

    def machine(self, file: str, note: str) -> Machine:
        """This device as a machine."""
        source = Source(
            "reported", f"rocprof-compute's empirical roofline benchmark: {file}, device {self.number}"
        )
        levels = tuple(
            Level(name=name, source=source, rates=(self._rate(f"{level}bw", "any", source),))
            for level, name in _LEVELS.items()
            if f"{level}bw" in self.rates
        )
        peaks = tuple(self._rate(name, "fma", source, peak) for name, peak in _PEAKS.items() if name in self.rates)
        return Machine(
            name=f"AMD GPU {self.number} of {file}",
            kind="gpu",
            source=source,
            vendor="AMD",
            compute_unit="CU",
            levels=levels,
            peaks=peaks,
            note=note or None,
        )

    def _rate(self, name: str, what: str, source: Source, peak: _Peak | None = None) -> Rate:
        low, high = self._values.get(f"{name}low"), self._values.get(f"{name}high")
        spread = "" if low is None or high is None else f", {si(low, '')} to {si(high, '')} with their deviation"
        integer = peak is not None and peak.dtype.startswith("int")
        return Rate(
            value=self.rates[name],
            per_s="byte" if peak is None else "op" if integer else "flop",
            what=what,
            basis="attained",
            source=source,
            engine=None if peak is None else peak.engine,
            dtype=None if peak is None else peak.dtype,
            note=f"mean of the benchmark's runs{spread}",
        )


def _others(first: _Device, others: list[_Device]) -> str:
    """How far the other devices of the file are from the first, at most."""
    ratios = [one.rates[name] / rate for one in others for name, rate in first.rates.items() if name in one.rates]
    names = ", ".join(one.number for one in others[:8])
    far = max((abs(ratio - 1) for ratio in ratios), default=0.0)
    return f"devices {names} of the file are within {percent(far, 1)} of this one"
