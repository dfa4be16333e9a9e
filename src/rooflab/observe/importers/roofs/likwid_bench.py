"""likwid-bench: one or several of its micro-benchmarks, as it prints them: streams, and peaks of arithmetic."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from rooflab.observe.importers.roofs import attained
from rooflab.types.machine import Check, Machine, Point, Rate, Source
from rooflab.units import si

SOURCE = "likwid-bench"

_TITLE = "LIKWID MICRO BENCHMARK"
_ENTRY = re.compile(r"^([A-Z][A-Za-z/ ().]*?):\s+(\S+)(?: sec)?\s*$")
_NAMES = {
    "Test": "test",
    "Time": "time_s",
    "Size (Byte)": "size_bytes",
    "Size": "size_bytes",  # of version 4
    "Size per thread": "thread_bytes",
    "Number of Flops": "flop",
    "MFlops/s": "mflops",
    "Data volume (Byte)": "volume_bytes",
    "MByte/s": "mbytes",
    "Load bytes per element": "load_bytes",
    "Store bytes per elem.": "store_bytes",
    "Iterations": "iterations",
}
_THREADS = re.compile(r"^Using (\d+) threads?\s*$")


class Stream(NamedTuple):
    """What one element of a kernel of likwid-bench takes: FLOP, and numbers read and written."""

    what: str
    flop: float
    read: int
    written: int


# From the first lines of likwid's own kernel descriptions (bench/x86-64/*.ptt, FLOPS and BYTES).
_STREAMS = {
    "copy": Stream("copy", 0, 1, 1),
    "clcopy": Stream("copy", 0, 1, 1),
    "load": Stream("read", 0, 1, 0),
    "clload": Stream("read", 0, 1, 0),
    "store": Stream("write", 0, 0, 1),
    "clstore": Stream("write", 0, 0, 1),
    "update": Stream("update", 0, 1, 1),
    "clupdate": Stream("update", 0, 1, 1),
    "stream": Stream("triad", 2, 2, 1),
    "triad": Stream("multiply-add of three arrays", 2, 3, 1),
    "daxpy": Stream("triad", 2, 2, 1),
    "ddot": Stream("dot", 2, 2, 0),
    "sum": Stream("read", 1, 1, 0),
}
_L1_BYTES = 32 * 2**10  # of a core, at least, on every server and desktop since 2006


class _Run:
    """One benchmark: its entries as they are read."""

    def __init__(self) -> None:
        self.test = ""
        self.threads: int | None = None
        self.numbers: dict[str, float] = {}

    def number(self, name: str) -> float | None:
        """The entry `name`, None where it is not there or no number above nothing."""
        return attained.positive(self.numbers.get(name))

    @property
    def base(self) -> str:
        """The kernel's name without its instruction sets."""
        return self.test.partition("_")[0]

    @property
    def stream(self) -> Stream | None:
        """What an element of it takes; None for a kernel that is not known."""
        return _STREAMS.get(self.base)

    @property
    def single(self) -> bool:
        """Whether it computes in single precision."""
        return "sp" in self.test.split("_")


def sniff(head: bytes) -> bool:
    """Whether `head`, the first of a file, is of likwid-bench: its title and a test."""
    text = attained.text_of(head)
    found = text.find(_TITLE)
    return found >= 0 and re.search(r"\n\s*Test:", text[found : found + 400]) is not None


def load(path: Path) -> Machine:
    """What the machine attained, of all benchmarks in the file at `path`.

    Raises:
        FileError: no benchmark with a rate.
    """
    origin = attained.source(SOURCE, path)
    rates: list[tuple[str, Rate]] = []
    peaks: list[Rate] = []
    points: list[Point] = []
    checks: list[Check | None] = []
    dropped = 0
    for run in _runs(attained.lines_of(path)):
        found = rates, peaks, points
        before = sum(map(len, found))
        checks += _take(run, origin, rates, peaks, points)
        dropped += sum(map(len, found)) == before
    if not rates and not peaks:
        raise attained.nothing(path, SOURCE, "no benchmark with MByte/s or MFlops/s", "its whole output")
    return Machine(
        name=f"{path.stem} (likwid-bench)",
        kind="cpu",
        source=origin,
        levels=attained.levels(rates, None, origin),
        peaks=tuple(peaks),
        points=tuple(points),
        checks=tuple(dict.fromkeys(check for check in checks if check is not None)),
        note=attained.note(
            "Attained, as likwid-bench printed it; MB is 1e6 bytes; bytes are those that the kernel names, "
            "without write-allocate. The file names no caches: a level is told by the size alone.",
            f"{dropped} benchmark{'s' if dropped != 1 else ''} could not be used." if dropped else "",
        ),
    )


