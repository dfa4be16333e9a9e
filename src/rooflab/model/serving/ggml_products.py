"""Operations of ggml and its products of blocks: bytes, tiles that are computed whole, instructions of a CPU.

By ggml-org/llama.cpp as of the end of 2025: ggml-cuda/mmq.cuh, mmvq.cuh and mmid.cu, ggml-metal, ggml-cpu.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rooflab.model.serving import beside, ggml_cores
from rooflab.model.serving import kernels as made_by
from rooflab.model.serving.batch import Number
from rooflab.model.serving.kernels import Kernel
from rooflab.work.llm.formats import WeightFormat

if TYPE_CHECKING:
    from rooflab.model.serving.program import Run

ITEM_BYTES = 4.0  # bytes of an activation
_Q8 = 1.125  # bytes of an activation in blocks of 32 numbers of 8 bits with a scale and a sum (block_q8_1)
_BLOCK = 32.0  # numbers that share a scale
# Tokens up to which each row of a routed product streams its expert's weights by itself (ggml-metal:
# kernel_mul_mm_id from 32 tokens on).
_BY_ROW = {"apple": 31.0}


def operation(
    layer: str,
    name: str,
    count: float,
    *,
    reads: Number,
    writes: Number,
    warm: Number | None = None,
    weights: Number = 0.0,
    starts: Number = 1.0,
    flop: Number = 0.0,
    dtype: str = "fp32",
    scalings: Number = 0.0,
    blocks: Number = 0.0,
    core_clocks: Number = 0.0,
    wide_clocks: Number = 0.0,
    arm_instructions: Number = 0.0,
    arm_of_many: Number = 0.0,
    clocks: Number = 0.0,
) -> Kernel:
    """One of ggml's operations: bytes, of them warm ones (all, where not given) and weights; how many kernels.

    `scalings` are sums of a block of products that ordinary lanes scale; `blocks` is 1 where operands are blocks;
    `clocks` are those of loads and answers of one thread block that wait for each other.
    On a CPU: `core_clocks`, `wide_clocks`, `arm_instructions` and `arm_of_many`, see `ggml_cores`.
    """
    return Kernel(
        layer=layer,
        name=name,
        sort="ggml",
        count=count,
        columns={
            "starts": starts,
            "scalings": scalings,
            "blocks": blocks,
            "core_clocks": core_clocks,
            "wide_clocks": wide_clocks,
            "arm_instructions": arm_instructions,
            "arm_of_many": arm_of_many,
            "clocks": clocks,
        },
        read_bytes=reads,
        write_bytes=writes,
        warm_bytes=reads if warm is None else warm,
        weight_bytes=weights,
        flop=flop,
        dtype=dtype,
    )


def is_blocks(stored: WeightFormat) -> bool:
    """Whether weights are blocks of GGUF, which meet activations in blocks of 8 bits."""
    return stored.bits < 16 and (stored.activations == "block" or stored.name == "mxfp4")


def pass_over(
    layer: str, name: str, count: float, elements: Number, reads: float = 1.0, writes: float = 1.0
) -> Kernel:
    """An operation over elements: so many operands read and written."""
    return operation(
        layer, name, count, reads=elements * reads * ITEM_BYTES, writes=elements * writes * ITEM_BYTES
    )


def product(
    run: Run,
    layer: str,
    name: str,
    count: float,
    rows: Number,
    n: float,
    k: float,
    stored: WeightFormat,
    active: Number = 1.0,
    chosen: float = 1.0,
    *,
    beside: float = 0.0,
) -> list[Kernel]:
    """`rows` rows of k numbers times one of `active` matrices of k x n weights each; `beside` more matrices fused.

    Of rows of `chosen` experts each the bound of few is that many times higher.
    """
    rows = np.asarray(rows, float)
    most, of_rows = run.engine.stream_rows, active
    if chosen > 1 and run.family in _BY_ROW:
        most, of_rows = _BY_ROW[run.family], np.maximum(active, rows)
    few = np.where(rows <= most * chosen, rows, 0.0)
    some, many = np.where(few > 0, 1.0, 0.0), rows - few
    into = rows * k
    made = []
    if is_blocks(stored):
        made.append(operation(layer, "to blocks", count, reads=into * ITEM_BYTES, writes=into * _Q8))
    item = _Q8 if is_blocks(stored) else ITEM_BYTES
    weights = n * k * of_rows * stored.nbytes * (1.0 + beside)
    made.append(
        operation(
            layer, name, count,
            reads=some * weights + few * k * item, writes=few * n * ITEM_BYTES, warm=few * k * item,
            weights=some * weights, flop=2.0 * few * n * k * (1.0 + beside),
            dtype="int8" if is_blocks(stored) else stored.multiplies,
            **_on_cores(run, few * (1.0 + beside), n, k, stored, active, chosen),
        )
    )  # fmt: skip
    if not beside:
        made += _many(run, layer, name, count, many, n, k, stored, active, chosen)
    return made


def _many(
    run: Run,
    layer: str,
    name: str,
    count: float,
    rows: np.ndarray,
    n: float,
    k: float,
    stored: WeightFormat,
    active: Number,
    chosen: float,
) -> list[Kernel]:
    some = np.where(rows > 0, 1.0, 0.0)
    weights = some * n * k * active * stored.nbytes
    if not is_blocks(stored):
        if run.family in ("apple", "cpu"):  # their kernels read fp32 and multiply 16 bits
            reads, out = weights + rows * k * ITEM_BYTES, rows * n * ITEM_BYTES
            warm, flop = rows * k * ITEM_BYTES, 2.0 * rows * n * k
            return [
                operation(
                    layer,
                    name,
                    count,
                    reads=reads,
                    writes=out,
                    warm=warm,
                    weights=weights,
                    flop=flop,
                    dtype="fp16",
                    **_on_cores(run, rows, n, k, stored, active, chosen),
                )
            ]
        halves = operation(layer, "to 16 bits", count, reads=rows * k * ITEM_BYTES, writes=rows * k * 2.0)
        if np.any(np.asarray(active) > 1):
            return [halves, made_by.grouped(layer, name, count, rows, n, k, active, stored)]
        return [halves, made_by.product(layer, name, count, rows, n, k, stored, out_bytes=ITEM_BYTES)]
    tall, wide, deep = _TILES.get(run.family, _TILE)
    padded = _whole_tiles(rows, active, chosen, tall)
    multiplied = padded * _up(n, wide) * _up(k, deep)
    return [
        operation(
            layer, name, count,
            reads=weights + rows * k * _Q8, writes=rows * n * ITEM_BYTES, warm=rows * k * _Q8, weights=weights,
            starts=2.0, flop=2.0 * multiplied, dtype="int8",
            scalings=multiplied / _BLOCK * _scales(stored), blocks=1.0,
            **_on_cores(run, rows, n, k, stored, active, chosen),
        )
    ]  # fmt: skip


# Rows, columns and depth of a tile of such products, which is computed whole: mmq.cuh's MMQ_Y and MMQ_ITER_K of
# ggml-cuda, whose columns are as many as the batch asks for, up to 128; kernel_mul_mm of ggml-metal.
_TILE, _TILES = (128.0, 128.0, 256.0), {"apple": (32.0, 64.0, 32.0), "cpu": (1.0, 1.0, 1.0)}
_STEP = 8.0  # tiles of fewer rows than the largest are made in steps of so many


def _up(number: float, step: float) -> float:
    return -(-number // step) * step


def _whole_tiles(rows: np.ndarray, active: Number, chosen: float, largest: float) -> np.ndarray:
    """Rows of all tiles: as few of them as hold the tokens, and no taller than they must be.

    An expert's rows may be those of all tokens, so a tile is as tall as all of them ask for, though most experts
    have few: `active` experts of m rows in the mean, spread exponentially, have 1 / (1 - exp(-tile / m)) tiles.
    """
    tokens = np.maximum(rows / chosen, 1.0)
    tall = np.minimum(np.ceil(tokens / np.ceil(tokens / largest) / _STEP) * _STEP, largest)
    several = np.asarray(active, float) > 1
    mean = np.maximum(rows / np.maximum(active, 1.0), 1e-9)
    tiles = np.where(several, active / -np.expm1(-tall / mean), np.ceil(rows / tall))
    return np.where(rows > 0, tiles * tall, 0.0)


def _on_cores(
    run: Run, rows: Number, n: float, k: float, stored: WeightFormat, active: Number, chosen: float
) -> dict[str, Number]:
    by_row = run.engine.experts_by_row and chosen > 1
    how = {"widens_once": run.engine.widens_once, "experts_by_row": by_row}
    how["together"] = run.engine.rows_together
    return ggml_cores.taken(rows, n, k, stored, active, **how)


def _scales(stored: WeightFormat) -> float:
    """Scalings of a block of 32: two where scales are of 16 weights, half a one more with a least value added."""
    name = stored.name
    if name.startswith(("q6_k", "q3_k", "q2_k", "iq2", "iq1_m")):
        return 2.0
    return 1.5 if name.startswith(("q4_1", "q5_1", "q4_k", "q5_k")) else 1.0


def linear(
    run: Run,
    layer: str,
    name: str,
    count: float,
    rows: Number,
    widths: Sequence[float],
    k: float,
    stored: WeightFormat,
) -> list[Kernel]:
    """Products of the same rows with several matrices, each by itself, and their adapters."""
    made = [each for n in widths if n for each in product(run, layer, name, count, rows, float(n), k, stored)]
    return made + beside.adapters(run, layer, name, count, rows, [float(each) for each in widths], k)
