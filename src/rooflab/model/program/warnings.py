"""What a reader must know before trusting a prediction: memory that does not fit, formats the machine lacks."""

from __future__ import annotations

from rooflab.machines.doubts import doubts
from rooflab.model.collectives import without_link
from rooflab.model.device.device import Device
from rooflab.model.roofline.per_operation import NEGLIGIBLE_SHARE, compute_terms, peak_of
from rooflab.types.machine import Engine, Machine
from rooflab.types.report import Report, Row
from rooflab.units import si

# The format that software falls back to where a machine has no peak for the one asked for, best first.
_FALLBACKS: dict[str, tuple[str, ...]] = {
    "fp4": ("fp8", "bf16", "fp16", "fp32"),
    "fp6": ("fp8", "bf16", "fp16", "fp32"),
    "fp8": ("bf16", "fp16", "fp32"),
    "bf16": ("fp32", "fp16"),
    "fp16": ("fp32", "bf16"),
    "fp32": ("tf32", "bf16"),  # as XLA multiplies fp32 on TPUs by default
    "tf32": ("fp32", "bf16"),
    "int4": ("int8", "fp16", "fp32"),
    "int8": ("fp16", "fp32"),
}


def warnings_for(report: Report, device: Device) -> tuple[str, ...]:
    """What to know before trusting `report` as predicted on `device`, a line each."""
    lines = (
        _out_of_memory(report, device),
        _one_device(device.machine),
        *_unpredicted_operations(report),
        _without_vector_peak(report, device.machine),
        *doubts(device.machine),
    )
    return tuple(line for line in lines if line)


def _out_of_memory(report: Report, device: Device) -> str | None:
    need, capacity = report.memory.most_bytes, device.memory_bytes
    if capacity is None or need <= float(capacity):
        return None
    has = float(capacity)
    return (
        f"out of memory: needs {si(need, 'B')}, {device.machine.name} has {si(has, 'B')} "
        f"({si(need - has, 'B')} short); predicted as if it fit"
    )


def _one_device(machine: Machine) -> str | None:
    if machine.kind != "system":
        return None
    return (
        f"{machine.name} is taken as one device: every operation split evenly over its parts, and nothing sent "
        "between them but by collectives"
    )


def _unpredicted_operations(report: Report) -> list[str]:
    reasons: dict[str, list[str]] = {}
    for row in report.rows:
        if row.unbound and row.cost is not None and row.prediction is None and row.nbytes:
            reasons.setdefault(row.unbound, []).append(row.op.name)
    return [
        f"{len(names)} operation{'s' if len(names) > 1 else ''} without a prediction, left out of the total "
        f"({', '.join(list(dict.fromkeys(names))[:3])}): {reason}"
        for reason, names in reasons.items()
    ]


def _without_vector_peak(report: Report, machine: Machine) -> str | None:
    """Element-wise work without a peak takes no time beside its bytes."""
    free = [
        f"{one.dtype} {one.engine}"
        for one in report.flop_by
        if one.engine != "matrix" and peak_of(machine, one.engine, one.dtype)[0] is None
    ]
    if not free:
        return None
    return f"{machine.name} states no {' and no '.join(free)} peak: such work is timed by its bytes alone"


def why_unpredicted(row: Row, machine: Machine) -> str | None:
    """Why `row` cannot be predicted on `machine`: no link, or products in a format without a peak there.

    The sentence says what such work would be computed in instead, if in anything.
    """
    if row.op.kind == "collective":
        return without_link(machine)
    if row.cost is None or not row.cost.flop:
        return None
    _, without = compute_terms(row.cost.flop, machine)
    missing = [one for one in without if one.engine == "matrix"]
    if sum(one.count for one in missing) <= NEGLIGIBLE_SHARE * row.cost.total_flop:
        return None
    return "; ".join(dict.fromkeys(_fallback(one.engine, one.dtype, machine) for one in missing))


def _fallback(engine: Engine, dtype: str, machine: Machine) -> str:
    states = f"{machine.name} states no {dtype} {engine} peak"
    for other in _FALLBACKS.get(dtype, ()):
        rate, name = peak_of(machine, engine, other)
        if rate is not None:
            return (
                f"{states}: it would be computed in {other} after a conversion ({name} {si(rate.value, 'FLOP/s')})"
            )
    return f"{states}, and no fallback format is known; probably unsupported"
