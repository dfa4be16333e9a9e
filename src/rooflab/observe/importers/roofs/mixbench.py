"""mixbench: kernels of rising intensity on a GPU or CPU; its table becomes bandwidth, peaks and points."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from rooflab.observe.importers.roofs import attained
from rooflab.types.machine import Check, Kind, Level, Machine, Point, Rate, Source
from rooflab.units import si

SOURCE = "mixbench"

_MARK = re.compile(r"-{5,} CSV data -{5,}")
# Versions before 2017 have no column of iterations.
_GROUPS = re.compile(r"^\s*(Experiment ID,|Single Precision ops,)", re.IGNORECASE)
_GROUP = re.compile(r"(packed )?(single|double|half|integer)\b", re.IGNORECASE)
_DTYPES = {"single": "fp32", "double": "fp64", "half": "fp16", "integer": "int32"}
_DEVICE = re.compile(r"^\s*Device:\s+(.+?)\s*$")
_THEORY_BYTES = re.compile(r"^\s*Memory bandwidth:\s+(\S+) GB/sec")
_THEORY_FLOP = re.compile(r"^\s*Compute throughput:\s+(\S+) GFlops \(theoretical single precision")
_THREADS = re.compile(r"^\s*Total threads:\s+(\d+)")
_BUFFER = re.compile(r"^\s*Buffer size:\s+(\d+) ?MB")
_UNITS = re.compile(r"^\s*Total SPs:.*\((\d+) MPs")
_VECTOR = re.compile(r"^\s*VEC_WIDTH:\s+(\d+)")


class _Row(NamedTuple):
    """One kernel in one number format ("packed fp32" is a group of its own), in base units; None is not known."""

    iterations: str
    group: str
    dtype: str
    time_s: float | None
    op_per_s: float | None
    bytes_per_s: float | None


class _Facts:
    """What is said above the table."""

    def __init__(self) -> None:
        self.device: str | None = None
        self.bytes_per_s: float | None = None
        self.flop_per_s: float | None = None
        self.threads: int | None = None
        self.buffer_bytes: float | None = None
        self.units: int | None = None
        self.cpu = False


def sniff(head: bytes) -> bool:
    """Whether `head`, the first of a file, is of mixbench: the mark above its table and the table's header."""
    text = head.decode("latin-1")
    found = _MARK.search(text)
    return (
        found is not None
        and re.search(r"(?:single|double) precision ops\s*,,,", text[found.end() :][:400], re.I) is not None
    )


def load(path: Path) -> Machine:
    """What the device attained, and each kernel as a point, from the file at `path`.

    Raises:
        FileError: no row with a number.
    """
    facts, rows, dropped = _Facts(), list[_Row](), 0
    groups: list[str] = []
    numbered = True
    for line in attained.lines_of(path):
        if _GROUPS.match(line):
            numbered = line.lstrip().lower().startswith("experiment id")
            groups = [_group(cell) for cell in line.split(",")[int(numbered) :] if cell.strip()]
        elif not groups:
            _take_fact(line, facts)
        elif re.match(r"\s*[\d.inf]+\s*,", line):
            found = _rows(line, groups, numbered)
            rows += found
            dropped += not found
    usable = [row for row in rows if row.op_per_s or row.bytes_per_s]
    if not usable:
        raise attained.nothing(path, SOURCE, "no row with a number beneath 'CSV data'", "rows of its table")
    return _machine(path, facts, usable, dropped)


def _group(cell: str) -> str:
    """The number format of a group of columns; "" for one that is not known, whose cells are passed over."""
    found = _GROUP.match(cell.strip())
    return (found[1] or "").lower() + _DTYPES[found[2].lower()] if found else ""


def _rows(line: str, groups: list[str], numbered: bool) -> list[_Row]:
    """The kernels of one line, four cells for each number format; none where cells are lost."""
    cells = [cell.strip() for cell in line.split(",")]
    if not numbered:
        cells.insert(0, "")
    if len(cells) != 1 + 4 * len(groups):
        return []
    found = []
    for number, group in enumerate(groups):
        if not group:
            continue
        _, time, ops, nbytes = cells[1 + 4 * number : 5 + 4 * number]
        found.append(
            _Row(
                cells[0],
                group,
                group.split()[-1],
                attained.positive(time, 1e-3),
                attained.positive(ops, 1e9),
                attained.positive(nbytes, 1e9),
            )
        )
    return found


def _take_fact(line: str, facts: _Facts) -> None:
    if found := _DEVICE.match(line):
        facts.device = found[1]
    elif found := _THEORY_BYTES.match(line):
        facts.bytes_per_s = attained.positive(found[1], 1e9)
    elif found := _THEORY_FLOP.match(line):
        facts.flop_per_s = attained.positive(found[1], 1e9)
    elif found := _THREADS.match(line):
        facts.threads = int(found[1][:6])
    elif found := _BUFFER.match(line):
        facts.buffer_bytes = attained.positive(found[1], 2.0**20)
    elif found := _UNITS.match(line):
        facts.units = int(found[1][:6]) or None
    elif found := _VECTOR.match(line):
        facts.buffer_bytes = attained.positive(found[1], 8.0)
    if line.startswith("mixbench-cpu"):
        facts.cpu = True


