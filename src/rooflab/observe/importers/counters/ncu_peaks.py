"""The card itself, from what Nsight Compute says of its peaks: one without a catalogue entry has roofs too.

A peak in the file is per clock and for all units: times the highest clock that the device states it is a
theoretical roof. A matrix peak without "sparsity_off" in its name may be the sparse one, and is left out.
"""

from __future__ import annotations

import re

from rooflab.observe.importers.counters.ncu_metrics import Metrics
from rooflab.types.machine import Engine, Level, Machine, Rate, Source
from rooflab.types.trace import Device
from rooflab.units import FLOP_PER_FMA

_VECTOR = {"fp64": ("dfma", 1), "fp32": ("ffma", 1), "fp16": ("hfma", 2)}  # half precision works on pairs
_MATRIX = re.compile(
    r"sm__ops_path_tensor(?:_op_\w+?mma)?_src_(fp64|tf32|bf16|fp16|fp8|fp6|fp4|int8|int4)"
    r"(?:_dst_fp32)?_sparsity_off\.sum\.peak_sustained"
)
_KHZ = 1e3


def machine(metrics: Metrics, device: Device) -> Machine | None:
    """The card that `metrics`, in base units, describe; None unless its memory and an engine are among them."""
    sm_hz = metrics.get("device__attribute_max_gpu_frequency_khz", 0.0) * _KHZ
    dram_hz = metrics.get("device__attribute_max_mem_frequency_khz", 0.0) * _KHZ
    sm_hz = sm_hz or metrics.get("sm__cycles_elapsed.max.per_second", 0.0)
    dram_hz = dram_hz or metrics.get("dram__cycles_elapsed.avg.per_second", 0.0)
    memory = _dram(metrics, dram_hz, device)
    peaks = [] if memory is None else [*_vector(metrics, sm_hz), *_matrix(metrics, sm_hz)]
    if not peaks:
        return None
    levels = [one for one in (_l1(metrics, sm_hz), _l2(metrics), memory) if one]
    return Machine(
        name=device.name or "card described by Nsight Compute",
        kind="gpu",
        vendor="NVIDIA",
        compute_unit="SM",
        compute_units=device.compute_units,
        source=_SOURCE,
        levels=tuple(levels),
        peaks=tuple(peaks),
        clocks=(Rate(value=sm_hz, per_s="cycle", what="boost", basis="theoretical", source=_SOURCE),),
        note="roofs from the counters' own peaks; matrix peaks at the boost clock, which power may not allow",
    )


_SOURCE = Source("derived", "Nsight Compute: peak_sustained of the metric x the device's highest clock")


def _rate(value: float, what: str, clock_hz: float, **more: str | None) -> Rate:
    return Rate(
        value=value,
        per_s="flop" if what == "fma" else "byte",
        what=what,
        basis="theoretical",
        clock_hz=clock_hz,
        source=_SOURCE,
        **more,  # pyright: ignore[reportArgumentType]
    )


def _vector(metrics: Metrics, clock_hz: float) -> list[Rate]:
    rates = []
    for dtype, (instruction, width) in _VECTOR.items():
        per_clock = metrics.get(f"sm__sass_thread_inst_executed_op_{instruction}_pred_on.sum.peak_sustained")
        if per_clock and clock_hz:
            engine: Engine = "vector"
            value = per_clock * width * FLOP_PER_FMA * clock_hz
            rates.append(_rate(value, "fma", clock_hz, dtype=dtype, engine=engine))
    return rates


def _matrix(metrics: Metrics, clock_hz: float) -> list[Rate]:
    """The fastest dense path of each format; the metric counts operations, a multiply-add as two."""
    fastest: dict[str, float] = {}
    for name, per_clock in metrics.items():
        match = _MATRIX.fullmatch(name)
        if match:
            fastest[match[1]] = max(fastest.get(match[1], 0.0), per_clock)
    return [
        _rate(per_clock * clock_hz, "fma", clock_hz, dtype=dtype, engine="matrix")
        for dtype, per_clock in fastest.items()
        if per_clock and clock_hz and not dtype.startswith("int")
    ]


def _level(name: str, per_clock: float | None, clock_hz: float, capacity_bytes: float | None) -> Level | None:
    if not per_clock or not clock_hz:
        return None
    what = "any" if name == "DRAM" else "read"
    rates = (_rate(per_clock * clock_hz, what, clock_hz),)
    return Level(name=name, source=_SOURCE, capacity_bytes=capacity_bytes, rates=rates)


def _l1(metrics: Metrics, clock_hz: float) -> Level | None:
    per_clock = metrics.get("derived__l1tex__lsu_writeback_bytes_mem_lgds.sum.peak_sustained")
    return _level("L1", per_clock, clock_hz, None)


def _l2(metrics: Metrics) -> Level | None:
    per_clock = metrics.get("derived__lts__lts2xbar_bytes.sum.peak_sustained")
    clock_hz = metrics.get(
        "lts__cycles_elapsed.avg.per_second", 0.0
    )  # L2 has a clock of its own; it is not stated
    return _level("L2", per_clock, clock_hz, metrics.get("device__attribute_l2_cache_size"))


def _dram(metrics: Metrics, clock_hz: float, device: Device) -> Level | None:
    return _level("DRAM", metrics.get("dram__bytes.sum.peak_sustained"), clock_hz, device.memory_bytes)
