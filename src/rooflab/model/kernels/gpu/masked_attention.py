"""TensorRT-LLM's masked kernel for single tokens: a block of threads for each query head, on the ordinary cores.

Blocks of 256 threads, four to a unit, are made larger where there are fewer of them than places; keys are then
split too, so that each block still has a whole turn of its loop (NVIDIA/TensorRT-LLM,
decoderMaskedMultiheadAttentionLaunch.h). Blocks of 1024 threads have a unit to themselves: somewhat more of them
than units take two waves.
"""

from __future__ import annotations

import numpy as np

from rooflab.model.device.device import Device, Number
from rooflab.model.kernels.common import Columns, KernelTimes

_PER_UNIT = 4.0  # blocks of 256 threads, by registers: 32 warps
_UNROLLED = 8.0  # values that a thread loads before it adds them up
_LOADED_BYTES = 16.0
_QUERY_BYTES = 2.0  # of an element of q and of the result: they set how many threads share a row


def time(x: Columns, device: Device) -> KernelTimes:
    """Launch, waves of blocks, or the traffic, then the join of split keys."""
    c = device.constants
    blocks = x["sequences"] * x["heads"] * x["group"]
    keys = x["longest"]
    factor = _factor(blocks, device.units)
    places = device.units * _PER_UNIT / factor
    turn = 256.0 * factor * _UNROLLED * _LOADED_BYTES / (x["size"] * _QUERY_BYTES)
    parts = np.maximum(np.minimum(np.ceil(places / blocks), np.ceil(keys / turn)), 1.0)
    turns = np.ceil(keys / parts / turn)
    tick = 1.0 / device.clock_hz
    block_s = (c("attention.serving_tile_clocks") + turns * c("attention.masked_clocks")) * tick
    walk_s = np.ceil(blocks * parts / places) * block_s
    cores_s = (
        blocks * keys * (x["size"] + x["values"]) * tick / (device.units * c("attention.masked_fma_per_clock"))
    )
    # Every head reads its group's keys and values, which lie in the last cache after the first.
    kept = x["sequences"] * x["heads"] * keys * (x["size"] + x["values"]) * x["item_bytes"]
    traffic = x.read_bytes + x.write_bytes
    share = c("attention.cache_share")
    cache_s = (traffic + kept * (x["group"] - 1.0)) / (device.cache_bytes_per_s * share)
    cold = traffic - x.hot_read_bytes - x.hot_write_bytes
    memory_s = cold / (device.memory_bytes_per_s * c("attention.paged_share"))
    overhead_s = c("attention.launch_s") + np.where(parts > 1.0, c("attention.join_s"), 0.0)
    overhead_s = overhead_s * device.factor["overhead"]
    zero = np.zeros_like(walk_s + memory_s)
    fixed_s = c("attention.serving_tile_clocks") * tick
    return KernelTimes(
        time_s=overhead_s + np.maximum(np.maximum(walk_s, cores_s), fixed_s + np.maximum(cache_s, memory_s)),
        compute_s=zero + cores_s,
        near_s=zero,
        cache_s=zero + cache_s,
        memory_s=zero + memory_s,
        overhead_s=zero + overhead_s + fixed_s,
        spread=zero + c("attention.spread"),
        kernels=zero + 2.0,
    )


def _factor(blocks: np.ndarray, units: Number) -> np.ndarray:
    """How many times 256 threads a block has: 1, 2 or 4, so that the blocks there are fill the units."""
    wanted = np.minimum(np.ceil(units * _PER_UNIT / blocks), _PER_UNIT)
    return np.where(wanted >= 4.0, 4.0, np.where(wanted >= 2.0, 2.0, 1.0))