def _machine(path: Path, facts: _Facts, rows: list[_Row], dropped: int) -> Machine:
    origin = attained.source(SOURCE, path)
    known = attained.known_device(facts.device)
    where = attained.place(facts.buffer_bytes, known)
    theory = facts.bytes_per_s
    rates, checks = _bandwidth(rows, where.level, theory, origin)
    checks += [where.check] if where.check else []
    peaks = [*_peaks(rows, origin)]
    levels = attained.levels(rates, known, origin)
    if theory is not None and _believable([row.bytes_per_s for row in rows if row.bytes_per_s], theory):
        levels = _with_theory(levels, where.level, theory, origin)
    if facts.flop_per_s is not None:
        peaks.append(
            Rate(
                value=facts.flop_per_s,
                per_s="flop",
                what="fma",
                basis="theoretical",
                dtype="fp32",
                engine="vector",
                source=origin,
                note="as mixbench computes it from the driver's clock, which may be the base clock (its issue 14)",
            )
        )
    kind: Kind = known.kind if known else ("cpu" if facts.cpu or not facts.device else "gpu")
    return Machine(
        name=f"{facts.device} (mixbench)" if facts.device else f"{path.stem} (mixbench)",
        kind=kind,
        vendor=None if known is None else known.vendor,
        source=origin,
        compute_unit="SM" if facts.units else None,
        compute_units=facts.units,
        levels=levels,
        peaks=tuple(peaks),
        points=tuple(_points(rows, where.level, origin, facts.threads)),
        checks=tuple(checks),
        note=attained.note(
            "Attained, as mixbench printed it; GB is 1e9 bytes; bytes are those that each kernel reads.",
            attained.dropped_sentence(dropped),
        ),
    )


def _bandwidth(
    rows: list[_Row], level: str, theory: float | None, origin: Source
) -> tuple[list[tuple[str, Rate]], list[Check]]:
    """The fastest that is no faster than theory, where the file states that: what is above came from a cache.

    Where most of what streams is above it, the stated theory is too low: drivers told half the memory's clock (a
    Radeon RX 460 of 112 GB/s is printed as 56.00 GB/sec and attains 100.84, in mixbench's own results).
    """
    streamed = [row.bytes_per_s for row in rows if row.bytes_per_s is not None]
    if theory is not None and not _believable(streamed, theory):
        message = (
            f"most kernels that stream read more than the {si(theory, 'B/s')} that the file states for the "
            f"device, up to {si(max(streamed), 'B/s')}: that theory, of the driver's memory clock, is too low, or "
            "a cache served them; what was attained is taken"
        )
        check = Check(name="bandwidth against theory", ok=False, message=message)
        return [(level, attained.byte_rate("read", max(streamed), origin))], [check]
    limit = float("inf") if theory is None else theory * (1 + attained.TOLERANCE)
    believed, above = [one for one in streamed if one <= limit], [one for one in streamed if one > limit]
    checks = []
    if above and theory is not None:
        message = (
            f"{len(above)} of {len(streamed)} kernels read up to {si(max(above), 'B/s')}, more than the "
            f"{si(theory, 'B/s')} that the file itself states for the device: they were served by a cache in "
            "part, and are not taken for the bandwidth"
        )
        checks.append(Check(name="bandwidth against theory", ok=False, message=message))
    if not believed:
        return [], checks
    return [(level, attained.byte_rate("read", max(believed), origin))], checks


def _believable(streamed: list[float], theory: float) -> bool:
    """Whether `theory` bounds at least half of the kernels that stream: those that reach half of it."""
    near = [one for one in streamed if one >= theory / 2]
    return 2 * sum(one > theory * (1 + attained.TOLERANCE) for one in near) <= len(near)


def _peaks(rows: list[_Row], origin: Source) -> list[Rate]:
    """The fastest of each number format."""
    fastest: dict[str, float] = {}
    for row in rows:
        if row.op_per_s is not None:
            fastest[row.dtype] = max(fastest.get(row.dtype, 0.0), row.op_per_s)
    return [
        attained.flop_rate("fma", value, dtype, origin, engine="vector")
        for dtype, value in sorted(fastest.items())
    ]


def _with_theory(levels: tuple[Level, ...], name: str, theory: float, origin: Source) -> tuple[Level, ...]:
    """`levels` with the bandwidth that the file states for the device beside what was attained."""
    import msgspec

    rate = Rate(value=theory, per_s="byte", what="any", basis="theoretical", source=origin)
    return tuple(
        msgspec.structs.replace(level, rates=(*level.rates, rate)) if level.name == name else level
        for level in levels
    )


def _points(rows: list[_Row], level: str, origin: Source, threads: int | None) -> list[Point]:
    """The kernels that move bytes and compute in floating point."""
    return [
        Point(
            name=f"{row.group}, {row.iterations} iterations" if row.iterations else f"{row.group} kernel",
            flop=row.op_per_s * row.time_s,
            bytes=row.bytes_per_s * row.time_s,
            time_s=row.time_s,
            source=origin,
            level=level,
            dtype=row.dtype,
            threads=threads,
        )
        for row in rows
        if row.time_s and row.op_per_s and row.bytes_per_s and not row.dtype.startswith("int")
    ]
