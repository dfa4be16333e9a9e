"""Products of matrices on GPUs: tiles in waves over the units, fed through L2, from memory.

A library cuts the result into tiles, gives each tile (with split-K, each part of its k) to a block of
threads and runs the blocks in waves over the units. What one choice takes follows from its mechanism: see
`_tiled`. The library's heuristic is taken to find about the fastest of a few tiles.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rooflab.model.device.device import Device, Number
from rooflab.model.kernels.common import Columns, Features, KernelTimes, Mechanism, Specs, by_library
from rooflab.types.constants import Constants
from rooflab.types.work import Cost, Op, TensorSpec
from rooflab.work.formulas.cost_terms import item_bytes

# Number formats by the pipe that multiplies them; the column `pipe` is a place in this tuple.
PIPES = ("half", "fp8", "int8", "tf32", "fp32", "fp64")
_PIPE = {"fp8": "fp8", "tf32": "tf32", "fp32": "fp32", "complex64": "fp32", "fp64": "fp64", "complex128": "fp64"}
_NEWEST = 2  # the pipes before this place are those that a library writes its newest kernels for
# Energy of a multiply-add of each pipe, relative to a 16-bit one: as Hopper's peaks, inverted. Ordinary fp32
# cores were not seen to be limited by power.
_ENERGY = np.array([1.0, 0.5, 0.5, 2.0, 0.0, 15.0])
_ENERGY_FP4 = 0.25  # as Blackwell's peaks, inverted
_STEP_BYTES = 128.0  # of a row of k, in a step of the tiles that libraries compile
_SCALED_K = 128.0  # of which a block's scale tells
ALIGNED_BYTES = 16  # what the widest load of one thread needs

_COLUMNS = (
    "m",
    "n",
    "k",
    "batch",
    "item_bytes",
    "b_item_bytes",
    "out_item_bytes",
    "aligned_bytes",
    "a_along_k",
    "b_along_k",
    "pipe",
    "grouped",
    "uneven",
    "tile_rows",
    "block_scaled",
    "kernel",
)
# Libraries whose constants may differ (topics `matmul_NAME` of a family's data), by the column `kernel`; of the
# first, cuBLAS, the family's topic `matmul` tells.
KERNELS: tuple[str, ...] = (
    "",
    "cutlass",
    "trtllm_fp8",
    "deepgemm",
    "weight_only",
    "smooth",
    "triton_block",
    "fp4",
    "trtllm_fp4",
    "triton_groups",
    "cutlass_groups",
    "flashinfer_groups",
    "flashinfer_fp8_groups",
    "trtllm_gen_groups",
    "triton_default_groups",
    "block_groups",
)


def features(op: Op, inputs: Specs, outputs: Specs, cost: Cost) -> Features | None:
    """One product's `_COLUMNS`; None where its operands are not two matrices, or vectors.

    A row of a batch of matrices that meet one matrix b counts in m. `aligned_bytes` is what the starts of
    all rows of a, b and out are a multiple of, 16 at most. `grouped` is 0 for one product, else the share that a
    kernel for groups attains of what PyTorch's does; `uneven` how far groups differ in rows, `m` in the
    mean; `tile_rows` those of the tile where the caller chooses it, else 0; `block_scaled` whether operands have a
    scale for each 128 of k; `kernel` a place in `KERNELS`.
    """
    if len(inputs) < 2 or not outputs or not outputs[0].elements:
        return None
    a, b, out = inputs[0], inputs[1], outputs[0]
    fma = op.attrs.get("fma") or out.elements * op.attrs.get("k", 0)
    if not fma:
        return None
    n = out.shape[-1] if len(b.shape) > 1 and out.shape else 1
    rows = out.elements / n
    batch = float(np.prod(b.shape[:-2])) if len(b.shape) > 2 else 1.0
    if op.kind == "grouped_matmul":
        batch = min(float(op.attrs.get("active", batch)), batch, rows)
    aligned = min(_aligned_bytes(each) for each in (a, b, out))
    return (
        max(rows / batch, 1.0),
        float(n),
        fma / out.elements,
        batch,
        item_bytes(a),
        # Weights packed more narrowly than they are multiplied are widened after they are loaded.
        min(float(op.attrs.get("weight_bits") or 8 * item_bytes(a)) / 8, item_bytes(a)),
        item_bytes(out),
        float(aligned),
        float(_last_is_contiguous(a)),
        float(not _last_is_contiguous(b)),
        float(PIPES.index(_pipe(str(op.attrs.get("compute") or a.dtype), item_bytes(a)))),
        float(op.kind == "grouped_matmul"),
        0.0,
        0.0,
        0.0,
        0.0,
    )


def _pipe(dtype: str, nbytes: float) -> str:
    if dtype.startswith(("fp8", "fp4")):
        return "fp8"  # fp4 has kernels of the same make at a rate of its own, which the peak says
    return _PIPE.get(dtype, "int8" if nbytes <= 1 else "half")


def _last_is_contiguous(spec: TensorSpec) -> bool:
    return spec.strides is None or len(spec.shape) < 2 or spec.strides[-1] == 1 or spec.strides[-2] != 1


def _aligned_bytes(spec: TensorSpec) -> int:
    """Greatest common divisor of 16 and the bytes from one row (or column) of a matrix to the next."""
    if len(spec.shape) < 2 or min(spec.shape[-2:]) <= 1:
        return ALIGNED_BYTES
    apart = spec.shape[-1] if spec.strides is None else max(spec.strides[-2:])
    return int(np.gcd(int(apart * item_bytes(spec)), ALIGNED_BYTES)) or ALIGNED_BYTES


class _Rates(NamedTuple):
    """What a product takes whatever its tile, in seconds, by row and setting.

    Attributes:
        fma_s: a multiply-add on one unit.
        step_s: a step over one k in one tile, when nothing but latency limits it.
        store_s: an element of the result, stored by one unit; `tile_s` what a tile takes beside all.
        load_a_s, load_b_s: an element of a or b, loaded by one unit one by one; 0 where rows are aligned.
        once_s: all operands and results once through the shared cache, apart from `reused_s`.
        reused_s: a byte that a block loads through it, shared by the blocks of a cluster.
        memory_s: everything through the main memory; `limit_s` that, and the energy at the card's power.
        split_s, join_s: joining the parts of a split product: once, and for each part.
    """

    fma_s: np.ndarray
    step_s: np.ndarray
    store_s: np.ndarray
    tile_s: Number
    load_a_s: Number
    load_b_s: Number
    once_s: Number
    reused_s: Number
    memory_s: np.ndarray
    limit_s: np.ndarray
    split_s: Number
    join_s: np.ndarray


class _Choice(NamedTuple):
    """What one tile makes of a product, in seconds."""

    time_s: Number
    compute_s: Number
    cache_s: Number
    fixed_s: Number
    kernels: Number


def time(x: Columns, device: Device) -> KernelTimes:
    """The fastest of a family's tiles for each row and setting; rows of each library with its constants."""
    return by_library(x, device, "matmul", KERNELS, _time)


