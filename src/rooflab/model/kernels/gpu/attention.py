"""Fused attention on GPUs: tiles of queries that walk over blocks of keys, spread over the units in waves.

One thread block holds `tile_queries` rows of q and walks over the keys that they see, `tile_keys` at a time
(Dao: "FlashAttention-2", arXiv:2307.08691; Shah et al.: "FlashAttention-3", arXiv:2407.08608). For each block
its unit multiplies twice and takes one exponential per pair; both engines are slow enough to matter, and
they overlap only in part. With few queries and many keys the keys are split over the units, and a second
kernel joins the parts. What is left is traffic: keys and values cross memory once.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from rooflab.model.device.device import Device, Number
from rooflab.model.kernels.common import Columns, Features, KernelTimes, Mechanism, Specs, by_library
from rooflab.model.kernels.gpu import attention_triton, masked_attention
from rooflab.model.kernels.gpu.attention_around import (
    around_backward_s,
    kernel_count,
    merge_s,
    overhead_s_of,
    tail_s,
    turn_s,
)
from rooflab.model.kernels.gpu.attention_libraries import (
    KERNELS,
    LIKE,
    PACKS,
    PACKS_UNLESS_SLIDING,
    PLANS_PROMPTS,
    UNSORTED,
    chosen,
)
from rooflab.model.kernels.gpu.attention_tiles import Tiling, flash_splits, flashinfer_splits, tiling
from rooflab.types.work import Cost, Op, TensorSpec
from rooflab.work.formulas.attention import visible_pairs
from rooflab.work.formulas.cost_terms import item_bytes

COLUMNS: tuple[str, ...] = (
    "serving",
    "sequences",
    "heads",
    "group",
    "queries",
    "visible",
    "longest",
    "shortest",
    "slides",
    "window",
    "size",
    "values",
    "item_bytes",
    "format",
    "backward",
    "packs",
    "resident",
    "mask_loads",
    "planned",
    "kernel",
)
# The place of a number format's name in this tuple is the column `format`; any other counts as the last.
FORMATS: tuple[str, ...] = ("fp16", "bf16", "fp8", "fp32", "tf32", "fp64", "")


# That FlashAttention has kernels for (Dao-AILab/flash-attention, csrc/flash_attn/src); longer heads stay.
_HEAD_SIZES = (32, 64, 96, 128, 192, 256)
_LANES = 128  # of a unit
_VECTOR_BYTES = 16  # that one thread loads at a time


def features(op: Op, inputs: Specs, outputs: Specs, cost: Cost) -> Features | None:
    """The numbers in `COLUMNS`; None for attention that is not fused, or without keys.

    serving: 1 where a serving engine runs it (queries of one group of heads packed into a tile, a paged
    cache), as is taken for an operation given by hand, 0 where PyTorch does; heads: of k and v; group: query
    heads to each; visible, longest, shortest: keys that a query sees, in the mean, at most, at least;
    slides: 1 with a window that is shorter than the keys; window: its keys, 0 for none;
    format: of the products; packs, resident: the constants of these names where the
    operation says that its kernel differs, -1 and 0 where it does not; mask_loads: see `_mask_loads`;
    planned: 1 where the tiles of a batch were assigned before, so that no kernel does it now; kernel: a place in
    `KERNELS`.
    """
    if not op.attrs.get("fused", True) or not cost.total_flop:
        return None
    backward = op.kind == "attention_backward"
    q, k, v = inputs[1:4] if backward else inputs[:3]
    layout = op.attrs.get("layout", "bhsd")
    sequences, heads, queries = _sizes(q, layout)
    _, kv_heads, keys = _sizes(k, op.attrs.get("kv_layout", layout))
    lengths = op.attrs.get("lengths")
    if lengths:
        sequences = len(lengths)
        queries = sum(each[0] for each in lengths) / sequences
        keys = sum(each[1] for each in lengths) / sequences
    sight = {
        name: op.attrs[name] for name in ("causal", "causal_from", "window", "window_right") if name in op.attrs
    }
    queries, keys = max(1, round(queries)), max(1, round(keys))
    pairs, _ = visible_pairs(queries, keys, **sight)
    longest, shortest = op.attrs.get("longest", keys), op.attrs.get("shortest", keys)
    if "pairs" in op.attrs:  # counted from a mask, over all sequences and heads
        pairs = op.attrs["pairs"] / max(1, sequences * heads)
    first, _ = visible_pairs(1, keys - queries + 1, **sight) if sight.get("causal") else (shortest, keys)
    window = sight.get("window")
    compute = str(op.attrs.get("compute") or q.dtype)
    return (
        0.0 if op.name.startswith("aten.") else 1.0,
        sequences,
        kv_heads,
        heads / kv_heads,
        queries,
        max(1.0, pairs / queries),
        max(1, min(longest, window or longest)),
        max(1, min(first, window or first)),
        1.0 if window is not None and window < keys else 0.0,
        float(window or 0),
        _padded(q.shape[-1], op),
        _padded(v.shape[-1], op),
        item_bytes(k),
        FORMATS.index(compute if compute in FORMATS else ""),
        float(backward),
        float(op.attrs.get("packs", -1)),
        float(op.attrs.get("resident", 0)),
        _mask_loads(op, inputs),
        float(op.attrs.get("planned", False)),
        0.0,
    )


def _padded(size: int, op: Op) -> int:
    """The head size that the kernel computes: its own next one, or what the operation says is padded to."""
    sizes = op.attrs.get("head_sizes", _HEAD_SIZES)
    return next((each for each in sizes if each >= size), size)


def _mask_loads(op: Op, inputs: Specs) -> float:
    """Loads for 16 bytes of a mask: one where its rows begin at multiples of them, else one an element."""
    place = 6 if op.kind == "attention_backward" else 3
    if not op.attrs.get("mask") or len(inputs) <= place:
        return 0.0
    mask = inputs[place]
    row = mask.strides[-2] if mask.strides and len(mask.strides) > 1 else mask.shape[-1]
    width = item_bytes(mask)
    return 1.0 if row * width % _VECTOR_BYTES == 0 else max(1.0, _VECTOR_BYTES / width)


def _sizes(spec: TensorSpec, layout: str) -> tuple[int, int, int]:
    """(sequences, heads, tokens of each) of a tensor in one of the formula's layouts."""
    shape = spec.shape
    if layout == "bhsd":
        return math.prod(shape[:-3]), shape[-3], shape[-2]
    if layout == "bshd":
        return math.prod(shape[:-3]), shape[-2], shape[-3]
    return 1, shape[-2], math.prod(shape[:-2])


