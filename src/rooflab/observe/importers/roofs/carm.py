"""carm-roofline's CSV: two rows of headers, a row for each run; roofs of every level, or a curve over sizes."""

from __future__ import annotations

import csv
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import NamedTuple

from rooflab.observe.importers.roofs import attained
from rooflab.types.machine import Curve, Level, Machine, Rate, Source

SOURCE = "carm-roofline"

DTYPES = {
    "dp": "fp64",
    "sp": "fp32",
    "f64": "fp64",
    "f32": "fp32",
    "bf16": "bf16",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
}
_FIXED = ("Date", "ISA", "Precision", "Threads", "Loads", "Stores")
_LEVELS = ("L1", "L2", "L3", "DRAM")
_SCALAR = ("scalar", "armscalar", "riscvscalar")


class Run(NamedTuple):
    """One row: what was run, and what it attained by column group ("L1", "FP FMA", or a size in KiB)."""

    isa: str
    dtype: str | None
    threads: int | None
    loads: float | None
    stores: float | None
    instruction: str
    values: dict[str, float]


class _Table(NamedTuple):
    """A file's identity, capacities in KiB, rows, and how many could not be used."""

    name: str
    sizes_kib: dict[str, float]
    runs: list[Run]
    dropped: int
    is_curve: bool


def sniff(head: bytes) -> bool:
    """Whether `head`, the first of a file, is of carm-roofline: its two rows of headers."""
    lines = head.decode("latin-1").splitlines()[:6]
    first = next((at for at, line in enumerate(lines) if line.lstrip("\xef\xbb\xbf").startswith("Name:,")), None)
    return first is not None and len(lines) > first + 1 and lines[first + 1].startswith("Date,ISA,Precision,")


def load(path: Path) -> Machine:
    """The roofs, or the curves over sizes, in the file at `path`.

    Raises:
        FileError: no row with a number.
    """
    table = _read(attained.lines_of(path))
    if not any(run.values for run in table.runs):
        raise attained.nothing(path, SOURCE, "no row with a number above nothing", "rows beneath its two headers")
    origin = attained.source(SOURCE, path)
    if table.is_curve:
        return _with_curves(path, table, origin)
    return Machine(
        name=f"{table.name or path.stem} (carm-roofline)",
        kind="cpu",
        source=origin,
        levels=levels_of(table.runs, table.sizes_kib, origin),
        peaks=tuple(_peaks(table.runs, origin)),
        note=attained.note(
            "Attained, as carm-roofline printed it; GB is 1e9 bytes, of the loads and stores that instructions "
            "name. A 0 is a level or an instruction that was not run.",
            attained.dropped_sentence(table.dropped),
        ),
    )


def _read(lines: list[str]) -> _Table:
    groups: list[str] = []
    header: list[str] = []
    name, sizes = "", dict[str, float]()
    runs: list[Run] = []
    dropped = 0
    for cells in csv.reader([line.lstrip("\ufeff") for line in lines if line.count('"') % 2 == 0]):
        if cells[:1] == ["Name:"]:
            groups, name = [cell.strip() for cell in cells], cells[1].strip()[:100] if len(cells) > 1 else ""
            sizes = _sizes(groups)
        elif cells[:3] == ["Date", "ISA", "Precision"]:
            header = [cell.strip() for cell in cells]
        elif header and any(cells):
            run = _run(cells, header, groups)
            if run is None:
                dropped += 1
            else:
                runs.append(run)
    return _Table(name, sizes, runs, dropped, "Gbps" in header)


def _sizes(groups: list[str]) -> dict[str, float]:
    """KiB of each cache from "L1 Size:", 32; 0 where it has none."""
    found = {}
    for label, value in pairwise(groups):
        if label.endswith(" Size:") and (kib := attained.positive(value)) is not None:
            found[label.removesuffix(" Size:")] = kib
    return found


def _run(cells: list[str], header: list[str], groups: list[str]) -> Run | None:
    """A row; the columns that are named alike are told by the row of groups above them."""
    if len(cells) != len(header):
        return None
    fixed = {name: cells[header.index(name)].strip() for name in _FIXED if name in header}
    values: dict[str, float] = {}
    unreadable = 0
    for at, (unit, cell) in enumerate(zip(header, cells, strict=True)):
        if unit not in ("GB/s", "Gflop/s", "Gbps"):
            continue
        group = groups[at] if at < len(groups) else ""
        value = attained.positive(cell, 1e9)
        if value is not None:
            values.setdefault(group.replace("_", " "), value)
        elif attained.positive(cell) is None and cell.strip() not in ("0", "0.0", "0.000", ""):
            unreadable += 1
    if unreadable and not values:
        return None
    threads = attained.positive(fixed.get("Threads"))
    instruction = cells[header.index("FP Inst.")].strip() if "FP Inst." in header else ""
    return Run(
        isa=fixed.get("ISA", "")[:40],
        dtype=DTYPES.get(fixed.get("Precision", "")),
        threads=None if threads is None else int(threads),
        loads=_count(fixed.get("Loads")),
        stores=_count(fixed.get("Stores")),
        instruction=instruction[:20],
        values=values,
    )


