"""Products of a token's row with stored weights, as the engine runs them: joined, scaled, widened."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rooflab.model.serving import beside, ggml_products
from rooflab.model.serving.batch import Number
from rooflab.model.serving.kernels import HALF_BYTES, Kernel, product
from rooflab.model.serving.row_kernels import norm, pointwise
from rooflab.work.llm.formats import WeightFormat, weight_format

if TYPE_CHECKING:
    from rooflab.model.serving.program import Run


LAYER = "attention"  # of all mixers, and of what stands in front of them and behind


def linear(
    run: Run,
    layer: str,
    name: str,
    count: float,
    m: Number,
    widths: Sequence[float],
    k: float,
    stored: WeightFormat,
    *,
    scaled: bool = False,
) -> list[Kernel]:
    """Products of m rows of k with matrices of these widths, joined where the engine does; scaling before them.

    `scaled` says that the kernel before has left the rows in the product's format already.
    """
    made: list[Kernel] = []
    if run.engine.one_by_one:
        return ggml_products.linear(run, layer, name, count, m, widths, k, stored)
    narrow = stored.activations and not (scaled and run.engine.joins_scaling)
    if narrow:
        made += scaling(run, layer, count, m, k, stored)
    made += beside.adapters(run, layer, name, count, m, [float(each) for each in widths], k)
    joined = [float(sum(widths))] if run.engine.joins_projections else [float(each) for each in widths]
    return made + [kernel for each in joined for kernel in products(run, layer, name, count, m, each, k, stored)]


def products(
    run: Run, layer: str, name: str, count: float, m: Number, n: float, k: float, stored: WeightFormat
) -> list[Kernel]:
    """One product as the engine runs it."""
    if run.engine.one_by_one:
        return ggml_products.product(run, layer, name, count, m, n, k, stored)
    if run.engine.stream_rows and stored.bits < 16:
        return _streamed(run, layer, name, count, m, n, k, stored)
    if not stored.widens:
        return [product(layer, name, count, m, n, k, stored)]
    rows = np.asarray(m, float)
    several = np.where(rows > 1, rows, 0.0)
    return [
        *_widened(layer, name, count, several, n, k, stored),
        _where_any(rows - several, product(layer, name, count, rows - several, n, k, stored)),
    ]


def _streamed(
    run: Run, layer: str, name: str, count: float, m: Number, n: float, k: float, stored: WeightFormat
) -> list[Kernel]:
    """Of few rows the weights go past them once, on ordinary lanes; of more they are written in 16 bits first."""
    rows = np.asarray(m, float)
    few = np.where(rows <= run.engine.stream_rows, rows, 0.0)
    many = rows - few
    weights = n * k * stored.nbytes
    elements = n * k * (few > 0)
    # A weight is widened in about one instruction and a half, and half of one multiplies two of a row.
    passing = pointwise(
        layer, name, count, elements, reads=stored.nbytes, writes=0.0, instructions=1.5 + few / 2.0
    )
    into, out = few * k * HALF_BYTES, few * n * HALF_BYTES
    return [
        dataclasses.replace(
            passing, warm_bytes=into, weight_bytes=weights * (few > 0), read_bytes=passing.read_bytes + into,
            write_bytes=out, flop=2.0 * few * n * k, dtype="fp32",
        ),
        *_widened(layer, name, count, many, n, k, stored),
    ]  # fmt: skip


def _widened(
    layer: str, name: str, count: float, rows: Number, n: float, k: float, stored: WeightFormat
) -> list[Kernel]:
    some = np.asarray(rows) > 0
    made = pointwise(layer, f"{name}: widen weights", count, n * k * some, reads=stored.nbytes, writes=2.0)
    return [
        dataclasses.replace(made, warm_bytes=0.0, weight_bytes=made.read_bytes),
        _where_any(rows, product(layer, name, count, rows, n, k, weight_format("fp16"))),
    ]


def _where_any(rows: Number, made: Kernel) -> Kernel:
    """A product that settings without a row do not run: they read no weights for it."""
    some = np.asarray(rows) > 0
    return dataclasses.replace(made, read_bytes=made.read_bytes * some, weight_bytes=made.weight_bytes * some)


def scaling(run: Run, layer: str, count: float, m: Number, k: float, stored: WeightFormat) -> list[Kernel]:
    """Rows brought to the product's narrow format, by a kernel of its own."""
    return [norm(layer, "scale activations", count, m, k, reads=2.0, writes=1.0, warm=2.0)]


def projected(run: Run, count: float, out: float) -> list[Kernel]:
    """What attention gives, `out` values a token, back in the model's width."""
    widths = (float(run.model.hidden),)
    return linear(run, LAYER, "project the result", count, run.tokens, widths, out, run.precision.of_result)
