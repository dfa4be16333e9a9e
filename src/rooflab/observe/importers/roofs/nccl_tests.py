"""nccl-tests and rccl-tests: the printed table of a collective; bus bandwidth becomes a link and a curve."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from rooflab.observe.importers.roofs import attained
from rooflab.types.machine import Check, Curve, Link, Machine, Part, Source
from rooflab.units import iec, si

SOURCE = "nccl-tests"

_HEADER = re.compile(r"^\s*#\s+size\s+count\s+type\b.*\balgbw\s+busbw\b")
_START = re.compile(r"(?:Collective test (?:starting|concluded):\s*|\./(?:build/)?|/)([a-z_]+)_perf\b")
_RANK = re.compile(r"^\s*#\s+Rank\s+(\d+)\s.*?device\s+\d+\s+\[[^\]]*\]\s+(.+?)\s*$")
_BOUNDS = re.compile(r"^\s*#\s*Out of bounds values\s*:\s*(\d+)\s*(\w*)")
# Bus bandwidth over algorithm bandwidth of n ranks, as the tool's own documentation derives it.
_FACTORS = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "alltoall": lambda n: (n - 1) / n,
    "gather": lambda n: (n - 1) / n,
    "scatter": lambda n: (n - 1) / n,
    "broadcast": lambda n: 1.0,
    "reduce": lambda n: 1.0,
    "sendrecv": lambda n: 1.0,
}


class _Side(NamedTuple):
    """Out of place or in place: seconds, bytes a second, and elements that were wrong."""

    time_s: float
    algorithm: float
    bus: float
    wrong: float


class _Row(NamedTuple):
    """One size."""

    size_bytes: float
    out_of_place: _Side | None
    in_place: _Side | None


class _Test:
    """One run of a collective: its ranks and rows."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.columns: list[str] = []
        self.rows: list[_Row] = []
        self.out_of_bounds = 0.0


class _File:
    """All runs of a file, and the devices of each rank."""

    def __init__(self) -> None:
        self.tests: list[_Test] = []
        self.devices: dict[int, str] = {}
        self.dropped = 0
        self.amd = False


def sniff(head: bytes) -> bool:
    """Whether `head`, the first of a file, is of nccl-tests: the header of its table."""
    text = head.decode("latin-1")
    if text.lstrip().startswith("{"):
        return False
    return any(_HEADER.match(attained.unmarked(line)) for line in text.splitlines())


def load(path: Path) -> Machine:
    """The bandwidth that collectives attained, from the file at `path`.

    Raises:
        FileError: no row with a bandwidth.
    """
    read = _read(attained.lines_of(path))
    tests = [test for test in read.tests if any(_bus(row) for row in test.rows)]
    if not tests:
        raise attained.nothing(path, SOURCE, "no row with a bus bandwidth", "rows of size, time, algbw and busbw")
    origin = attained.source(SOURCE, path)
    ranks = len(read.devices)
    links: dict[str, Link] = {}
    curves: dict[str, Curve] = {}
    checks: list[Check] = []
    for test in tests:
        link = _link(test, ranks, origin)
        if link.name not in links or (link.each_way_bytes_per_s or 0) > (
            links[link.name].each_way_bytes_per_s or 0
        ):
            links[link.name] = link
            curves[link.name] = _curve(test, origin)
        checks += _checks(test, ranks)
    names = list(dict.fromkeys(read.devices.values()))
    title = f"{ranks} × {' and '.join(names[:3])}" if ranks else path.stem
    return Machine(
        name=f"{title} (nccl-tests)",
        kind="system",
        source=origin,
        compute_unit="GPU" if ranks else None,
        compute_units=ranks or None,
        parts=tuple(
            Part(name=name, count=list(read.devices.values()).count(name), source=origin) for name in names
        ),
        links=tuple(links.values()),
        curves=tuple(curves.values()),
        checks=tuple(dict.fromkeys(checks)),
        note=attained.note(
            "Attained, the mean of each size's iterations. A link's rate is the bus bandwidth: what each rank "
            "sends one way, as nccl-tests derives it from size over time and the number of ranks; GB is 1e9. "
            "It is the hardware's only where the collective moves what the formula says, not with in-network "
            "reduction.",
            attained.dropped_sentence(read.dropped),
        ),
    )


