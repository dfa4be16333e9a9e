"""The kernels of a step that compute no products: norms, element-wise ones, moved rows, look-ups in a table."""

from __future__ import annotations

import numpy as np

from rooflab.model.kernels.gpu.passes import CODE, Pass
from rooflab.model.serving.kernels import HALF_BYTES, Kernel, Number


def norm(
    layer: str,
    name: str,
    count: Number,
    rows: Number,
    width: Number,
    *,
    reads: Number,
    writes: Number,
    warm: Number = 0.0,
) -> Kernel:
    """A kernel over rows of `width` that reads and writes so many bytes an element: norms, scaling."""
    elements = rows * width
    steps = np.ceil(width / _NORM_STEP)
    resident = np.clip(2.0 * _NORM_STEP / width, 2.0, 16.0)
    return Kernel(
        layer=layer,
        name=name,
        sort="normalization",
        count=count,
        columns=_passes(
            3,
            Pass(
                code=CODE["rms_norm"],
                elements=elements,
                rows=rows,
                blocks=rows / resident,
                steps=steps,
                again_bytes=elements * HALF_BYTES,
                held_bytes=resident * width * HALF_BYTES,
                read_bytes=elements * reads,
                write_bytes=elements * writes,
            ),
        ),
        read_bytes=elements * reads,
        write_bytes=elements * writes,
        warm_bytes=elements * warm,
    )


# Engines' kernels over rows have up to 1024 threads of 8 elements each a row (vllm-project/vllm,
# csrc/layernorm_kernels.cu); a unit holds two such blocks, more of shorter rows.
_NORM_STEP = 8192.0


def pointwise(
    layer: str,
    name: str,
    count: Number,
    elements: Number,
    *,
    reads: float,
    writes: float,
    instructions: Number = 10.0,
    casts: bool = False,
) -> Kernel:
    """An element-wise kernel that reads and writes so many bytes for an element of its result.

    `casts`: whether PyTorch casts by it between formats that it has no vectorised kernel for.
    """
    main = Pass(
        code=CODE["casting" if casts else "vectorized"],
        elements=elements,
        instructions=0.0 if casts else instructions,
        blocks=elements / 16384.0,
        read_bytes=elements * reads,
        write_bytes=elements * writes,
    )
    return _of_one_pass(layer, name, count, main, warm_bytes=elements * reads)


def _of_one_pass(layer: str, name: str, count: Number, main: Pass, *, warm_bytes: Number) -> Kernel:
    """A streaming kernel whose bytes are those of its only pass."""
    return Kernel(
        layer=layer,
        name=name,
        sort="stream",
        count=count,
        columns=_passes(2, main),
        read_bytes=main.read_bytes,
        write_bytes=main.write_bytes,
        warm_bytes=warm_bytes,
    )


def rows_of_blocks(
    layer: str,
    name: str,
    count: Number,
    blocks: Number,
    threads: float,
    read_bytes: Number,
    write_bytes: Number,
    turns: Number = 0.0,
    converted: Number = 0.0,
) -> Kernel:
    """Many small thread blocks, each of which moves a row: RoPE, writing the paged cache.

    `turns`: how often a block goes back for more of a row that it walks over twice; `converted`: numbers that are
    divided by a scale and brought to 8 bits on the way.
    """
    return Kernel(
        layer=layer,
        name=name,
        sort="blocks",
        count=count,
        columns={"blocks": np.maximum(blocks, 1.0), "threads": threads, "turns": turns, "converted": converted},
        read_bytes=read_bytes,
        write_bytes=write_bytes,
        warm_bytes=read_bytes,
    )


def lookup(layer: str, name: str, count: Number, rows: Number, width: float, table_bytes: float) -> Kernel:
    """Rows of a table, by their numbers."""
    row_bytes = width * HALF_BYTES
    return Kernel(
        layer=layer,
        name=name,
        sort="gather",
        count=count,
        columns=_passes(
            2,
            Pass(
                code=CODE["gather_rows"],
                elements=rows * width,
                rows=rows,
                blocks=rows / 4.0,
                steps=np.ceil(row_bytes / 16.0 / 512.0),
                read_bytes=rows * 8.0,
                write_bytes=rows * row_bytes,
                random_bytes=rows * row_bytes,
                random_rows=rows,
                table_bytes=table_bytes,
            ),
        ),
        read_bytes=rows * (8.0 + row_bytes),
        write_bytes=rows * row_bytes,
    )


def _passes(count: int, main: Pass) -> dict[str, Number]:
    """The columns of a mechanism of `count` passes that has one."""
    columns: dict[str, Number] = {f"{name}_0": value for name, value in zip(Pass._fields, main, strict=True)}
    for number in range(1, count):
        columns |= {f"{name}_{number}": value for name, value in zip(Pass._fields, Pass(), strict=True)}
    return columns