def _count(text: str | None) -> float | None:
    return 0.0 if text == "0" else attained.positive(text)


def stream_of(loads: float | None, stores: float | None) -> str:
    """What a mix of loads and stores is called here."""
    if loads and not stores:
        return "read"
    if stores and not loads:
        return "write"
    if loads and loads == stores:
        return "copy"
    return "triad" if loads and stores and loads == 2 * stores else "any"


def scopes(runs: list[Run]) -> tuple[int | None, dict[int | None, str]]:
    """The most threads, and whose rate a rate of a number of threads is; other numbers have none."""
    several = {run.threads for run in runs if run.threads}
    most = max(several, default=None)
    named: dict[int | None, str] = {most: "all", None: "all"}
    if most is not None and most > 1:
        named[1] = "core"
    return most, named


def levels_of(runs: list[Run], sizes_kib: dict[str, float], origin: Source) -> tuple[Level, ...]:
    """A level for each that was run, the fastest of each stream and number of threads."""
    _, named = scopes(runs)
    found: list[Level] = []
    for name in _LEVELS:
        fastest: dict[tuple[str, str], Rate] = {}
        for run in runs:
            value, scope = run.values.get(name), named.get(run.threads)
            if value is None or scope is None:
                continue
            key = stream_of(run.loads, run.stores), scope
            if key not in fastest or value > fastest[key].value:
                mix = f"{run.loads:g} loads to {run.stores or 0:g} stores" if run.loads else None
                said = ", ".join(part for part in (run.isa, mix) if part)
                fastest[key] = attained.byte_rate(
                    key[0], value, origin, scope=scope, threads=run.threads, note=said or None
                )
        if fastest:
            kib = sizes_kib.get(name)
            capacity = None if kib is None else kib * 1024
            found.append(
                Level(name=name, source=origin, capacity_bytes=capacity, rates=attained.with_any(fastest.values()))
            )
    return tuple(found)


def _peaks(runs: list[Run], origin: Source) -> list[Rate]:
    """The fastest of each instruction, number format, set of instructions and number of threads."""
    _, named = scopes(runs)
    fastest: dict[tuple[str, ...], Rate] = {}
    for run in runs:
        scope = named.get(run.threads)
        for group, instruction in (("FP", run.instruction or "add"), ("FP FMA", "fma")):
            value = run.values.get(group)
            if value is None or run.dtype is None or scope is None:
                continue
            engine = "scalar" if run.isa in _SCALAR else "vector"
            key = instruction, run.dtype, engine, scope
            if key not in fastest or value > fastest[key].value:
                fastest[key] = attained.flop_rate(
                    instruction,
                    value,
                    run.dtype,
                    origin,
                    engine=engine,
                    scope=scope,
                    threads=run.threads,
                    note=run.isa or None,
                )
    return list(fastest.values())


def _plateaus(run: Run, sizes_kib: dict[str, float]) -> dict[str, float]:
    """The median of the sizes that lie well within each cache, and of those well beyond the last."""
    points = [(size, value) for text, value in run.values.items() if (size := attained.positive(text)) is not None]
    found = {}
    near = 0.0
    for name in _LEVELS[:-1]:
        kib = sizes_kib.get(name)
        inside = [] if kib is None else [value for size, value in points if near * 1.5 <= size <= kib * 0.75]
        if inside:
            found[name] = median(inside)
        near = kib or near
    beyond = [value for size, value in points if near and size >= attained.FOUR_TIMES * near]
    return found | ({"DRAM": median(beyond)} if beyond else {})


def _with_curves(path: Path, table: _Table, origin: Source) -> Machine:
    """A machine with a curve for each row: bandwidth over size; levels are not told from it."""
    _, named = scopes(table.runs)
    curves: dict[str, Curve] = {}
    for run in table.runs:
        points = sorted(
            (size * 1024, value)
            for text, value in run.values.items()
            if (size := attained.positive(text)) is not None
        )
        if points and named.get(run.threads):
            name = f"{stream_of(run.loads, run.stores)} bandwidth, {run.isa} {run.dtype or ''}".strip()
            x, y = zip(*points, strict=True)
            curves[name] = Curve(
                name=name,
                x_unit="byte",
                y_unit="byte/s",
                scope="core" if named[run.threads] == "core" else "all",
                x=x,
                best=y,
                median=y,
                source=origin,
                threads=run.threads,
            )
    if not curves:
        raise attained.nothing(path, SOURCE, "no curve with a number", "rows beneath its two headers")
    alone = [run for run in table.runs if run.threads == 1]
    plateaus = [run._replace(values=_plateaus(run, table.sizes_kib)) for run in alone]
    levels = levels_of(plateaus, table.sizes_kib, origin)
    return Machine(
        name=f"{table.name or path.stem} (carm-roofline)",
        kind="cpu",
        source=origin,
        levels=levels,
        curves=tuple(curves.values()),
        note=attained.note(
            "Attained, as carm-roofline printed it; its header says Gbps, the numbers are GB/s of 1e9 bytes. A "
            "curve over the size of one thread's data; a level's rate is the median of the sizes that lie in it.",
            attained.dropped_sentence(table.dropped),
        ),
    )
