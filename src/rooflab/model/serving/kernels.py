"""Products, attention and collectives of one step on one rank, as columns for the mechanisms of `model.kernels`.

Each kernel says how often the step runs it and what it moves and computes; nothing here takes time.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

import numpy as np

from rooflab.model.kernels.gpu import attention as gpu_attention
from rooflab.model.kernels.gpu import attention_libraries
from rooflab.model.kernels.gpu import matmul as gpu_matmul
from rooflab.model.peers import PeerSums
from rooflab.work.llm.formats import WeightFormat

Number = float | np.ndarray
HALF_BYTES = 2.0  # of an activation: engines compute in bf16 between products


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """One sort of kernel of a step.

    Attributes:
        layer: which kind of layer it belongs to: "attention", "mlp", "experts", "embedding", "head", "norm", ….
        name: what it does.
        sort: the mechanism that times it: "matmul", "attention", "stream", "normalization", "gather", "blocks",
            or "collective".
        count: how often the step runs it.
        columns: of that mechanism.
        read_bytes, write_bytes: through memory where no cache helps.
        warm_bytes: of those read, what the kernel before has just written.
        again_bytes: of those read, what another block of the kernel has read just before.
        weight_bytes: of those read, weights.
        flop: multiplications and additions of products; `dtype` that of their operands.
        calls: of the host for each run, where every operation is a call of its own.
    """

    layer: str
    name: str
    sort: str
    count: Number
    columns: dict[str, Number] = field(default_factory=dict)
    read_bytes: Number = 0.0
    write_bytes: Number = 0.0
    warm_bytes: Number = 0.0
    again_bytes: Number = 0.0
    weight_bytes: Number = 0.0
    flop: Number = 0.0
    dtype: str = "bf16"
    calls: float = 1.0


def product(
    layer: str,
    name: str,
    count: Number,
    m: Number,
    n: Number,
    k: Number,
    stored: WeightFormat,
    *,
    out_bytes: float = HALF_BYTES,
    share: float = 0.0,
    library: str = "",
) -> Kernel:
    """M rows of k numbers times a matrix of k x n weights.

    `share` as of `grouped`, 0 for a library's product; `library` of `model.kernels.gpu.matmul.KERNELS`.
    """
    made = _product(layer, name, count, m, n, k, stored, 1.0, out_bytes, share)
    made.columns["kernel"] = float(gpu_matmul.KERNELS.index(library))
    return made


# Rows of the last tile of each group that have nothing in them, in the mean: half of a tile of 128 (Triton's and
# CUTLASS's grouped products pad every group to whole tiles), less where groups are small: so are tiles then.
_RAGGED_ROWS = 64.0


def grouped(
    layer: str,
    name: str,
    count: Number,
    rows: Number,
    n: Number,
    k: Number,
    active: Number,
    stored: WeightFormat,
    *,
    share: float = 1.0,
    even: bool = False,
    library: str = "",
    tile_rows: Number = 0.0,
    uneven: Number = 1.0,
    aligned_bytes: Number = gpu_matmul.ALIGNED_BYTES,
) -> Kernel:
    """`rows` rows of k numbers, each times one of `active` matrices of k x n weights, in one kernel.

    Args:
        share: of the matrix engine's rate in such kernels, how much this engine's attains.
        even: whether all groups have as many rows: a plain batch of products.
        library: of `model.kernels.gpu.matmul.KERNELS`.
        tile_rows: rows of a tile, where the engine chooses them; 0 where the library does.
        uneven: 0 where groups are of one size, 1 where sizes fall off exponentially (`gpu.matmul`).
        aligned_bytes: what the kernel knows the starts of rows to be multiples of.
    """
    active = np.maximum(np.minimum(active, rows), 1e-9)
    made = _product(layer, name, count, rows / active, n, k, stored, active, HALF_BYTES, 0.0 if even else share)
    made.columns.update(kernel=float(gpu_matmul.KERNELS.index(library)), aligned_bytes=aligned_bytes)
    if not even and library:
        made.columns.update(uneven=uneven, tile_rows=tile_rows)
    elif not even:
        mean = rows / active
        made.columns["m"] = np.maximum(mean + _RAGGED_ROWS * -np.expm1(-mean / 256.0), 1.0)
    return made


def _product(
    layer: str,
    name: str,
    count: Number,
    m: Number,
    n: Number,
    k: Number,
    stored: WeightFormat,
    batch: Number,
    out_bytes: float,
    grouped: float,
) -> Kernel:
    item = _ITEM_BYTES[stored.multiplies]
    pipe = gpu_matmul.PIPES.index(_PIPES[stored.multiplies])
    weights = n * k * batch * stored.nbytes
    into, out = m * batch * k * item, m * batch * n * out_bytes
    return Kernel(
        layer=layer,
        name=name,
        sort="matmul",
        count=count,
        columns={
            "m": np.maximum(m, 1.0),
            "n": n,
            "k": k,
            "batch": batch,
            "item_bytes": item,
            "b_item_bytes": min(stored.nbytes, item),
            "out_item_bytes": out_bytes,
            "aligned_bytes": gpu_matmul.ALIGNED_BYTES,
            "a_along_k": 1.0,
            "b_along_k": 1.0,
            "pipe": pipe,
            "grouped": grouped,
            "uneven": 0.0,
            "tile_rows": 0.0,
            "block_scaled": float(stored.activations == "block" and stored.multiplies == "fp8"),
            "kernel": 0.0,
        },
        read_bytes=into + weights,
        write_bytes=out,
        warm_bytes=into,
        weight_bytes=weights,
        flop=2.0 * m * batch * n * k,
        dtype=stored.multiplies,
        calls=stored.calls,
    )


_ITEM_BYTES = {"bf16": 2.0, "fp16": 2.0, "fp32": 4.0, "fp8": 1.0, "int8": 1.0, "fp4": 0.5}
_PIPES = {"bf16": "half", "fp16": "half", "fp32": "fp32", "fp8": "fp8", "int8": "int8", "fp4": "fp8"}


def attention(
    layer: str,
    name: str,
    count: Number,
    *,
    sequences: Number,
    new: Number,
    before: Number,
    heads: float,
    kv_heads: float,
    size: int,
    values: int,
    window: int = 0,
    every: int = 0,
    cached_bytes: float = HALF_BYTES,
    dtype: str = "bf16",
    v_in_k: bool = False,
    planned: bool = False,
    packs: float = -1.0,
    resident: float = 0.0,
    causal: bool = True,
    limit: int = 0,
    shares: bool = True,
    kernel: str = "",
    skips: bool = True,
) -> Kernel:
    """Attention of `new` tokens of each sequence to the `before` ones in the cache and to each other.

    Args:
        window: keys that a query sees; `limit` the most that a sparse kernel picks for it; 0 for no bound.
        every: beside its window, if it has one, a query sees a key for each so many tokens before it, at most
            `limit`; 0 for none.
        cached_bytes: of an element of keys and values.
        shares: whether the heads of a group read their keys and values together; else each through the cache.
        kernel: of `model.kernels.gpu.attention_libraries.KERNELS`.
        skips: whether tiles before the window are skipped by one of `WALKS_ALL`, as all others do.
        v_in_k: whether values are a part of the keys' vectors, read once (latent attention).
    """
    keys = before + new
    picked = 0 if every else limit
    bound = min(each for each in (window, picked) if each) if window or picked else 0.0 if every else np.inf
    pairs = sequences * new * (_visible(new, before, bound) if causal else keys + 0.0 * new)
    if not skips and kernel in attention_libraries.WALKS_ALL:
        bound = picked or np.inf
    visible = _visible(new, before, bound) if causal else keys + 0.0 * new
    longest = np.minimum(keys, bound)
    shortest = np.minimum(before + 1.0, bound) if causal else keys
    touched = np.minimum(keys, bound + new - 1.0) if picked == 0 else np.minimum(keys, bound * new)
    if every:
        most = float(limit) if limit else np.inf
        blocks = _visible(new, before, most * every) / every
        pairs, visible = pairs + sequences * new * blocks, visible + blocks
        longest = longest + np.minimum(keys / every, most)
        shortest = shortest + np.minimum((before + 1.0) / every, most)
        touched = (touched if window else 0.0) + (np.minimum(keys / every, limit * new) if limit else keys / every)
    kv = sequences * kv_heads * touched * (size + (0 if v_in_k else values)) * cached_bytes
    item = _ITEM_BYTES[dtype]
    q = sequences * new * heads * size * item
    padded = next((each for each in (32, 64, 96, 128, 192, 256) if each >= size), size)
    padded_values = next((each for each in (32, 64, 96, 128, 192, 256) if each >= values), values)
    return Kernel(
        layer=layer,
        name=name,
        sort="attention",
        count=count,
        columns={
            "serving": 1.0,
            "sequences": sequences,
            "heads": kv_heads,
            "group": heads / kv_heads,
            "queries": np.maximum(new, 1.0),
            "visible": np.maximum(visible, 1.0),
            "longest": np.maximum(longest, 1.0),
            "shortest": np.maximum(shortest, 1.0),
            "slides": np.where((window > 0) & (keys > bound), 1.0, 0.0),
            "window": float(window),
            "size": padded,
            "values": padded_values,
            "item_bytes": cached_bytes,
            "format": float(gpu_attention.FORMATS.index(dtype)),
            "backward": 0.0,
            "packs": packs if shares else 0.0,
            "resident": resident,
            "mask_loads": 0.0,
            "planned": float(planned),
            "kernel": float(attention_libraries.KERNELS.index(kernel)),
        },
        read_bytes=q + kv,
        write_bytes=sequences * new * heads * values * HALF_BYTES,
        warm_bytes=q,
        flop=2.0 * pairs * heads * (size + values),
        dtype=dtype,
    )


def _visible(new: Number, before: Number, bound: float) -> Number:
    """Keys that a query sees in the mean: before + (new + 1) / 2, each at most `bound`."""
    first, last = before + 1.0, before + new
    whole = np.clip(bound - before, 0.0, new)  # queries that see all before them
    ramp = whole * (first + np.minimum(last, bound)) / 2.0
    total = ramp + (new - whole) * np.where(np.isinf(bound), 0.0, bound)
    return total / np.maximum(new, 1.0)


def collective(
    layer: str,
    name: str,
    count: Number,
    function: str,
    nbytes: Number,
    ranks: int,
    *,
    sums: PeerSums | None = None,
) -> Kernel:
    """A collective of `ranks`; `nbytes` the larger of what a rank gives and gets.

    `sums`: which kernels of its own the engine has for it, if any.
    """
    return Kernel(
        layer=layer,
        name=name,
        sort="collective",
        count=count,
        columns={
            "message_bytes": nbytes,
            "ranks": float(ranks),
            "peers": float(sums is not None),
            "function": _code(function),
        }
        | ({} if sums is None else {name: float(value) for name, value in sums._asdict().items()}),
    )


@functools.cache
def _code(function: str) -> float:
    from rooflab.model.collectives import FUNCTIONS

    return float(FUNCTIONS.index(function))
