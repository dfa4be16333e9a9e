"""Ordering: radix sort, selection of the largest, search."""

from __future__ import annotations

import math

from rooflab.model.kernels.common import Features, Mechanism, Specs
from rooflab.model.kernels.gpu import passes
from rooflab.model.kernels.gpu.passes import CODE, Pass
from rooflab.types.work import Cost, Op, TensorSpec
from rooflab.work.formulas.cost_terms import item_bytes

KINDS = ("sort",)
_COUNT = 4
_DIGIT_BITS = 8  # of one pass of a radix sort or selection
_WARP = 32.0
_THREADS = 2048.0  # of an SM; of at most so many blocks:
_BLOCKS = 32.0
_BLOCK_SORT = 4096  # longest row that one block sorts
_SORT_RESIDENT = 4.0  # blocks of an SM, each with its keys and places in 48 KiB
# PyTorch shares a selection between blocks from so many elements a row on, by number of rows (TensorTopK.cu).
_SHARED_FROM = ((20, 20000), (40, 10000), (80, 8000), (200, 5000), (800, 3000), (4000, 800))
_SHARED_LEAST = 400


def features(op: Op, inputs: Specs, outputs: Specs, cost: Cost) -> Features | None:
    """The passes of a radix sort of keys with their places, or of a selection digit by digit."""
    if not inputs or not outputs:
        return None
    x, name = inputs[0], op.attrs.get("function")
    length = float(op.attrs.get("n") or x.elements or 1)
    rows = x.elements / length
    if name == "search":
        return passes.flat(_COUNT, _search(inputs, cost))
    if name in ("topk", "kthvalue", "median", "mode"):
        if _shared(rows, length):
            return passes.flat(_COUNT, *_select(x, rows, cost))
        return passes.flat(_COUNT, _select_rows(x, rows, length, cost))
    if length <= _BLOCK_SORT:
        return passes.flat(_COUNT, _sort_rows(x, rows, length, cost))
    return passes.flat(_COUNT, *_sort(x, cost))


def _digits(x: TensorSpec) -> float:
    return item_bytes(x) * 8 / _DIGIT_BITS


def _search(inputs: Specs, cost: Cost) -> Pass:
    """A thread a value: each comparison loads a sector."""
    return Pass(
        code=CODE["gather_scalars"],
        elements=float(inputs[-1].elements),
        sector_bytes=cost.accessed.read_bytes * 8 if cost.accessed else 0.0,
        read_bytes=inputs[-1].nbytes,
        write_bytes=cost.compulsory.write_bytes,
    )


def _sort(x: TensorSpec, cost: Cost) -> tuple[Pass, ...]:
    """Keys copied and places made, all digits counted, then a pass over keys and places for each digit."""
    elements, digits = float(x.elements), _digits(x)
    pair = x.nbytes + 8.0 * elements  # keys and their places, 64-bit
    return (
        Pass(
            code=CODE["vectorized"],
            elements=2 * elements,
            read_bytes=cost.compulsory.read_bytes,
            inner_bytes=pair,
            inner_size_bytes=pair,
            starts=2.0,
        ),
        Pass(
            code=CODE["radix_histogram"],
            elements=elements,
            inner_bytes=x.nbytes,
            inner_size_bytes=x.nbytes,
            starts=4.0,
        ),
        Pass(
            code=CODE["radix_pass"],
            elements=elements * digits,
            inner_bytes=2 * digits * pair,
            inner_size_bytes=pair,
            starts=2 * digits,
        ),
    )


def _sort_rows(x: TensorSpec, rows: float, length: float, cost: Cost) -> Pass:
    """A block a row, 4 bits of the keys a step; keys and places are copied before and after."""
    written = cost.compulsory.write_bytes
    return Pass(
        code=CODE["sort_rows"],
        elements=float(x.elements),
        blocks=rows / _SORT_RESIDENT,
        steps=2.0 * _digits(x) * length / _BLOCK_SORT,
        read_bytes=cost.compulsory.read_bytes,
        write_bytes=written,
        inner_bytes=2 * written,
        inner_size_bytes=written,
        starts=3.0,
    )


def _select(x: TensorSpec, rows: float, cost: Cost) -> tuple[Pass, ...]:
    """Each digit counted by many blocks a row, three kernels each; then what was selected gathered."""
    elements, digits = float(x.elements), _digits(x)
    return (
        Pass(
            code=CODE["digit_count"],
            elements=elements * digits,
            blocks=elements / 16384 / 8 * digits,
            read_bytes=cost.compulsory.read_bytes,
            inner_bytes=(digits - 1) * x.nbytes,
            inner_size_bytes=x.nbytes,
            starts=3 * digits,
        ),
        Pass(
            code=CODE["select"],
            elements=elements,
            rows=rows,
            inner_bytes=x.nbytes,
            inner_size_bytes=x.nbytes,
            write_bytes=cost.compulsory.write_bytes,
            starts=3.0,
        ),
    )


def _select_rows(x: TensorSpec, rows: float, length: float, cost: Cost) -> Pass:
    """A block of up to 1024 threads finds a row's k largest digit by digit; another kernel sorts them."""
    digits = _digits(x)
    threads = min(math.ceil(length / _WARP) * _WARP, 1024.0)
    return Pass(
        code=CODE["select_rows"],
        elements=rows * max(length, threads) * digits,
        rows=rows,
        blocks=rows / min(_THREADS / threads, _BLOCKS),
        steps=digits * math.ceil(length / 4096.0),
        read_bytes=cost.compulsory.read_bytes,
        write_bytes=cost.compulsory.write_bytes,
        starts=2.0,
    )


def _shared(rows: float, length: float) -> bool:
    """Whether several blocks select from one row."""
    least = next((elements for count, elements in _SHARED_FROM if rows <= count), _SHARED_LEAST)
    return length >= least


MECHANISM = Mechanism("sort", ("gpu",), KINDS, passes.columns(_COUNT), features, passes.timer(_COUNT, "sort"))
