"""What a core takes for a loop whose code was not profiled, from the instructions of its main loop alone."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from rooflab.machines import microarchitecture
from rooflab.model.device.constants import load_family
from rooflab.types.constants import Constants
from rooflab.types.loop import Code, LoopReport
from rooflab.types.machine import Machine, Rate, Scope


class Term(NamedTuple):
    """A part of the time: `seconds`, and what it is called."""

    name: str
    seconds: float


def in_core(report: LoopReport, machine: Machine, threads: int) -> Term | None:
    """What the arithmetic, the loads and the chains of one iteration after the other take, from the main loop."""
    hertz = clock_hz(machine)
    peak = peak_of(report, machine, "core" if threads == 1 else "all")
    code = report.code
    terms = [Term("nothing to compute", 0.0)]
    vector = sum(each.count for each in report.flop_by if each.engine == "vector")
    special = sum(each.count for each in report.flop_by if each.engine == "special")
    if peak is not None and report.flop:
        # numba joins no product and sum without fastmath: half of the FMA rate, as each is one instruction.
        terms.append(Term(f"{peak.dtype} {peak.engine or 'vector'}", vector / (peak.value / 2)))
    elif report.flop and hertz is None:
        return None
    if hertz is not None:
        constant = load_family("cpu")
        lanes = 1 if code is None else code.lanes
        called = code is not None and any(name != "sqrt" for name in code.calls)
        cycles = constant("loop.call_cycles") if called else constant("loop.special_cycles") / lanes
        terms.append(Term("division and functions", special * cycles / hertz / threads))
        if code is not None and code.chain:
            latency = code.chain * _add_latency(machine) / _chains_at_once(code, constant) / hertz / threads
            terms.append(Term("a chain of additions", latency))
        if code is not None and code.passes:
            cycles = _instruction_cycles(code, code.passes, constant)
            terms.append(Term("instructions", cycles / hertz / threads))
    return max(terms, key=lambda each: each.seconds)


def _chains_at_once(code: Code, constant: Constants) -> float:
    """How many entries of a short loop a core works on at once: each begins a chain of its own."""
    if not (code.passes and code.entries and code.instructions):
        return 1.0
    return max(1.0, constant("loop.window_instructions") / (code.instructions * code.passes / code.entries))


def _instruction_cycles(code: Code, passes: float, constant: Constants) -> float:
    """Cycles to issue the instructions of the innermost loop: whole passes, what each entry leaves, entries."""
    cycles = max(
        code.instructions / constant("loop.instructions_per_cycle"),
        code.loads / constant("loop.loads_per_cycle"),
        code.stores / constant("loop.stores_per_cycle"),
    )
    if not code.entries or not code.trips:
        return passes * cycles
    each, unrolled = code.trips / code.entries, code.trips / passes
    whole = each // unrolled
    # What no pass holds runs element by element.
    single = (each - whole * unrolled) * cycles * min(code.lanes / unrolled, 1.0)
    return code.entries * (whole * cycles + single + constant("loop.entry_cycles"))


def peak_of(report: LoopReport, machine: Machine, scope: Scope) -> Rate | None:
    """The peak of the number format that most FLOP are in, on the unit that the compiled loop uses."""
    if not report.flop_by:
        return None
    dtype = {"complex64": "fp32", "complex128": "fp64"}.get(report.flop_by[0].dtype, report.flop_by[0].dtype)
    scalar = report.code is not None and not report.code.vectorised
    for engine in ("scalar", "vector") if scalar else ("vector",):
        same = [each for each in machine.peaks if each.engine == engine and each.what in ("fma", "fma+add", "any")]
        chosen = msgspec.structs.replace(machine, peaks=tuple(same))
        rate = chosen.peak(dtype, scope=scope, basis="attained") or chosen.peak(dtype, scope=scope)
        if rate is not None:
            return rate
    return machine.peak(dtype, scope=scope)


def clock_hz(machine: Machine) -> float | None:
    """The clock that `machine` attains, or is specified with; None where nobody says."""
    rates = [each for each in machine.clocks if each.basis == "attained"] or list(machine.clocks)
    return max((each.value for each in rates), default=None)


def _add_latency(machine: Machine) -> float:
    row_of_table = microarchitecture.stated(machine.environment)
    latency = None if row_of_table is None else row_of_table.add_latency_cycles
    return load_family("cpu")("loop.add_latency_cycles") if latency is None else float(latency)