def time(x: Columns, device: Device) -> KernelTimes:
    """Launch, then the slower of the tiles' walk and the traffic, then the join of split keys.

    Rows of each library's kernel are timed together, with its constants.
    """
    codes = chosen(x["kernel"], x["group"], x["sequences"] * x["heads"], x["longest"], x["item_bytes"], device)
    return by_library(
        dataclasses.replace(x, extra=x.extra | {"kernel": codes}), device, "attention", KERNELS, _time, LIKE
    )


def _time(x: Columns, device: Device) -> KernelTimes:
    c = device.constants
    kernel = KERNELS[int(x["kernel"].flat[0])] if x["kernel"].size else ""
    if kernel == "masked_decode" and c("attention.masked_clocks"):
        return masked_attention.time(x, device)
    packs = np.where(x["packs"] >= 0, x["packs"], PACKS.get(kernel, c("attention.packs")))
    # One query head a tile, even of one query: by what the operation says, or as the library does.
    alone = (x["packs"] == 0) | ((x["packs"] < 0) & (c("attention.packs_single") == 0))
    single, copies = np.zeros_like(alone), np.zeros_like(x["group"])
    if kernel in PACKS_UNLESS_SLIDING:
        alone = alone | (x["window"] > 0)
        single = x["group"] == 1.0
        # The result is copied in any case; turned, as q is, where that is no other view of the same numbers.
        swapped = (x["group"] > 1.0) & (x["queries"] == 1) & ~alone
        copies = swapped * (0.5 + 2.0 * ((x["heads"] > 1.0) & (x["sequences"] > 1.0)))
    resident = np.where(x["resident"] > 0, x["resident"], c("attention.resident"))
    ours = attention_triton.TILES.get(kernel)
    cut = ours(x, device) if ours else tiling(x, kernel, packs, resident, device)
    resident = np.asarray(cut.resident)
    tiles, rows = _tiles(x, cut.queries, packs, alone)
    blocks, longest, shortest = _blocks(x, rows, cut.keys)
    splits = _splits(x, kernel, tiles, longest, resident, alone | single, device)
    tile_rows = x["sequences"] * x["heads"] * x["group"] * x["queries"] / tiles
    block_s, alone_s = _block_s(x, tile_rows, cut, device)
    fixed_s = _tile_s(x, tile_rows, device)
    # Thread blocks on one unit share its engines, and hide each other's fixed times.
    slots = device.units * resident
    shared = np.clip(tiles * splits / device.units, 1.0, resident)
    if kernel == attention_triton.PROMPTS:
        block_s, alone_s = (
            attention_triton.in_window(x, blocks, rows, cut, each, device) for each in (block_s, alone_s)
        )
    busy_s = (tiles / slots) * (splits * fixed_s + blocks * resident * block_s)
    waves = tiles * splits / slots
    ragged_s = (np.ceil(waves) - waves) * (fixed_s + shortest / splits * shared * block_s)
    path_s = fixed_s + np.ceil(longest / splits) * alone_s
    if kernel in UNSORTED:
        hidden = c("attention.hidden_share")
        crowded_s = alone_s * (1.0 + (shared - 1.0) * (1.0 - hidden))
        path_s = fixed_s + np.ceil(longest / splits) * crowded_s
        ragged_s = np.where(waves > 1.0, tail_s(waves, fixed_s, shortest / splits, longest / splits, crowded_s), 0)
    walk_s = np.maximum(np.maximum(path_s, busy_s + ragged_s), _power_s(x, device))
    traffic = x.read_bytes + x.write_bytes
    share = np.where(x["serving"] > 0, c("attention.paged_share"), c("attention.memory_share"))
    memory_s = (traffic - x.hot_read_bytes - x.hot_write_bytes) / (device.memory_bytes_per_s * share)
    # Query heads that have tiles of their own read their group's keys and values each.
    keys = x["sequences"] * x["heads"] * x["longest"] * (x["size"] + x["values"]) * x["item_bytes"]
    again = np.where(alone & (x["queries"] == 1), keys * (x["group"] - 1.0), 0.0)
    cache_s = (traffic + again) / (device.cache_bytes_per_s * c("attention.cache_share"))
    overhead_s = overhead_s_of(x, np.maximum(splits, 2.0) if kernel == attention_triton.DECODE else splits, device)
    if kernel in PLANS_PROMPTS:
        overhead_s = overhead_s + merge_s(x, splits, device)
    if kernel == attention_triton.DECODE:
        overhead_s = (
            overhead_s
            + merge_s(x, np.maximum(splits, 2.0), device)
            + attention_triton.idle_s(x, tiles, splits, device)
        )
    overhead_s = overhead_s + copies * turn_s(x, device)
    time_s = (
        overhead_s + around_backward_s(x, device) + np.maximum(walk_s, fixed_s + np.maximum(cache_s, memory_s))
    )
    zero = np.zeros_like(time_s)
    return KernelTimes(
        time_s=time_s,
        compute_s=zero + tiles / device.units * blocks * block_s,
        near_s=zero,
        cache_s=zero + cache_s,
        memory_s=zero + memory_s,
        overhead_s=zero + overhead_s + fixed_s,
        spread=zero + np.where(_long(x), c("attention.long_spread"), c("attention.spread")),
        kernels=zero + kernel_count(x, splits),
    )


