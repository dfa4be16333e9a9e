"""The times of a core that was not measured: of a usual one, or by what its microarchitecture's row says."""

from __future__ import annotations

from msgspec.structs import replace

from rooflab.machines.microarchitecture import Microarchitecture
from rooflab.model.loop import usual_calls
from rooflab.types.core_timing import CoreTiming

# Cycles of a usual core of about 2020, where none was measured; of functions, `usual_calls`.
USUAL_LATENCY = {
    "fp add": 4.0, "fp add beside": 4.0, "fp multiply": 4.0, "fp multiply-add": 4.0, "fp select": 1.0,
    "integer": 1.0, "load": 5.0,
    "fp compare": 3.0, "fp compare apart": 3.0, "convert from whole": 6.0, "convert to whole": 6.0,
    "gather": 18.0, "gather wide": 24.0,
    "vector integer": 1.0, "vector shift": 1.0, "integer shift": 1.0,
    "integer multiply": 3.0, "integer divide": 15.0, "convert": 5.0,
    "shuffle": 2.0, "store forward": 6.0, "store forward integer": 5.0, "divide fp64": 13.0,
    "divide fp32": 11.0, "sqrt fp64": 18.0, "sqrt fp32": 12.0, "locked": 18.0, **usual_calls.LATENCY,
}  # fmt: skip
USUAL_EACH = {
    "fp add": 0.5, "fp multiply": 0.5, "fp multiply-add": 0.5, "fp select": 0.5, "convert": 1.0, "shuffle": 1.0,
    "convert vector": 1.0, "convert wide": 2.0, "shuffle wide": 1.0, "vector integer": 0.5,
    "vector integer wide": 0.5, "vector shift": 0.5, "vector shift wide": 1.0, "vector multiply wide": 1.0,
    "integer shift": 0.5, "fp compare": 0.5, "load": 0.5, "load vector": 0.5, "store": 1.0,
    "store vector": 1.0, "integer": 0.25, "integer multiply": 1.0,
    "integer divide": 8.0, "divide fp64": 5.0, "divide fp64 vector": 12.0, "divide fp32": 3.5,
    "divide fp32 vector": 10.0, "sqrt fp64": 6.0, "sqrt fp64 vector": 18.0, "sqrt fp32": 4.0,
    "sqrt fp32 vector": 12.0, "gather": 1.0, "vector multiply": 1.0, "slot": 1 / 6, "fp mixed": 1 / 3,
    "load split": 0.5, "store split": 1.5, "load wide": 0.5, "store wide": 1.0, "fp add vector": 0.5,
    "fp multiply vector": 0.5, "fp multiply-add vector": 0.5, "fp add wide": 0.5, "fp multiply wide": 0.5,
    "fp multiply-add wide": 0.5, "divide fp64 wide": 16.0, "divide fp32 wide": 10.0, "sqrt fp64 wide": 24.0,
    "sqrt fp32 wide": 20.0, "branch": 0.5, "convert from whole": 1.0, "convert to whole": 0.5, "to whole": 1.0,
    "gather slots": 4.0, "gather slots wide": 4.0,
    "scatter": 1.7, "scatter wide": 1.4, "scatter slots": 7.0, "scatter slots wide": 5.5, "call allocation": 40.0,
    "call random_state": 8.0, "call random_refill": 1200.0, "locked": 18.0, **usual_calls.EACH,
}  # fmt: skip
USUAL_MISS = 16.0


def usual(cycle_s: float) -> CoreTiming:
    """The times of a core of about 2020, whose cycle takes so long."""
    return CoreTiming(
        cycle_s=cycle_s,
        latency=USUAL_LATENCY,
        throughput=USUAL_EACH,
        missed_branch=USUAL_MISS,
        measured=False,
    )


def of_microarchitecture(row: Microarchitecture, cycle_s: float) -> CoreTiming:
    """The times of a core of that microarchitecture, as far as its row says them; else those of a usual core."""
    latency, each = dict(USUAL_LATENCY), dict(USUAL_EACH)
    halves = 32 * 8 / min(row.vector_bits, 256)  # vectors of 32 bytes run in parts on narrower units
    if row.add_latency_cycles is not None:
        latency |= dict.fromkeys(("fp add", "fp add beside"), float(row.add_latency_cycles))
    if row.fma_latency_cycles is not None:
        latency |= dict.fromkeys(("fp multiply", "fp multiply-add"), float(row.fma_latency_cycles))
    if row.multiply_latency_cycles is not None:
        latency["fp multiply"] = float(row.multiply_latency_cycles)
    if row.adds:
        each |= {"fp add": 1 / row.adds, "fp add vector": halves / row.adds}
    if row.fma_pipes:
        both = row.fma_pipes + (row.add_pipes or 0)
        each |= dict.fromkeys(("fp multiply", "fp multiply-add"), 1 / row.fma_pipes)
        each |= dict.fromkeys(("fp multiply vector", "fp multiply-add vector"), halves / row.fma_pipes)
        each["fp mixed"] = 1 / both
    if row.load_bytes:
        each |= {"load vector": 32 / row.load_bytes, "load wide": 64 / row.load_bytes}
    if row.store_bytes:
        each |= {"store vector": 32 / row.store_bytes, "store wide": 64 / row.store_bytes}
    if row.locked_cycles:
        each["locked"] = latency["locked"] = float(row.locked_cycles)
    if row.width_slots:
        each["slot"] = 1 / row.width_slots
    return CoreTiming(
        cycle_s=cycle_s,
        latency=latency,
        throughput=each,
        # of one that tests what is loaded, as all that are measured do: the load and the comparison come first
        missed_branch=row.missed_branch_cycles + latency["load"] + 1.0 if row.missed_branch_cycles else USUAL_MISS,
        measured=False,
    )


def with_room_of(row: Microarchitecture, timing: CoreTiming) -> CoreTiming:
    """`timing` with what a core of that microarchitecture holds at once, as far as its row says it."""
    if row.vector_load_more_cycles and "load" in timing.latency:
        later = timing.latency["load"] + row.vector_load_more_cycles
        timing = replace(timing, latency={**timing.latency, "load vector": later})
    if row.window_slots is None:
        return timing
    return replace(
        timing,
        window=float(row.window_slots),
        scheduler=float(row.scheduler_slots or timing.scheduler),
        integers=row.integer_slots,
        multiplies=None if row.integer_slots is None else row.integer_slots / row.integer_queues,
        loads=row.load_slots,
        stores=row.store_slots,
        registers=row.vector_results,
    )
