"""A memory-bound operation as a sequence of passes, each a kernel that streams, gathers or reduces.

A pass is limited by four things: the bytes it moves through main memory, those it moves through the last
cache, the instructions it issues, and the chain of dependent steps of each of its blocks times the rounds
of blocks that do not fit on the device at once. The longest hides most of the others: how much is the
`sharpness` p of (Σ tᵖ)^(1/p). What a library kernel needs per element is in the family's data, topic
`kernel`: [instructions per element, instructions per row, seconds of a block, seconds per step, sharpness].
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple, cast

import numpy as np

from rooflab.model.device import cache_residency
from rooflab.model.device.device import Device, Number
from rooflab.model.kernels.common import Columns, Features, KernelTimes

# The library kernels that are told apart; a pass names its own by its place here.
CODES = (
    "vectorized",
    "strided",
    "casting",
    "dropout",
    "copy_batched",
    "multi_tensor",
    "reduce",
    "reduce_columns",
    "reduce_index",
    "scan_rows",
    "scan_columns",
    "scan_whole",
    "softmax_warp",
    "softmax_warp_long",
    "softmax_registers",
    "softmax_block",
    "layer_norm",
    "rms_norm",
    "norm_gradient",
    "weight_gradient",
    "moments",
    "batch_transform",
    "batch_statistics",
    "batch_gradient",
    "pool",
    "pool_gradient",
    "resample_last",
    "gather_rows",
    "gather_scalars",
    "scatter",
    "radix_histogram",
    "radix_pass",
    "digit_count",
    "select",
    "select_rows",
    "sort_rows",
    "gather_few",
    "scatter_few",
    "sparse_rows",
    "optimizer",
    "row_loss",
    "transform",
    "compiled_rows",
)
CODE = {name: float(number) for number, name in enumerate(CODES)}


class Pass(NamedTuple):
    """One kernel over its elements.

    Attributes:
        code: which library kernel, a value of `CODE`; −1 for none.
        elements: that it loads or computes; `instructions` more than its kernel's per element, `doubles` of
            them in double precision.
        rows: of which each costs extra (the tree that ends its reduction).
        blocks: thread blocks, in units of those that one SM holds at once; `steps` of one block, one after
            the other, each a round trip to memory.
        read_bytes, write_bytes: of the operation's own operands, streamed.
        inner_bytes: read and written of intermediates between its passes; `inner_size_bytes` their extent.
        again_bytes: read a second time by blocks that together hold `held_bytes` on one SM.
        waste_bytes: of main memory beyond these, fetched in vain beside what was asked for.
        sector_bytes: loaded from the last cache by single sectors, `apart_bytes` of the streamed ones among
            them.
        random_bytes: fetched from `random_rows` random places of a table of `table_bytes`.
        starts: kernels started, the main one and small ones around it.
    """

    code: Number = -1.0
    elements: Number = 0.0
    instructions: Number = 0.0
    doubles: Number = 0.0
    rows: Number = 0.0
    blocks: Number = 1.0
    steps: Number = 1.0
    read_bytes: Number = 0.0
    write_bytes: Number = 0.0
    inner_bytes: Number = 0.0
    inner_size_bytes: Number = 0.0
    again_bytes: Number = 0.0
    held_bytes: Number = 0.0
    waste_bytes: Number = 0.0
    sector_bytes: Number = 0.0
    apart_bytes: Number = 0.0
    random_bytes: Number = 0.0
    random_rows: Number = 0.0
    table_bytes: Number = 0.0
    starts: Number = 1.0


_NONE = Pass()


def columns(count: int) -> tuple[str, ...]:
    """Names of the columns of `count` passes."""
    return tuple(f"{name}_{number}" for number in range(count) for name in Pass._fields)


def flat(count: int, *passes: Pass) -> Features:
    """The numbers of `passes`, filled up to `count` of them."""
    numbers = sum(passes, ()) + tuple(_NONE) * (count - len(passes)) if count > 1 else passes[0]
    return cast(Features, numbers)


def timer(count: int, topic: str) -> Callable[[Columns, Device], KernelTimes]:
    """The `time` of a mechanism whose rows have up to `count` passes; its spread is `topic`.spread."""
    return functools.partial(_times, count=count, topic=topic)


def _times(x: Columns, device: Device, *, count: int, topic: str) -> KernelTimes:
    total = None
    table = np.array([device.constants.many(f"kernel.{name}") for name in CODES])
    spread = device.constants(f"{topic}.spread")
    for number in range(count):
        each = Pass(*(x.extra[f"{name}_{number}"] for name in Pass._fields))
        if number and not np.any(each.code >= 0):
            break
        times = _one(each, x, device, table)
        total = times if total is None else _added(total, times)
    assert total is not None  # a mechanism has at least one pass
    return total._replace(spread=spread + np.zeros_like(total.time_s))


def _added(one: KernelTimes, other: KernelTimes) -> KernelTimes:
    return KernelTimes(
        *(a + b for a, b in zip(one[:6], other[:6], strict=True)),
        spread=one.spread,
        kernels=one.kernels + other.kernels,
    )


def _one(p: Pass, x: Columns, device: Device, kernels: np.ndarray) -> KernelTimes:
    c = device.constants
    there = p.code >= 0
    needs = kernels[np.maximum(p.code, 0).astype(int)[:, 0]]
    per_element, per_row, block_s, step_s, sharpness = (needs[:, i : i + 1] for i in range(5))
    near, cache, memory = _levels(p, x, device)
    lanes = device.units * device.clock_hz * c("passes.lanes_per_unit_clock")
    issue = (p.elements * (per_element + p.instructions) + p.rows * per_row) / lanes
    doubles, _ = device.peak("vector", "fp64")
    if doubles is not None:  # two operations an instruction, as the peak counts multiply-adds
        issue = np.maximum(issue, 2.0 * p.elements * p.doubles / doubles)
    # The first block's start and end stand alone; its steps, and further rounds, hide behind the longest term.
    rounds = np.maximum(p.blocks / device.units, 1.0)
    waiting = (block_s + step_s * p.steps) * rounds - block_s
    body = _norm((memory, cache, issue, waiting), sharpness)
    launch = c("passes.launch_s") + c("passes.small_kernel_s") * (p.starts - 1)
    overhead = launch * device.factor["overhead"] + block_s
    zero = np.zeros_like(body)
    return KernelTimes(
        time_s=np.where(there, body + overhead, zero),
        compute_s=np.where(there, issue, zero),
        near_s=np.where(there, near, zero),
        cache_s=np.where(there, cache, zero),
        memory_s=np.where(there, memory, zero),
        overhead_s=np.where(there, overhead, zero),
        spread=zero,
        kernels=np.where(there, p.starts, zero),
    )


def _norm(terms: tuple[np.ndarray, ...], sharpness: np.ndarray) -> np.ndarray:
    """(Σ tᵖ)^(1/p), scaled by the largest so that nothing underflows."""
    largest = np.maximum(functools.reduce(np.maximum, terms), 1e-12)
    total = sum((each / largest) ** sharpness for each in terms)
    return largest * total ** (1.0 / sharpness)


def _levels(p: Pass, x: Columns, device: Device) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Seconds of traffic through the near caches, the last one, and main memory."""
    c = device.constants
    # Rows that are read again: from the SM's own cache, else from the last one, else from memory.
    beyond_near = np.clip(p.held_bytes / c("passes.near_bytes") - 1.0, 0.0, 1.0)
    again = p.again_bytes * beyond_near
    turnover = c("passes.turnover") * p.held_bytes * device.units
    again_missing = again * (1.0 - cache_residency.cached_share(turnover, device))
    inner_missing = 0.5 * p.inner_bytes * (1.0 - cache_residency.cached_share(2.0 * p.inner_size_bytes, device))
    cold_read = 1.0 - x.hot_read_bytes / np.maximum(x.read_bytes, 1.0)
    cold_write = 1.0 - x.hot_write_bytes / np.maximum(x.write_bytes, 1.0)
    wide = p.read_bytes + p.waste_bytes
    wasteful = np.where(p.waste_bytes > 0, 1.0 - cache_residency.cached_share(wide + p.write_bytes, device), 0.0)
    read = wide * np.maximum(cold_read, wasteful) + inner_missing + again_missing
    write = p.write_bytes * cold_write + inner_missing
    write = write + cache_residency.displaced_dirty_bytes(p.read_bytes + p.random_bytes, p.write_bytes, device)
    if np.any(p.random_bytes):
        missed = cache_residency.random_miss_share(p.random_bytes, p.table_bytes, device)
        read = read + missed * (p.random_bytes + p.random_rows * c("passes.random_extra_bytes"))
    rate = device.memory_bytes_per_s
    memory = read / (rate * c("passes.read_share")) + write / (rate * c("passes.write_share"))
    rate = device.cache_bytes_per_s
    loads = p.read_bytes - p.apart_bytes + 0.5 * p.inner_bytes + again
    loading = loads / (rate * c("passes.cache_read_share"))
    storing = (p.write_bytes + 0.5 * p.inner_bytes) / (rate * c("passes.cache_write_share"))
    sectors = p.sector_bytes / (rate * c("passes.cache_sector_share"))
    # Loads and stores have lanes of their own; single sectors keep the slices themselves busy.
    cache = np.where(sectors > 0, sectors + loading + storing, np.maximum(loading, storing))
    near = (loads + p.again_bytes - again) / device.near_bytes_per_s
    return near, cache, memory
