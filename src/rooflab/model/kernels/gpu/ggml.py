"""Kernels of ggml, the library of llama.cpp: blocks of narrow integers with a scale each, one operation a kernel.

A product of few rows streams the weights past them (mul_mat_vec_q). One of more rows multiplies 8-bit integers on
the matrix engine and, for each block of weights and each element of the result, converts the sum, multiplies it by
both scales and adds it on ordinary lanes (ggml-cuda/mmq.cuh): one waits for the other.
"""

from __future__ import annotations

import numpy as np

from rooflab.model.device.device import Device
from rooflab.model.kernels.common import Columns, Features, KernelTimes, Mechanism, Specs
from rooflab.types.machine import is_x86
from rooflab.types.work import Cost, Op

COLUMNS = (
    "starts",
    "scalings",
    "blocks",
    "core_clocks",
    "wide_clocks",
    "arm_instructions",
    "arm_of_many",
    "clocks",
)
_ZEN_FLOP, _ARM_FLOP = 32.0, 8.0  # of a core of Zen 4 in a clock; of a vector instruction of Arm
_WIDE_FLOP, _FOUR = 64.0, 3.5  # of a core with two units of 512 bits; products of bytes for one of fp32, about


def features(op: Op, inputs: Specs, outputs: Specs, cost: Cost) -> Features | None:
    """Of no captured operation: programs of ggml are made in `model.serving.ggml`."""
    return None


def time(x: Columns, device: Device) -> KernelTimes:
    """Starts, then the slowest of arithmetic with its scaling, cache and memory."""
    c = device.constants
    starts = x["starts"] * (c("ggml.start_s") + c("ggml.start_clocks") / device.clock_hz)
    starts = starts * device.factor["overhead"] + x["clocks"] / device.clock_hz
    peak, _ = device.peak("vector", "fp32")
    lanes = x["scalings"] * c("ggml.scaling_lanes")
    lanes_s = 0.0 * lanes if peak is None else lanes / (peak / 2.0)
    share = np.where(x["blocks"] > 0, c("ggml.blocks_share"), c("ggml.half_share"))
    compute = (x.flop_floor_s + lanes_s) / share
    if device.machine.kind == "cpu":
        compute = _on_cores_s(x, device)
    traffic = x.read_bytes + x.write_bytes
    cache = traffic / (device.cache_bytes_per_s * c("generic.cache_share"))
    missed = traffic - x.hot_read_bytes - x.hot_write_bytes
    rate = device.memory_bytes_per_s * c("ggml.memory_share")
    if device.cores is not None:  # what all cores were seen to draw, where that is stated, else a share of theory
        rate = np.minimum(rate, device.cores.tiers[-1].all_read)
    memory = missed / rate
    zero = np.zeros_like(memory + compute)
    bound = np.maximum(np.maximum(compute, cache), memory)
    # A block of threads loads a tile, waits, multiplies it and waits: alone on its unit, neither hides the other.
    bound = bound + np.where(x["blocks"] > 0, c("ggml.loads_apart"), 0.0) * np.minimum(compute, memory)
    return KernelTimes(
        time_s=bound + starts,
        compute_s=compute + zero,
        near_s=zero,
        cache_s=cache + zero,
        memory_s=memory + zero,
        overhead_s=starts + zero,
        spread=c("ggml.spread") + zero,
        kernels=x["starts"] + zero,
    )


def _on_cores_s(x: Columns, device: Device) -> np.ndarray:
    """Seconds of a CPU's cores: clocks of Zen 4's, or Arm's vector instructions.

    A core of x86 is Zen 4's by its clock and by its multiply-adds a clock, where they are fewer: wider vectors
    take no fewer clocks here; with AVX-512's products of 8-bit numbers where it has them. Arm's pipes of 16 bytes
    each do eight FLOP a clock; instructions keep a share of them busy.
    """
    c = device.constants
    peak, _ = device.peak("vector", "fp32")
    if peak is None:
        return x.flop_floor_s / c("ggml.half_share")
    a_clock = peak / (device.units * device.clock_hz)
    cores = device.units if device.cores is None else device.cores.units
    per_s = cores * device.clock_hz * np.minimum(a_clock / _ZEN_FLOP, 1.0)
    clocks = x["wide_clocks" if _multiplies_bytes(device, a_clock) else "core_clocks"]
    if not is_x86(device.machine):
        per_s = cores * device.clock_hz * a_clock / _ARM_FLOP
        clocks = x["arm_instructions"] / c("ggml.arm_issue_share") + x["arm_of_many"] / c("ggml.arm_many_share")
    return np.where(clocks > 0, clocks / per_s, x.flop_floor_s / c("ggml.half_share"))


def _multiplies_bytes(device: Device, a_clock: np.ndarray | float) -> bool:
    """Whether a core has AVX-512 with products of 8-bit numbers (VNNI): by its peaks.

    Four such products for each of fp32 where the machine states them, or a matrix engine for them (AMX); where it
    does not, two units of 512 bits: since Ice Lake and Zen 5 none has these without them.
    """
    if device.peak("matrix", "int8")[0] is not None:
        return True
    (of_bytes, _), (of_fp32, _) = device.peak("vector", "int8"), device.peak("vector", "fp32")
    if of_bytes is None or of_fp32 is None:
        return float(np.max(a_clock)) >= _WIDE_FLOP
    return float(np.max(of_bytes)) >= _FOUR * float(np.max(of_fp32))


MECHANISM = Mechanism("ggml", (), (), COLUMNS, features, time)
