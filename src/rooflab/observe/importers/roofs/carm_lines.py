"""carm-roofline's JSON lines: an object for each benchmark, of arithmetic or of a memory level."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from rooflab.observe.importers.roofs import attained
from rooflab.observe.importers.roofs.carm import DTYPES, Run, levels_of, scopes
from rooflab.types.machine import Machine, Rate, Source

SOURCE = "carm-roofline"

_MARKS = (b'"performance_gops"', b'"bandwidth_gbps"')
_ALWAYS = (b'"isa"', b'"num_threads"', b'"data_type"')


def sniff(head: bytes) -> bool:
    """Whether `head`, the first of a file, is of carm-roofline: its first line is an object with its keys."""
    first = head.lstrip().partition(b"\n")[0]
    return (
        first.startswith(b"{") and all(key in first for key in _ALWAYS) and any(mark in first for mark in _MARKS)
    )


def load(path: Path) -> Machine:
    """The roofs in the file at `path`.

    Raises:
        FileError: no line with a rate.
    """
    origin = attained.source(SOURCE, path)
    memory: list[Run] = []
    arithmetic: list[tuple[Run, float]] = []
    names: dict[str, None] = {}
    dropped = 0
    for line in attained.lines_of(path):
        if not line.strip():
            continue
        found = _object(line)
        run = None if found is None else _run(found)
        if found is None or run is None:
            dropped += 1
            continue
        if isinstance(found.get("machine"), str):
            names.setdefault(found["machine"][:100])
        value = attained.positive(found.get("performance_gops"), 1e9)
        if run.values:
            memory.append(run)
        elif value is not None:
            arithmetic.append((run, value))
    if not memory and not arithmetic:
        raise attained.nothing(
            path, SOURCE, "no line with bandwidth_gbps or performance_gops", "its benchmarks.jsonl"
        )
    return Machine(
        name=f"{', '.join(names) or path.stem} (carm-roofline)",
        kind="cpu",
        source=origin,
        levels=levels_of(memory, {}, origin),
        peaks=tuple(_peaks(arithmetic, origin)),
        note=attained.note(
            "Attained, as carm-roofline printed it; gbps are GB/s of 1e9 bytes, of the loads and stores that "
            "instructions name.",
            attained.dropped_sentence(dropped),
        ),
    )


def _object(line: str) -> dict[str, Any] | None:
    try:
        found = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _run(found: dict[str, Any]) -> Run | None:
    """What one object says; None where it has no rate."""
    level = found.get("memory_level_name") or found.get("cache_level")
    bandwidth = attained.positive(found.get("bandwidth_gbps"), 1e9)
    speed = attained.positive(found.get("performance_gops"), 1e9)
    if (bandwidth is None or not isinstance(level, str)) and speed is None:
        return None
    threads = attained.positive(found.get("num_threads"))
    return Run(
        isa=str(found.get("isa", ""))[:40],
        dtype=DTYPES.get(str(found.get("data_type", ""))),
        threads=None if threads is None else int(threads),
        loads=_count(found.get("num_loads")),
        stores=_count(found.get("num_stores")),
        instruction=str(found.get("operation", ""))[:20],
        values={level: bandwidth} if bandwidth is not None and isinstance(level, str) else {},
    )


def _count(value: Any) -> float | None:
    return 0.0 if value == 0 and not isinstance(value, bool) else attained.positive(value)


def _peaks(found: list[tuple[Run, float]], origin: Source) -> list[Rate]:
    _, named = scopes([run for run, _ in found])
    fastest: dict[tuple[str, ...], Rate] = {}
    for run, value in found:
        scope = named.get(run.threads)
        if run.dtype is None or scope is None:
            continue
        engine = "scalar" if "scalar" in run.isa else "vector"
        key = run.instruction, run.dtype, engine, scope
        if key not in fastest or value > fastest[key].value:
            more = {"engine": engine, "scope": scope, "threads": run.threads, "note": run.isa or None}
            fastest[key] = attained.flop_rate(run.instruction or "fma", value, run.dtype, origin, **more)
    return list(fastest.values())
