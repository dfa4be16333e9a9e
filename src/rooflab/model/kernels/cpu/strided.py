"""Operands that NumPy's inner loop steps through over lines, as down the columns of a transposed array.

The loop is ordered as NumPy orders it: a copy by the strides of what it writes (`PyArray_CreateSortedStridePerm`),
a ufunc by those of all operands, in C order where they disagree (numpy/_core/src/multiarray/nditer_constr.c,
`npyiter_find_best_axis_ordering`). An operand whose innermost step is a line or more touches another line with
each element. The next inner loop wants the neighbours in the same lines. So each line comes once from where the
array lies, and again from the cache that holds the lines of one inner loop beside as many that are written.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from rooflab.model.device.device import Device
from rooflab.model.kernels.common import Columns
from rooflab.model.kernels.cpu import core_times
from rooflab.model.kernels.cpu.walk import LINE_BYTES, axis_order, contiguous, fitting, strides_of
from rooflab.types.work import Op, TensorSpec

COLUMNS = ("lines_again", "lines_first", "column_bytes", "column_sets")

_MOVES = ("layout", "copy", "cast")


class Strided(NamedTuple):
    """Lines that an operation waits for beside its streams.

    Attributes:
        again: touched again, in the cache that holds `column_bytes`.
        first: touched first, where no prefetcher foresees it: each on another page.
        column_bytes: lines of one inner loop, and as many that are written.
        sets: one of so many sets of a cache is used, where the step is a multiple of a power of two of lines.
    """

    again: float
    first: float
    column_bytes: float
    sets: float


NOTHING = Strided(0.0, 0.0, 0.0, 1.0)


def strided(op: Op, inputs: tuple[TensorSpec, ...], outputs: tuple[TensorSpec, ...]) -> Strided:
    """The lines that `op` steps through; nothing where every operand is walked as it lies."""
    if not outputs or op.kind not in (*_MOVES, "pointwise"):
        return NOTHING
    if op.kind == "pointwise":
        operands, shape = (*inputs, *outputs), outputs[0].shape
    else:
        operands, shape = _moved(op, inputs, outputs[0])
    return _of(operands, shape, copies=op.kind != "pointwise")


def walked(inputs: tuple[TensorSpec, ...], outputs: tuple[TensorSpec, ...]) -> Strided:
    """The lines that a loop over the results in their order steps through; nothing for results of other shapes."""
    if not outputs or any(math.prod(spec.shape) > math.prod(outputs[0].shape) for spec in inputs):
        return NOTHING
    return _of((*inputs, *outputs[:1]), outputs[0].shape, copies=True)


def mirrored(op: Op, outputs: tuple[TensorSpec, ...]) -> Strided:
    """The lines that NumPy steps through to copy one triangle of a matrix times its own transpose to the other.

    BLAS's syrk leaves a triangle; two plain loops copy it, reading along rows and writing down columns
    (numpy/_core/src/common/cblasfuncs.c, `syrk`), of half the rows in the mean.
    """
    out = outputs[0]
    rows = out.shape[-1] if len(out.shape) > 1 else 0
    triangle = rows * (rows + 1) // 2
    products = math.prod(out.shape[:-2])
    if (
        core_times.is_torch(op)
        or not triangle
        or op.attrs.get("fma") != products * op.attrs.get("k", 0) * triangle
    ):
        return NOTHING
    item = out.nbytes / max(out.elements, 1)
    copied, lines = float(triangle - rows), (triangle - rows) * item / LINE_BYTES
    step = rows * item
    first = products * lines * min(step / core_times.PAGE_BYTES, 1.0)
    return Strided(products * (copied - lines), first, rows * LINE_BYTES, _shared_factor(step / LINE_BYTES))


def _moved(
    op: Op, inputs: tuple[TensorSpec, ...], out: TensorSpec
) -> tuple[tuple[TensorSpec, ...], tuple[int, ...]]:
    """The two sides of a copy, over the dimensions of what is read; a result of another shape is in C order.

    Of a "layout" whose operands state no strides, all that is known is that it is transposed.
    """
    x = next(iter(inputs), None)
    if x is None or (inputs[1:] and any(each.shape != out.shape for each in inputs)):
        return (), ()  # parts of a whole, each copied by itself
    written = out if out.shape == x.shape else TensorSpec(x.shape, out.dtype, out.nbytes)
    if op.kind == "layout" and x.strides is None and written.strides is None and len(x.shape) > 1:
        turned = (*x.shape[:-2], x.shape[-1], x.shape[-2])
        own = contiguous(turned)
        written = TensorSpec(x.shape, out.dtype, out.nbytes, strides=(*own[:-2], own[-1], own[-2]))
    return (x, written), x.shape


def _of(operands: tuple[TensorSpec, ...], shape: tuple[int, ...], copies: bool) -> Strided:
    operands = tuple(fitting(operands, shape))
    if not operands or math.prod(shape) <= 1:
        return NOTHING
    strides = [strides_of(spec, shape) for spec in operands]
    axes = axis_order(shape, strides[-1:] if copies else strides)
    again = first = column = 0.0
    sets = 1.0
    for spec, each in zip(operands, strides, strict=True):
        item = spec.nbytes / max(spec.elements, 1)
        step = abs(each[axes[-1]]) * item
        least, length = min(
            ((abs(each[axis]) * item, shape[axis]) for axis in axes if each[axis]), default=(0.0, 1)
        )
        if step < LINE_BYTES or not least:
            continue
        run = shape[axes[-1]]
        touches = math.prod(size for size, stride in zip(shape, each, strict=True) if stride)
        lines = min(float(touches), touches / length * max(length * least / LINE_BYTES, 1.0))
        again += touches - lines
        # Prefetchers follow a step within a page (4 KiB), and start anew on the next.
        first += lines * min(step / core_times.PAGE_BYTES, 1.0)
        column += 2.0 * run * LINE_BYTES
        sets = max(sets, _shared_factor(step / LINE_BYTES))
    return Strided(again, first, column, sets)


def _shared_factor(step_lines: float) -> float:
    """The largest power of two that divides a step of whole lines; 1 for any other."""
    whole = round(step_lines)
    return float(whole & -whole) if whole > 0 and math.isclose(whole, step_lines) else 1.0


def waits_s(x: Columns, device: Device, threads: np.ndarray) -> np.ndarray:
    """Seconds that strided lines are waited for, as many at once as a core has misses under way.

    The nearest caches choose a set by address bits: of a step of 2^n lines, lines of one column share few sets,
    and only so much of the cache holds them. The last cache spreads its lines by a hash of all bits.
    """
    cores = core_times.cores_of_cpu(device)
    private = next((tier.capacity_bytes for tier in reversed(cores.tiers[:-1]) if tier.shared_by == 1), 0.0)
    crowded = x["column_bytes"] * x["column_sets"]
    last_s = np.maximum(
        core_times.latency_s(x["column_bytes"], device), cores.tiers[max(len(cores.tiers) - 2, 0)].latency_s
    )
    again = x["lines_again"] * np.where(crowded <= private, core_times.latency_s(crowded, device), last_s)
    hot = x.hot_read_bytes / np.maximum(x.read_bytes, 1.0)
    lines_bytes = np.maximum(x.footprint_bytes, x["lines_first"] * LINE_BYTES)
    held = core_times.latency_s(np.minimum(lines_bytes, cores.cache_bytes), device)
    # Several cores wait for as many more lines of memory at once as it gives them together.
    memory = cores.tiers[-1]
    at_once = np.minimum(threads, np.maximum(memory.all_read / memory.core_read, 1.0))
    first = x["lines_first"] * (hot * held / threads + (1 - hot) * memory.latency_s / at_once)
    return (again / threads + first) / device.constants("cpu.core_misses")
