"""What calls of BLAS take of the core: a start each, and the longer of what they load from L1 and compute."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from rooflab.model.device.constants import load_family
from rooflab.model.loop import crossings
from rooflab.types.core_timing import CoreTiming
from rooflab.types.loop import CoreLoop, LineCounts, LoopReport
from rooflab.types.machine import Machine, Rate

# numba's own functions in front of those of BLAS and LAPACK, and those that C calls
_CALLS = ("call numba_xx", "call numba_xgesv", "call numba_ez_xx", "call cblas_", "call LAPACKE_")
_COMPUTES = ("fp ", "divide ", "sqrt ")
_BYTES = {"fp32": 4, "complex64": 8, "complex128": 16}  # of an element, else 8


def with_calls(report: LoopReport, machine: Machine, timing: CoreTiming) -> CoreTiming:
    """`timing` with the cycles of the products that `report` calls, each kind's mean; as it is without any.

    What the code of a library does cannot be seen. Its FLOP and the elements that it reads and writes are those of
    the line that calls it (`loops/lowered/blas.py`); where the call stands in another function, as that of a
    matrix product does, those of the lines whose FLOP no compiled loop computes.
    """
    calls: dict[str, float] = {}
    seconds: dict[str, float] = {}
    for loop in report.core_loops:
        kinds = {kind: count for kind, count in loop.operations.items() if kind.startswith(_CALLS) and count}
        if not kinds:
            continue
        lines = _lines_of(report, loop) if loop.line else _computed_elsewhere(report)
        within_s = _work_s(report, machine, lines)
        for kind, count in kinds.items():
            calls[kind] = calls.get(kind, 0.0) + count
            seconds[kind] = seconds.get(kind, 0.0) + within_s * count / sum(kinds.values())
    if not calls:
        return timing
    start_s = load_family("cpu")("loop.product_start_s")
    cycles = {kind: (start_s + seconds[kind] / count) / timing.cycle_s for kind, count in calls.items()}
    # one waits for the one before: it is as long under way
    return replace(timing, throughput={**timing.throughput, **cycles}, latency={**timing.latency, **cycles})


def busy_cycles(calls: Mapping[str, float]) -> float:
    """Of the cycles of called functions those of BLAS, in which the core loads what it computes with."""
    return sum(cycles for name, cycles in calls.items() if f"call {name}".startswith(_CALLS))


def _lines_of(report: LoopReport, loop: CoreLoop) -> list[LineCounts]:
    """The lines of a compiled loop that compute: up to where the next one begins."""
    end = min((each.line for each in report.core_loops if each.line > loop.line), default=None)
    return [each for each in report.lines if loop.line <= each.line and (end is None or each.line < end)]


def _computed_elsewhere(report: LoopReport) -> list[LineCounts]:
    """The lines that no compiled loop with arithmetic holds."""
    held = {
        line.line
        for loop in report.core_loops
        if loop.line and any(kind.startswith((*_COMPUTES, *_CALLS)) for kind in loop.operations)
        for line in _lines_of(report, loop)
    }
    return [each for each in report.lines if each.line not in held]


def _multiply_adds(machine: Machine, dtype: str) -> Rate | None:
    """What one core attains of multiply-adds: some peaks count additions beside them, which no product has."""
    fits = [each for each in machine.peaks if each.dtype == dtype and each.scope == "core" and each.what == "fma"]
    return max(fits, key=lambda each: each.value, default=None) or machine.peak(dtype, scope="core")


def _work_s(report: LoopReport, machine: Machine, lines: Iterable[LineCounts]) -> float:
    """Seconds of what lines compute, or of what they move from and to L1."""
    flop = moved = 0.0
    dtype = report.flop_by[0].dtype if report.flop_by else "fp64"
    for each in lines:
        if each.flop:
            flop += each.flop
            moved += each.accesses * _BYTES.get(dtype, 8)
    peak = _multiply_adds(machine, {"complex64": "fp32", "complex128": "fp64"}.get(dtype, dtype))
    nearest = crossings.level(machine, crossings.of(report)[0][0])
    rate = None if nearest is None else nearest.rate("read", scope="core", basis="attained")
    return max(flop / peak.value if peak else 0.0, moved / rate.value if rate else 0.0)
