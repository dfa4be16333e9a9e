"""What tinygrad prints of its kernels with DEBUG=2 and more: estimates and times, a kernel a line, of any version.

FLOP and bytes are tinygrad's own estimates and stand in a line as rates of few digits; what they amount to is the
rate times the time. A rate that was rounded away ("0 GFLOPS") says nothing.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from rooflab.errors import FileError
from rooflab.observe.reading.numerals import numeral
from rooflab.observe.reading.opened import content
from rooflab.observe.reading.tables import plain_text
from rooflab.types.counted import Counted, Counters
from rooflab.types.trace import Device, Dropped
from rooflab.types.work import Flop, Traffic

SOURCE = "tinygrad log"

_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_LINE_CHARACTERS = 4000  # a line of a kernel has about 200
# Versions 0.7 and 0.8 name no device; before 0.9 sizes and operations stand between "arg" and "mem".
_BEGIN = re.compile(
    r"\*\*\* +(?:(?P<device>[A-Z]\w*(?::\d+)?) +)?(?P<count>\d+) +(?P<name>\S.{0,300}?) +"
    r"(?:arg +\d+ +)?(?:sz .{0,120}?OPs .{0,60}? )?mem +\d+\.\d\d GB"
)
_TIMES = re.compile(
    r" *tm +(?P<time>[\d.]+) *(?P<unit>ns|us|ms|s) */ *[\d.]+ *ms +"
    r"\( *(?P<flop>\S+) +(?P<flop_unit>[KMGTP])FLOPS,? +(?P<mem>[^\s|]+)"
    r"(?:\|(?P<lds>\S+))? +(?P<unit_bytes>[KMGTP])B/s\)"
)
_COPY = re.compile(r"copy +(?P<size>[\d.]+) *(?P<unit>B|KB|MB|GB|M|),.*<-")
# Newer versions divide by powers of 2 and write KB, MB, GB; older ones by 10^6 and write M.
_COPY_UNITS = {"": 1.0, "B": 1.0, "KB": 2.0**10, "MB": 2.0**20, "GB": 2.0**30, "M": 1e6}
_OPENED = re.compile(r"opened device [A-Z]\w* from pid:\d+|scheduled +\d+ kernels? in +[\d.]+ ms")
_ARCHITECTURE = re.compile(r"AMD\w*: opening \d+ with target .{0,40}?arch (gfx\w+)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
_PREFIX = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_COARSE = 0.1  # half a unit of the last digit over the number: what is coarser is not taken for a number
_PRETENDED = "NULL"  # the device that runs nothing


class _Run(NamedTuple):
    """One line: a kernel that ran once; None for an amount that its rate is too coarse for."""

    time_s: float
    flop: float | None
    near_bytes: float | None
    far_bytes: float | None
    rates: dict[str, float]


def sniff(head: bytes) -> bool:
    """Whether `head`, the first of a file, has a line of a kernel of tinygrad, or what precedes them."""
    text = _COLOURS.sub("", plain_text(head))
    return any(
        _OPENED.search(line) or _BEGIN.search(line)
        for line in re.split(r"[\r\n]", text)
        if len(line) <= _LINE_CHARACTERS
    )


def load(path: Path) -> Counters:
    """The kernels in the log at `path`, runs of one kernel on one device together.

    Raises:
        FileError: no line of a kernel with its time.
    """
    text = _COLOURS.sub("", plain_text(content(path)))
    runs: dict[tuple[str, str], list[_Run]] = defaultdict(list)
    untimed = 0
    for line in re.split(r"[\r\n]", text):
        begin = _BEGIN.search(line) if len(line) <= _LINE_CHARACTERS else None
        if begin is None:
            continue
        run = _run(line, begin)
        if run is None:
            untimed += 1
        else:
            runs[begin["device"] or "", " ".join(begin["name"].split())].append(run)
    if not runs:
        raise FileError(
            f"{path}: tinygrad's log has no kernel with its time ({untimed} lines without one); expected the "
            "output of a program that ran with DEBUG=2"
        )
    devices = list(dict.fromkeys(device for device, _ in runs if device))
    rows = tuple(
        _counted(name, several, device if len(devices) > 1 else "") for (device, name), several in runs.items()
    )
    architecture = _ARCHITECTURE.search(text)
    return Counters(
        source=SOURCE,
        rows=rows,
        device=Device(number=0, capability=architecture[1] if architecture else None),
        dropped=(Dropped(untimed, "lines of a kernel without its time"),) if untimed else (),
        notes=_notes(rows, devices),
    )


def _run(line: str, begin: re.Match[str]) -> _Run | None:
    """What a line says of one run; None without a time that can be true."""
    times = _TIMES.match(line, begin.end())
    time = None if times is None else numeral(times["time"])
    if times is None or time is None or time <= 0:
        return None
    time_s = time * _SECONDS[times["unit"]]
    rates: dict[str, float] = {}
    amounts: dict[str, float | None] = {}
    for what, unit in (("flop", "flop_unit"), ("mem", "unit_bytes"), ("lds", "unit_bytes")):
        text, scale = times[what], _PREFIX[times[unit]]
        value = None if text is None else numeral(text)
        amounts[what] = None
        if text is not None and value is not None and value >= 0:
            rates[what] = value * scale
            amounts[what] = value * scale * time_s if _is_fine(text, value) else None
    copy = _COPY.match(begin["name"])
    if copy is not None:
        size = numeral(copy["size"])
        moved = None if size is None else size * _COPY_UNITS[copy["unit"]]
        return _Run(time_s, 0.0, moved, moved, rates)
    return _Run(time_s, amounts["flop"], amounts["lds"], amounts["mem"], rates)


def _is_fine(text: str, value: float) -> bool:
    """Whether a printed number has digits enough to stand for the amount behind it."""
    digits = len(text.partition(".")[2])
    return value > 0 and 0.5 * 10.0**-digits / value <= _COARSE


def _counted(name: str, runs: list[_Run], device: str) -> Counted:
    """Runs of one kernel: mean time, and mean of the amounts of runs whose rates were fine enough."""
    time_s = sum(run.time_s for run in runs) / len(runs)
    flop = _mean([run.flop for run in runs])
    far, near = _mean([run.far_bytes for run in runs]), _mean([run.near_bytes for run in runs])
    # Neither engine, nor number format, nor direction is printed. Each buffer once is what memory moves at least;
    # all loads and stores are what the nearest cache is asked for.
    traffic = []
    if far is not None:
        traffic.append(Traffic("DRAM", far, 0.0, "compulsory"))
    if near is not None:
        traffic.append(Traffic("L1", near, 0.0, "accessed"))
    return Counted(
        name=f"{name} on {device}" if device else name,
        time_s=time_s,
        runs=len(runs),
        flop=None if flop is None else (Flop("vector", "unknown", flop),) if flop else (),
        traffic=tuple(traffic),
        metrics={
            "fastest run (s)": min(run.time_s for run in runs),
            "slowest run (s)": max(run.time_s for run in runs),
        }
        | _printed(runs),
    )


_SAID = {"flop": "FLOP/s, printed", "mem": "B/s of memory, printed", "lds": "B/s of loads and stores, printed"}


def _printed(runs: list[_Run]) -> dict[str, float]:
    """The best rate of each kind, as it was printed."""
    return {
        said: max(run.rates[what] for run in runs if what in run.rates)
        for what, said in _SAID.items()
        if any(what in run.rates for run in runs)
    }


def _mean(values: list[float | None]) -> float | None:
    known = [one for one in values if one is not None]
    return sum(known) / len(known) if known else None


def _notes(rows: tuple[Counted, ...], devices: list[str]) -> tuple[str, ...]:
    notes = [
        "FLOP and bytes are tinygrad's estimates, from rates of few digits: bytes of memory are each buffer once, "
        "those at L1 all loads and stores; number formats and directions are not printed: all stands as read"
    ]
    coarse = sum(1 for row in rows if row.flop is None or not row.traffic)
    if coarse:
        notes.append(f"of {coarse} kernels a rate is too small for its digits: FLOP or bytes are not known")
    if any(device.partition(":")[0] == _PRETENDED for device in devices):
        notes.append("the NULL device runs nothing: its times are made up, and so are rates and amounts")
    if len(devices) > 1:
        notes.append(f"kernels of several devices: {', '.join(devices)}")
    return tuple(notes)