def _tiles(
    x: Columns, tile_queries: Number, packs: Number, alone: np.ndarray | bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """How many tiles of queries there are, and at how many positions the rows of one stand."""
    packed = np.where(((x["serving"] * packs > 0) | (x["queries"] == 1)) & np.logical_not(alone), x["group"], 1.0)
    rows = x["queries"] * packed
    tiles = x["sequences"] * x["heads"] * (x["group"] / packed) * np.ceil(rows / tile_queries)
    return tiles, np.minimum(x["queries"], tile_queries / packed)


def _blocks(x: Columns, rows: np.ndarray, tile_keys: Number) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Blocks of keys that a tile walks over: in the mean, at most, at least.

    The rows of a tile stand at different positions: it walks over all that any of them sees, in whole
    blocks.
    """
    mixed = x["longest"] > x["visible"]
    ends = np.where(mixed, (rows - 1) / 2, 0.0)
    span = x["visible"] + ends + x["slides"] * (rows - 1) / 2
    ragged = np.where(
        mixed | (x["slides"] > 0), 0.5 * (1 - np.minimum(rows / tile_keys, 1)) + 0.5 * x["slides"], 0.0
    )
    most = np.ceil((x["longest"] + x["slides"] * (rows - 1)) / tile_keys)
    mean = np.where(mixed | (x["slides"] > 0), span / tile_keys + ragged, most)
    least = np.ceil(np.minimum(x["shortest"] + rows - 1, x["longest"]) / tile_keys)
    return np.clip(mean, 1.0, np.maximum(most, 1.0)), np.maximum(most, 1.0), np.minimum(least, mean)


def _splits(
    x: Columns,
    kernel: str,
    tiles: np.ndarray,
    longest: np.ndarray,
    resident: np.ndarray,
    alone: np.ndarray,
    device: Device,
) -> np.ndarray:
    """Into how many parts of whole blocks the keys of each tile are split, so that the units have work."""
    c = device.constants
    if kernel == attention_triton.DECODE:
        return attention_triton.parts(x, tiles, device)
    if kernel in PACKS_UNLESS_SLIDING:
        return np.where(alone | (x["queries"] > 1), 1.0, flash_splits(tiles, longest, device.units))
    if kernel in PLANS_PROMPTS:
        return flashinfer_splits(tiles / x["heads"], x["heads"], x["longest"], device.units)
    if c("attention.split_keys"):
        # By keys alone, the root of eight times as many at most, up to some waves (decoderXQAImplCommon.h:
        # computeMultiBlockCount).
        parts = np.floor(x["longest"] / c("attention.split_keys"))
        parts = np.minimum(parts, np.round(np.sqrt(8.0 * parts)))
        waves = np.floor(c("attention.split_waves") * device.units / tiles)
        return np.where(alone, 1.0, np.maximum(np.minimum(parts, waves), 1.0))
    most = np.minimum(np.floor(device.units * resident / tiles), c("attention.split_most"))
    # PyTorch's kernels for many queries don't split.
    splits = (x["backward"] == 0) & ((x["serving"] > 0) | (x["queries"] == 1)) & np.logical_not(alone)
    return np.where(splits, np.maximum(1.0, np.minimum(most, longest)), 1.0)


def _block_s(x: Columns, rows: np.ndarray, cut: Tiling, device: Device) -> tuple[np.ndarray, np.ndarray]:
    """Seconds of one unit for one block: two products, an exponential per pair, reads of shared memory.

    First as many thread blocks as the unit holds share it, each hiding some of the others; then of one alone.
    """
    c = device.constants
    # A tile of few rows (decoding) is padded to those of one group of warps.
    pairs = np.where(rows <= cut.least, cut.least, cut.queries) * cut.keys
    matrix_s = 2 * pairs * (x["size"] + x["values"]) * device.units * _flop_s(x, device)
    matrix_s = matrix_s * np.where(x["format"] == FORMATS.index("fp8"), c("attention.narrow_factor"), 1.0)
    special_s = pairs / (c("attention.exp_per_clock") * device.clock_hz)
    masked_s = x["mask_loads"] * pairs / (c("attention.mask_pairs_per_clock") * device.clock_hz)
    # Keys and values come into shared memory once, and each group of warps reads them all.
    shared_bytes = (1.0 + cut.readers) * cut.keys * (x["size"] + x["values"]) * x["item_bytes"]
    shared_s = shared_bytes * device.units / device.near_bytes_per_s
    forward = c("attention.matrix_factor") * matrix_s + c("attention.exp_factor") * special_s + masked_s
    forward = forward + c("attention.shared_factor") * shared_s + c("attention.block_clocks") / device.clock_hz
    # mma.sync takes 16 bits: each group of warps converts what it has read.
    narrow = (x["item_bytes"] < 2) & (x["format"] < FORMATS.index("fp8"))
    converted = cut.readers * cut.keys * (x["size"] + x["values"]) * c("attention.convert_clocks")
    forward = forward + np.where(narrow, converted / (_LANES * device.clock_hz), 0.0)
    backward = (
        c("attention.backward_factor") * matrix_s + c("attention.backward_exp_factor") * special_s + masked_s
    )
    long = np.where(_long(x), c("attention.long_factor"), 1.0)
    widened = np.where(narrow, c("attention.widen_factor"), 1.0)
    alone_s = np.where(x["backward"] > 0, backward, forward) * long * widened
    return alone_s * (1.0 - c("attention.hidden_share") * (1.0 - 1.0 / cut.resident)), alone_s


def _long(x: Columns) -> np.ndarray:
    """Where rows are longer than the 256 elements that FlashAttention's kernels hold: others run then."""
    return np.maximum(x["size"], x["values"]) > 256


def _flop_s(x: Columns, device: Device) -> np.ndarray:
    """Seconds of a FLOP at the matrix engine's theoretical peak, of all units together.

    Not `x.flop_floor_s`, which with few keys is what the divisions at the end take.
    """
    seconds = x.flop_floor_s / np.maximum(x.matrix_flop, 1)
    for number in np.unique(x["format"]):
        peak, name = device.peak("matrix", FORMATS[int(number)])
        if peak is not None:
            share = device.constants("attention.vector_share") if name.endswith("vector") else 1.0
            seconds = np.where(x["format"] == number, 1 / (share * peak), seconds)
    return seconds


def _power_s(x: Columns, device: Device) -> np.ndarray:
    """Seconds in which the card's power pays for the products, as `matmul` reckons; 0 where it is not stated."""
    c = device.constants
    if not device.machine.tdp_w:
        return np.zeros_like(x.matrix_flop)
    needed_s = x.matrix_flop * c("matmul.joule_per_flop") / (device.machine.tdp_w * device.faster)
    return needed_s if device.sustained else needed_s**2 / (needed_s + c("matmul.power_s"))


def _tile_s(x: Columns, rows: np.ndarray, device: Device) -> np.ndarray:
    """Seconds of one unit for a tile beside its blocks: filling the pipeline, q in, the result out."""
    c = device.constants
    clocks = np.where(x["serving"] > 0, c("attention.serving_tile_clocks"), c("attention.tile_clocks"))
    # A serving kernel masks by each sequence's length in any case.
    diagonal = (x["longest"] > x["visible"]) & (x["serving"] == 0)
    clocks = clocks + (x["slides"] + diagonal) * c("attention.edge_clocks")
    row_bytes = (x["size"] + x["values"]) * x["item_bytes"]
    unit_bytes_per_s = device.cache_bytes_per_s / device.units
    return clocks / device.clock_hz + rows * row_bytes / unit_bytes_per_s * c("attention.row_factor")


MECHANISM = Mechanism("attention", ("gpu",), ("attention", "attention_backward"), COLUMNS, features, time)