def _time(x: Columns, device: Device) -> KernelTimes:
    c = device.constants
    rates = _rates(x, device)
    choice = _by_vector(x, rates, _tiled(x, device, rates, *_chosen_tile(x, device, rates)))
    launch = c("matmul.launch_s") * device.factor["overhead"]
    zero = np.zeros_like(choice.time_s)
    return KernelTimes(
        time_s=choice.time_s + launch + zero,
        compute_s=choice.compute_s + zero,
        near_s=zero,
        cache_s=choice.cache_s + zero,
        memory_s=rates.memory_s + zero,
        overhead_s=choice.fixed_s + launch + zero,
        spread=_spread(x, c) + zero,
        kernels=choice.kernels + zero,
    )


def _by_vector(x: Columns, rates: _Rates, choice: _Choice) -> _Choice:
    """A matrix times one vector in fp32: cuBLAS's gemv kernels pass over the matrix once, without tiles.

    Such kernels are what profiles show for a linear layer of one row in fp32; 16-bit ones are products with tiles.
    """
    one = np.minimum(x["m"], x["n"]) * x["batch"] <= 1.0
    vector = one & (x["pipe"].astype(int) == PIPES.index("fp32")) & (x["grouped"] <= 0)
    if not vector.any():
        return choice
    cache_s = rates.once_s + (x.read_bytes + x.write_bytes) * rates.reused_s
    made = _Choice(_beside(rates.memory_s, cache_s), x.flop_floor_s, cache_s, 0.0, 1.0)
    return _Choice(*(np.where(vector, ours, tiled) for ours, tiled in zip(made, choice, strict=True)))


