"""Kernels of many small thread blocks, each of which moves a row or a few: writing a paged cache, RoPE.

Such a block reads where its row goes, then the row, then writes it: loads that wait for each other. A unit holds
as many blocks as its threads allow, so that rounds of blocks take their latency however few bytes they move.
"""

from __future__ import annotations

import numpy as np

from rooflab.model.device.device import Device
from rooflab.model.kernels.common import Columns, Features, KernelTimes, Mechanism, Specs
from rooflab.types.work import Cost, Op

COLUMNS = ("blocks", "threads", "turns", "converted")


def features(op: Op, inputs: Specs, outputs: Specs, cost: Cost) -> Features | None:
    """Number of thread blocks, threads of each, its turns of loads after the first, numbers brought to 8 bits.

    None where the operation does not say.
    """
    if "blocks" not in op.attrs:
        return None
    more = (float(op.attrs.get(name, 0.0)) for name in ("turns", "converted"))
    return float(op.attrs["blocks"]), float(op.attrs["threads"]), *more


def time(x: Columns, device: Device) -> KernelTimes:
    """Launch, then the slower of rounds of blocks and traffic."""
    c = device.constants
    resident = np.clip(c("blocks.threads_of_unit") // x["threads"], 1, c("blocks.most_of_unit"))
    block_s = c("blocks.block_s") + x["turns"] * c("blocks.turn_s")
    rounds = x["blocks"] / (device.units * resident)
    waiting_s = block_s * np.maximum(rounds, 1.0)
    # Divided by a scale and converted one by one.
    waiting_s = waiting_s + x["converted"] * c("blocks.convert_clocks") / (device.units * device.clock_hz)
    traffic = x.read_bytes + x.write_bytes
    missed = traffic - x.hot_read_bytes - x.hot_write_bytes
    memory_s = missed / (device.memory_bytes_per_s * c("blocks.memory_share"))
    cache_s = traffic / (device.cache_bytes_per_s * c("attention.cache_share"))
    launch_s = c("passes.launch_s") * device.factor["overhead"]
    zero = np.zeros_like(memory_s)
    return KernelTimes(
        time_s=zero + launch_s + np.hypot(waiting_s, np.maximum(memory_s, cache_s)),
        compute_s=zero,
        near_s=zero,
        cache_s=zero + cache_s,
        memory_s=zero + memory_s,
        overhead_s=zero + launch_s + block_s,
        spread=zero + c("blocks.spread"),
        kernels=zero + 1.0,
    )


MECHANISM = Mechanism("blocks", ("gpu",), ("kernel",), COLUMNS, features, time)
