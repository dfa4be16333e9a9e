"""Kernels of ggml, the library of llama.cpp: blocks of narrow integers with a scale each, one operation a kernel.

A product of few rows streams the weights past them (mul_mat_vec_q). One of more rows multiplies 8-bit integers on
the matrix engine and, for each block of weights and each element of the result, converts the sum, multiplies it by
both scales and adds it on ordinary lanes (ggml-cuda/mmq.cuh): one waits for the other.
"""

from __future__ import annotations

import numpy as np

from rooflab.model.device.device import Device
from rooflab.model.kernels.common import Columns, Features, KernelTimes, Mechanism, Specs
from rooflab.types.work import Cost, Op

COLUMNS = ("starts", "scalings", "blocks", "unpacks", "dots", "sums", "clocks", "routed")
_VECTOR_BYTES = 32.0  # that instructions of a CPU are counted in


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
    memory = missed / rate / np.where(x["routed"] > 0, c("ggml.routed_share"), 1.0)
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
    """Seconds of a CPU's vector instructions: what unpacks blocks, dot products of 32 numbers, sums to scale.

    Pipes that multiply and add floats give the peak; integers have some more. 32 products of 8 bits are
    one instruction where the cores have dot products (VNNI, sdot), else four (signs, vpmaddubsw, vpmaddwd).
    """
    c = device.constants
    peak, _ = device.peak("vector", "fp32")
    if peak is None:
        return x.flop_floor_s / c("ggml.half_share")
    whole = device.machine.peak("int8", engine="vector") or device.machine.peak("int8", engine="matrix")
    each = 1.0 if whole is not None else 4.0
    # Arm's vectors are of 16 bytes, a sum's too: half an instruction of those counted here.
    x86 = device.machine.vendor in ("AMD", "Intel")
    scale, pipes = (
        ("ggml.scale_instructions", "ggml.pipes") if x86 else ("ggml.arm_scale_instructions", "ggml.arm_pipes")
    )
    instructions = x["unpacks"] + x["dots"] * each + x["sums"] * c(scale)
    per_s = peak / 2.0 * 4.0 / _VECTOR_BYTES * c(pipes) * c("ggml.issue_share")
    return np.where(x["dots"] > 0, instructions / per_s, x.flop_floor_s / c("ggml.half_share"))


MECHANISM = Mechanism("ggml", (), (), COLUMNS, features, time)