def _read(lines: list[str]) -> _File:
    read = _File()
    name = "collective"
    for line in lines:
        if found := _START.search(line):
            name = found[1]
            if "concluded" in line and read.tests and read.tests[-1].name == "collective":
                read.tests[-1].name = name
        if _HEADER.match(line):
            read.tests.append(_Test(name))
            read.tests[-1].columns = line.lstrip("# ").split()
        elif found := _RANK.match(line):
            read.devices.setdefault(int(found[1][:6]), found[2])
        elif found := _BOUNDS.match(line):
            if read.tests:
                read.tests[-1].out_of_bounds = float(found[1][:12])
        elif read.tests and line.strip() and line.split()[0].isdigit():
            row = _row(line.split(), read.tests[-1].columns)
            if row is None:
                read.dropped += 1
            else:
                read.tests[-1].rows.append(row)
    return read


def _row(cells: list[str], columns: list[str]) -> _Row | None:
    """The sides of a line; a lost cell loses it, since the columns are told by their number."""
    if len(cells) < len(columns):
        return None
    size = attained.positive(cells[0])
    starts = [at for at, name in enumerate(columns) if name in ("time", "cputime")]
    if size is None or not starts:
        return None
    sides = [_side(cells[at : at + 4]) for at in starts[:2]]
    if not any(sides):
        return None
    return _Row(size, sides[0], sides[1] if len(sides) > 1 else None)


def _side(cells: list[str]) -> _Side | None:
    """Time (µs), algbw, busbw (GB/s) and #wrong; None where one is no number. Small sizes print 0.00 GB/s."""
    time_s = attained.positive(cells[0], 1e-6)
    if time_s is None or len(cells) < 3:
        return None
    algorithm, bus = attained.positive(cells[1], 1e9), attained.positive(cells[2], 1e9)
    if (algorithm is None and cells[1] != "0.00") or (bus is None and cells[2] != "0.00"):
        return None
    wrong = attained.positive(cells[3]) if len(cells) > 3 else None
    return _Side(time_s, algorithm or 0.0, bus or 0.0, wrong or 0.0)


def _bus(row: _Row) -> float:
    """The faster side's bus bandwidth."""
    return max((side.bus for side in (row.out_of_place, row.in_place) if side), default=0.0)


def _link(test: _Test, ranks: int, origin: Source) -> Link:
    best = max(test.rows, key=_bus)
    side = "out of place" if best.out_of_place and best.out_of_place.bus == _bus(best) else "in place"
    smallest = min(test.rows, key=lambda row: row.size_bytes)
    least_s = min(one.time_s for one in (smallest.out_of_place, smallest.in_place) if one)
    return Link(
        name=test.name,
        to=f"{ranks - 1} other ranks" if ranks > 1 else "the other ranks",
        source=origin,
        each_way_bytes_per_s=_bus(best),
        note=(
            f"bus bandwidth at {iec(best.size_bytes)}, {side}; {iec(smallest.size_bytes)} took {si(least_s, 's')}"
        ),
    )


def _curve(test: _Test, origin: Source) -> Curve:
    """Bus bandwidth over size, the faster side; one mean a size, so best and median are the same."""
    by_size: dict[float, float] = {}
    for row in test.rows:
        if _bus(row):
            by_size[row.size_bytes] = max(by_size.get(row.size_bytes, 0.0), _bus(row))
    x = tuple(sorted(by_size))
    y = tuple(by_size[size] for size in x)
    return Curve(
        name=f"{test.name} bus bandwidth",
        x_unit="byte",
        y_unit="byte/s",
        scope="all",
        x=x,
        best=y,
        median=y,
        source=origin,
    )


def _checks(test: _Test, ranks: int) -> list[Check]:
    checks = []
    wrong = sum(side.wrong for row in test.rows for side in (row.out_of_place, row.in_place) if side)
    if wrong or test.out_of_bounds:
        message = (
            f"{test.name}: {max(wrong, test.out_of_bounds):.0f} results were wrong: what was timed is not the "
            "collective; do not use its rates"
        )
        checks.append(Check(name=f"{test.name}: results", ok=False, message=message))
    best = max(test.rows, key=_bus)
    for side in (best.out_of_place, best.in_place):
        if side is None or side.bus != _bus(best) or not side.algorithm:
            continue
        sizes = best.size_bytes / side.time_s
        sentence = (
            f"{test.name}: algbw {si(side.algorithm, 'B/s')} beside {si(sizes, 'B/s')} of its size over its time"
        )
        checks.append(attained.agree(f"{test.name}: algbw against its time", side.algorithm, sizes, sentence))
        if ranks > 1 and test.name in _FACTORS:
            factor = _FACTORS[test.name](ranks)
            expected = factor * side.algorithm
            sentence = (
                f"{test.name}: busbw {si(side.bus, 'B/s')} beside {factor:.4g} × algbw = {si(expected, 'B/s')} of "
                f"{ranks} ranks"
            )
            checks.append(attained.agree(f"{test.name}: busbw against algbw", side.bus, expected, sentence))
    return checks
