"""What binds each operation by the classic roofline: arithmetic at its peak, or bytes through main memory.

Williams, Waterman, Patterson, CACM 52(4), 2009: the time is no less than FLOP / peak and no less than
bytes / bandwidth. Theoretical rates are used where the machine states them, else attained ones; no overhead
and no cache: those come with a prediction, of which this is the floor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from rooflab.model.roofline.roofline import BALANCED
from rooflab.types.machine import Engine, Machine, Rate, is_main_memory
from rooflab.types.report import Bound, Report, Row
from rooflab.types.work import Flop
from rooflab.units import si

# Where frameworks compute element-wise work of a format that vector units lack: PyTorch's `opmath`,
# aten/src/ATen/OpMathType.h, is fp32 for fp16, bf16 and fp8.
_OPMATH = {"fp16": "fp32", "bf16": "fp32", "fp8": "fp32"}
NEGLIGIBLE_SHARE = 0.1  # work without a known peak is left out of a row's bound up to this share of the row's FLOP


class Term(NamedTuple):
    """Seconds that one part of the machine needs at its peak; `name` is what `Row.binds` says."""

    name: str
    seconds: float


class ReportRoofs(NamedTuple):
    """The roofs behind a report's bounds: main memory, and each unit that its work runs on, with its peak."""

    memory: str
    bandwidth: Rate
    peaks: tuple[tuple[str, Rate], ...]


class RowBound(NamedTuple):
    """The classic roofline's answer for one row: `ridge` as in `Row`, `reason` where `bound` is None."""

    bound: Bound | None
    binds: str | None
    ridge: float | None
    reason: str | None


def bound_on(report: Report, machine: Machine) -> Report:
    """`report` with each row's bound on `machine`, and the rates that were used among its conventions."""
    rows = tuple(
        msgspec.structs.replace(row, bound=one.bound, binds=one.binds, ridge=one.ridge, unbound=one.reason)
        for row, one in zip(report.rows, bounds_of(report.rows, machine), strict=True)
    )
    kept = tuple(line for line in report.conventions if not line.startswith(RATES))
    return msgspec.structs.replace(
        report, rows=rows, machine=machine, conventions=(*kept, rates_note(report, machine))
    )


def bounds_of(rows: Sequence[Row], machine: Machine) -> list[RowBound]:
    """`row_bound` of each of `rows`."""
    by_cost: dict[int, RowBound] = {}
    bounds, memory, peaks = [], memory_bandwidth(machine), Peaks(machine)
    for row in rows:
        # Rows of a repeated block share one cost.
        bound = by_cost.get(id(row.cost))
        if bound is None:
            bound = _bound(row, machine, memory, peaks)
            if row.cost is not None:
                by_cost[id(row.cost)] = bound
        bounds.append(bound)
    return bounds


RATES = "roofs of the bounds: "


def rates_note(report: Report, machine: Machine) -> str:
    """The rates behind the bounds, and where one stands in for another, in one sentence."""
    memory = memory_bandwidth(machine)
    parts = [f"memory {si(memory[1].value, 'B/s')} {memory[1].basis}" if memory else "no memory bandwidth known"]
    for one in report.flop_by:
        rate, name = peak_of(machine, one.engine, one.dtype)
        asked = f"{one.dtype} {one.engine}"
        if rate is None:
            parts.append(f"no {asked} peak known (left out of a row where it is under a tenth of its FLOP)")
            continue
        stands_in = "" if name == asked else f" ({name})"
        parts.append(f"{asked} {si(rate.value, 'FLOP/s' if rate.per_s == 'flop' else 'OP/s')}{stands_in}")
    return f"{RATES}{machine.name}, {', '.join(parts)}"


def report_roofs(report: Report, machine: Machine) -> ReportRoofs | None:
    """The roofs that the rows of `report` meet on `machine`; None where its memory bandwidth is unknown."""
    memory = memory_bandwidth(machine)
    if memory is None:
        return None
    peaks = {}
    for one in report.flop_by:
        rate, name = peak_of(machine, one.engine, one.dtype)
        if rate is not None:
            peaks.setdefault(name, rate)
    return ReportRoofs(*memory, tuple(sorted(peaks.items(), key=lambda item: item[1].value)))