def _chosen_tile(x: Columns, device: Device, rates: _Rates) -> tuple[Number, Number]:
    """Rows and columns of the tile: by the product's rows where a library goes by them alone, else the fastest."""
    c = device.constants
    if len(by_rows := c.many("matmul.tiles_by_rows")) > 1:
        most, tall, wide = (by_rows[place::3] for place in range(3))
        below = [x["m"] <= each for each in most]
        return np.select(below, tall[: len(most)], tall[-1]), np.select(below, wide[: len(most)], wide[-1])
    flat = c.many("matmul.tiles")
    tiles = list(zip(flat[::2], flat[1::2], strict=True))
    times = [_tiled(x, device, rates, tm, tn).time_s for tm, tn in tiles]
    # A tile that the caller did not choose is none of those that may run.
    given = x["tile_rows"]
    if np.any(given):
        times = [
            np.where((given > 0) & (given != tm), np.inf, each) for (tm, _), each in zip(tiles, times, strict=True)
        ]
    fastest = times[0]
    best_tm, best_tn = (size + np.zeros_like(fastest) for size in tiles[0])
    for (tm, tn), each in zip(tiles[1:], times[1:], strict=True):
        faster = each < fastest
        best_tm, best_tn = np.where(faster, tm, best_tm), np.where(faster, tn, best_tn)
        fastest = np.minimum(fastest, each)
    return best_tm, best_tn


def _rates(x: Columns, device: Device) -> _Rates:
    c = device.constants
    tick = 1.0 / device.clock_hz
    pipe = x["pipe"].astype(int)
    narrow = x["aligned_bytes"] < ALIGNED_BYTES
    older = (pipe >= _NEWEST) | narrow
    fma_s = x.flop_floor_s * device.units / (x["m"] * x["n"] * x["k"] * x["batch"])
    fma_s = fma_s / np.array([c(f"matmul.share_{name}") for name in PIPES])[pipe]
    # PyTorch's own kernel, one tile for all groups of any size: no library chooses for each.
    fma_s = np.where(x["grouped"] > 0, fma_s / (c("matmul.grouped_share") * _engine_share(x, c)), fma_s)
    # Where the matrix engine takes no scales, the ordinary cores scale and add every result of a block of k.
    fma_s = fma_s + x["block_scaled"] * (c("matmul.scaling_clocks") * tick / _SCALED_K)
    step = np.where(older, c("matmul.older_step_clocks"), c("matmul.step_clocks"))
    step = np.where(pipe == PIPES.index("fp32"), c("matmul.vector_step_clocks"), step)
    store = np.where(older, c("matmul.older_store_bytes_per_clock"), c("matmul.store_bytes_per_clock"))
    load_a: Number = 0.0
    load_b: Number = 0.0
    if narrow.any():
        fma_s = np.where(narrow & (pipe < PIPES.index("fp32")), fma_s / c("matmul.narrow_share"), fma_s)
        loads = np.where(narrow, np.minimum(x["item_bytes"] / x["aligned_bytes"], 1.0), 0.0)
        load = loads * (tick / c("matmul.narrow_loads_per_clock"))
        along = c("matmul.narrow_along_k") - 1.0
        # Such kernels store as many bytes at once as all rows are aligned to.
        stores = np.maximum(x["aligned_bytes"] / x["item_bytes"], 1.0)
        store = np.where(narrow, stores * c("matmul.narrow_store_bytes_per_clock"), store)
        load_a, load_b = load * (1.0 + along * x["a_along_k"]), load * (1.0 + along * x["b_along_k"])
    cold = x.read_bytes + x.write_bytes - x.hot_read_bytes - x.hot_write_bytes
    memory_s = cold / (device.memory_bytes_per_s * c("matmul.memory_share"))
    cache_s = 1.0 / (device.cache_bytes_per_s * c("matmul.cache_share"))
    reused_s = cache_s / c("matmul.cluster")
    return _Rates(
        fma_s=fma_s,
        step_s=x["item_bytes"] * step * (tick / _STEP_BYTES),
        store_s=x["out_item_bytes"] * tick / store,
        tile_s=c("matmul.tile_clocks") * tick,
        load_a_s=load_a,
        load_b_s=load_b,
        once_s=(x.read_bytes + x.write_bytes) * (cache_s - reused_s),
        reused_s=reused_s,
        memory_s=memory_s,
        limit_s=_beside(memory_s, _power_s(x, device, pipe)),
        split_s=c("matmul.split_s") * device.factor["overhead"],
        join_s=x["m"] * x["n"] * x["batch"] * (8.0 / device.cache_bytes_per_s),
    )