def _runs(lines: list[str]) -> list[_Run]:
    runs: list[_Run] = []
    for line in map(str.strip, lines):
        if line == _TITLE:
            runs.append(_Run())
        elif runs:
            entry, threads = _ENTRY.match(line), _THREADS.match(line)
            name = _NAMES.get(entry[1]) if entry else None
            if threads:
                runs[-1].threads = int(threads[1][:6])
            elif name == "test" and entry:
                runs[-1].test = entry[2].lower()
            elif name is not None and entry:
                number = attained.positive(entry[2])
                if number is not None:
                    runs[-1].numbers[name] = number
    return runs


def _take(
    run: _Run, origin: Source, rates: list[tuple[str, Rate]], peaks: list[Rate], points: list[Point]
) -> list[Check | None]:
    """Add what `run` attained to the lists; what is doubtful of it."""
    flop_per_s, bytes_per_s = (attained.positive(run.numbers.get(name), 1e6) for name in ("mflops", "mbytes"))
    dtype = "fp32" if run.single else "fp64"
    checks: list[Check | None] = [*_against_time(run)]
    if run.base.startswith("peakflops"):
        if flop_per_s is not None:
            what = "fma" if "fma" in run.test.split("_") else "add and mul"
            peaks.append(
                attained.flop_rate(
                    what, flop_per_s, dtype, origin, engine="vector", threads=run.threads, note=run.test
                )
            )
        return checks
    if bytes_per_s is None:
        return checks
    level, doubt = _level(run)
    checks.append(doubt)
    implied = _implied(run, flop_per_s)
    if implied is not None:
        checks.append(_consistent(run, bytes_per_s, implied))
        bytes_per_s = implied if not _close(bytes_per_s, implied) else bytes_per_s
    what = run.stream.what if run.stream else run.base
    rates.append((level, attained.byte_rate(what, bytes_per_s, origin, threads=run.threads, note=run.test)))
    time_s = run.number("time_s")
    if flop_per_s is not None and time_s is not None:
        points.append(
            Point(
                name=run.test,
                flop=flop_per_s * time_s,
                bytes=bytes_per_s * time_s,
                time_s=time_s,
                source=origin,
                level=level,
                dtype=dtype,
                threads=run.threads,
            )
        )
    return checks


def _level(run: _Run) -> tuple[str, Check | None]:
    """The level that the size tells: a core's first cache, a cache, or main memory."""
    thread_bytes = run.number("thread_bytes")
    if thread_bytes is not None and thread_bytes <= _L1_BYTES:
        return "L1", None  # asked for on purpose: no doubt is due
    size = run.number("size_bytes")
    if size is None and thread_bytes is not None:
        size = thread_bytes * (run.threads or 1)
    where = attained.place(size, None)
    return where.level, None if where.level == attained.CACHE else where.check


def _implied(run: _Run, flop_per_s: float | None) -> float | None:
    """Bytes a second that the FLOP a second imply for a kernel that is known; None without either."""
    if run.stream is None or not run.stream.flop or flop_per_s is None:
        return None
    word = 4 if run.single else 8
    return flop_per_s / run.stream.flop * (run.stream.read + run.stream.written) * word


def _close(stated: float, implied: float) -> bool:
    return abs(stated / implied - 1) <= attained.TOLERANCE


def _consistent(run: _Run, bytes_per_s: float, implied: float) -> Check:
    """FLOP/s against B/s: a kernel's description has said the wrong number of bytes before (likwid issue 195)."""
    name = f"{run.test}: FLOP/s against B/s"
    if _close(bytes_per_s, implied) or run.stream is None:
        return Check(name=name, ok=True, message=f"{si(bytes_per_s, 'B/s')}, as its FLOP/s imply")
    word = 4 if run.single else 8
    right = (run.stream.read + run.stream.written) * word
    message = (
        f"{run.test} printed {si(bytes_per_s, 'B/s', 6)}, which is {right * bytes_per_s / implied:.3g} bytes an "
        f"element; {run.base} moves {right} for {run.stream.flop:g} FLOP, so its FLOP/s mean "
        f"{si(implied, 'B/s', 6)}: this is taken"
    )
    return Check(name=name, ok=False, message=message)


def _against_time(run: _Run) -> list[Check]:
    """Each rate against its count over the time."""
    checks = []
    time_s = run.number("time_s")
    for rate, count, unit in (("mbytes", "volume_bytes", "B/s"), ("mflops", "flop", "FLOP/s")):
        stated, counted = run.number(rate), run.number(count)
        if stated is None or counted is None or time_s is None:
            continue
        expected = counted / time_s
        sentence = f"{run.test} {si(stated * 1e6, unit)} beside {si(expected, unit)} of its count over its time"
        checks.append(attained.agree(f"{run.test}: {unit} against its time", stated * 1e6, expected, sentence))
    return checks