def row_bound(row: Row, machine: Machine) -> RowBound:
    """What binds `row` on `machine`; with a reason instead where a rate that it needs is not known."""
    return _bound(row, machine, memory_bandwidth(machine), Peaks(machine))


def _bound(row: Row, machine: Machine, memory: tuple[str, Rate] | None, peaks: Peaks) -> RowBound:
    if row.cost is None:
        return RowBound(None, None, None, f"no formula for {row.op.name}")
    nbytes = row.cost.compulsory.nbytes
    if memory is None:
        return RowBound(None, None, None, f"{machine.name} states no memory bandwidth")
    level, rate = memory
    moved = Term(level, nbytes / rate.value)
    terms, missing = compute_terms(row.cost.flop, peaks)
    if sum(one.count for one in missing) > NEGLIGIBLE_SHARE * row.cost.total_flop:
        names = dict.fromkeys(f"{one.dtype} {one.engine}" for one in missing)
        return RowBound(None, None, None, f"{machine.name} states no {' and no '.join(names)} peak")
    if not terms:
        return (
            RowBound("memory-bound", level, None, None) if nbytes else RowBound(None, None, None, "moves no bytes")
        )
    slowest = max(terms, key=lambda term: term.seconds)
    ridge = row.cost.total_flop / slowest.seconds / rate.value
    return RowBound(*_compare(slowest, moved), ridge, None)


class Peaks(dict[tuple[Engine, str], tuple[Rate | None, str]]):
    """`peak_of` a machine by engine and number format, each looked for once."""

    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self._machine = machine

    def __missing__(self, asked: tuple[Engine, str]) -> tuple[Rate | None, str]:
        found = self[asked] = peak_of(self._machine, *asked)
        return found


def compute_terms(flop: tuple[Flop, ...], machine: Machine | Peaks) -> tuple[list[Term], list[Flop]]:
    """Seconds per engine and number format for `flop`, and the work for which no peak is known.

    Engines work side by side; several kinds of work that fall back to one engine add up.
    """
    seconds: dict[str, float] = {}
    missing = []
    peaks = machine if isinstance(machine, Peaks) else Peaks(machine)
    for one in flop:
        rate, name = peaks[one.engine, one.dtype]
        if rate is None:
            missing.append(one)
        elif one.count:
            seconds[name] = seconds.get(name, 0.0) + one.count / rate.value
    return [Term(*item) for item in seconds.items()], missing


def _compare(compute: Term, memory: Term) -> tuple[Bound, str]:
    slow, fast = (compute, memory) if compute.seconds >= memory.seconds else (memory, compute)
    if fast.seconds >= BALANCED * slow.seconds:
        return "balanced", slow.name
    return ("compute-bound" if slow is compute else "memory-bound"), slow.name


def peak_of(machine: Machine, engine: Engine, dtype: str) -> tuple[Rate | None, str]:
    """The peak for work of `engine` in `dtype`, and the name of the unit that it is of.

    A machine without that engine computes on its vector unit in the same format; element-wise work in a
    narrow format that has no vector peak is computed in fp32. Never another format's matrix peak.
    """
    for unit, form in _stand_ins(engine, dtype):
        rate = machine.peak(form, engine=unit, basis="theoretical") or machine.peak(form, engine=unit)
        # A dot-product instruction multiplies and sums vectors; it adds or compares no elements.
        if rate is not None and (engine == "matrix" or rate.what != "dot"):
            return rate, f"{form} {unit}"
    return None, f"{dtype} {engine}"


def _stand_ins(engine: Engine, dtype: str) -> list[tuple[Engine, str]]:
    wanted: list[tuple[Engine, str]] = [(engine, dtype)]
    if dtype == "tf32":  # a setting of fp32 work, not a format of its own: without such a unit it is plain fp32
        return [(engine, dtype), ("vector", "fp32")]
    if engine != "vector":
        wanted.append(("vector", dtype))
    if engine != "matrix" and dtype in _OPMATH:
        wanted.append(("vector", _OPMATH[dtype]))
    return wanted


def memory_bandwidth(machine: Machine) -> tuple[str, Rate] | None:
    """The main memory and its bandwidth: theoretical where stated, else attained."""
    for level in machine.levels:
        if is_main_memory(level):
            rate = level.rate(basis="theoretical") or level.rate()
            return (level.name, rate) if rate is not None else None
    return None