def _engine_share(x: Columns, c: Constants) -> Number:
    """What the caller says that its kernel attains of PyTorch's, unless that library's own constants tell."""
    library = KERNELS[int(x["kernel"].flat[0])] if x["kernel"].size else ""  # of all rows: `by_library`
    return 1.0 if library and f"matmul_{library}.grouped_share" in c.values else np.maximum(x["grouped"], 1e-9)


def _power_s(x: Columns, device: Device, pipe: np.ndarray) -> Number:
    """Time in which the card's power pays for the energy of the multiply-adds; 0 where it is not stated.

    Above its power a card lowers its clock. A burst of T seconds sees T / (T + power_s) of that, lasting work
    all of it.
    """
    c = device.constants
    if not device.machine.tdp_w:
        return 0.0
    energy = np.where(x["item_bytes"] < 1.0, _ENERGY_FP4, _ENERGY[pipe])
    joule = x.matrix_flop * energy * c("matmul.joule_per_flop")
    needed_s = joule / (device.machine.tdp_w * device.faster)
    return needed_s if device.sustained else needed_s * (needed_s / (needed_s + c("matmul.power_s")))


def _tiled(x: Columns, device: Device, rates: _Rates, tm: Number, tn: Number) -> _Choice:
    """A product cut into tiles of tm × tn elements.

    Each unit works through its blocks: arithmetic, operands through the shared cache and the latency of the
    steps over k overlap, mostly; storing a tile comes after. The main memory works beside all of that.
    Where tiles leave units idle, k is split, if that saves more than joining the parts costs.
    """
    m, n, k, batch = x["m"], x["n"], x["k"], x["batch"]
    down, across = _tiles_down(x, tm), np.ceil(n / tn)
    tiles = down * across * batch
    work_s = k * (tm * tn) * rates.fma_s
    chain_s = k * (rates.step_s * (_STEP_BYTES / _step_bytes(device.constants, tm, tn)))
    if np.ndim(rates.load_a_s):
        work_s = _beside(work_s, k * (tm * rates.load_a_s + tn * rates.load_b_s))
    idle = np.minimum(np.floor(device.units / tiles), device.constants("matmul.split_most"))
    parts, fixed_s = _split(np.maximum(work_s, chain_s), idle, rates)
    blocks = np.ceil(tiles * parts / device.units)
    resident = device.constants("matmul.unit_elements") / (tm * tn)
    turns = np.ceil(blocks / resident)
    # A block that has its unit alone cannot fill it; the more of them share it the less it idles.
    filled = np.minimum(device.constants("matmul.alone_share") * np.clip(resident, 1.0, blocks), 1.0)
    busy_s = blocks * work_s / (parts * filled)
    rows = m + device.constants("matmul.whole_tiles") * np.maximum(down * tm - m, 0.0)
    loaded_bytes = (across * rows * x["item_bytes"] + down * n * x["b_item_bytes"]) * k * batch
    cache_s = loaded_bytes * rates.reused_s + rates.once_s
    store_s = blocks * (np.minimum(tm, m) * np.minimum(tn, n) * rates.store_s + rates.tile_s)
    body_s = _beside(busy_s, cache_s, turns * chain_s / parts) + store_s
    return _Choice(
        time_s=_beside(body_s, rates.limit_s) + fixed_s,
        compute_s=busy_s,
        cache_s=cache_s,
        fixed_s=fixed_s + store_s,
        kernels=1.0 + (parts > 1.0),
    )


def _step_bytes(c: Constants, tm: Number, tn: Number) -> Number:
    """Bytes of one row of k that a tile takes in a step, where its family states them tile by tile."""
    stated, flat = c.many("matmul.tile_step_bytes"), c.many("matmul.tiles")
    if len(stated) != len(flat) // 2:
        return _STEP_BYTES
    tiles = [(tm == rows) & (tn == columns) for rows, columns in zip(flat[::2], flat[1::2], strict=True)]
    return np.select(tiles, stated, _STEP_BYTES)


def _tiles_down(x: Columns, tm: Number) -> np.ndarray:
    """Tiles that cover the rows of a group.

    Of groups whose sizes fall off about exponentially, with the mean m, the mean of ⌈rows / tm⌉ is
    1 / (1 − e^(−tm / m)): one where groups are small, half a tile more than their rows where they are large.
    `uneven` says how far from groups of one size towards those.
    """
    even = np.ceil(x["m"] / tm)
    if not np.any(x["uneven"]):
        return even
    return even + x["uneven"] * (-1.0 / np.expm1(-tm / x["m"]) - even)


def _split(alone_s: np.ndarray, idle: Number, rates: _Rates) -> tuple[Number, Number]:
    """Into how many parts k is best split, and what joining them costs.

    p parts take alone / p + p · join: least at p = √(alone / join), with no more parts than units to run them.
    """
    if not np.any(idle >= 2.0):
        return 1.0, 0.0
    parts = np.maximum(np.minimum(idle, np.floor(np.sqrt(alone_s / rates.join_s))), 1.0)
    joining_s = rates.split_s + parts * rates.join_s
    pays = alone_s - alone_s / parts > joining_s
    return np.where(pays, parts, 1.0), np.where(pays, joining_s, 0.0)


def _beside(*terms: Number) -> np.ndarray:
    """What overlaps, but not wholly: between the greatest and the sum, (a⁴ + b⁴ + …)^¼."""
    total: Number = 0.0
    for each in terms:
        square = each * each
        total = total + square * square
    return np.sqrt(np.sqrt(total))


def _spread(x: Columns, c: Constants) -> np.ndarray:
    """Of the number format; of an engine's own product for groups, known by its share of PyTorch's alone."""
    usual = (x["pipe"] < _NEWEST) & (x["aligned_bytes"] >= ALIGNED_BYTES)
    spread = np.where(usual, c("matmul.spread"), c("matmul.spread_older"))
    spread = np.where(usual & (x["pipe"] == PIPES.index("fp8")), c("matmul.spread_fp8"), spread)
    unknown = (x["kernel"] <= 0) & (x["grouped"] > 0) & (x["grouped"] != 1)
    return np.where(unknown, c("matmul.group_spread"), spread)


MECHANISM = Mechanism("matmul", ("gpu",), ("matmul", "grouped_matmul"), _COLUMNS, features, time)
