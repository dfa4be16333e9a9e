"""Gathers, scatters, sparse products: addresses that come from data."""

from __future__ import annotations

import math

from rooflab.model.kernels.common import Features, Mechanism, Specs
from rooflab.model.kernels.gpu import passes
from rooflab.model.kernels.gpu.passes import CODE, Pass
from rooflab.model.kernels.gpu.strides import BURST_BYTES, SECTOR_BYTES
from rooflab.types.work import Cost, Op
from rooflab.work.formulas.cost_terms import item_bytes
from rooflab.work.formulas.gather import looked_up

KINDS = ("gather", "scatter", "sparse_matmul")
_COUNT = 2
_LOAD_BYTES = 16.0  # of one thread of a gather of rows
_WARP = 32.0
_FEW = 16  # indices up to which PyTorch has a kernel that loops over them
_BY_INDEX_SELECT = ("aten.embedding", "aten.index_select")
_THREADS = 2048.0  # of one SM; of at most 32 blocks


def features(op: Op, inputs: Specs, outputs: Specs, cost: Cost) -> Features | None:
    """The passes of a gather of rows or single elements, a scatter, or a sparse product."""
    if len(inputs) < 2 or not outputs:
        return None
    if op.kind == "sparse_matmul":
        return passes.flat(_COUNT, _sparse(op, inputs, cost))
    if op.kind == "scatter":
        return passes.flat(_COUNT, *_scatter(op, inputs, outputs, cost))
    if inputs[1].elements <= _FEW and op.name in _BY_INDEX_SELECT:
        return passes.flat(_COUNT, _few("gather_few", inputs[1].elements, cost))
    return passes.flat(_COUNT, _gather(op, inputs, outputs, cost))


def _few(code: str, indices: int, cost: Cost) -> Pass:
    """Few rows: each thread goes through all indices, one after the other."""
    return Pass(
        code=CODE[code],
        elements=cost.compulsory.write_bytes / 4.0,
        steps=float(indices),
        read_bytes=cost.compulsory.read_bytes,
        write_bytes=cost.compulsory.write_bytes,
    )


def _gather(op: Op, inputs: Specs, outputs: Specs, cost: Cost) -> Pass:
    """Rows of 16 bytes and more get a block of their own; single elements share one, 4 to a thread."""
    table, index = inputs[0], inputs[1]
    count = float(looked_up(inputs, outputs, op.attrs))
    touched = count * item_bytes(table)
    row_bytes = touched / index.elements if index.elements else 0.0
    common = {
        "read_bytes": max(cost.compulsory.read_bytes - touched, 0.0),
        "write_bytes": cost.compulsory.write_bytes,
        "table_bytes": table.nbytes,
    }
    if row_bytes < _LOAD_BYTES:
        return Pass(
            code=CODE["gather_scalars"],
            elements=count,
            blocks=count / (512.0 * 14.0),
            sector_bytes=count * SECTOR_BYTES,
            random_bytes=count * BURST_BYTES,
            random_rows=count,
            **common,
        )
    threads = min(max(math.ceil(row_bytes / _LOAD_BYTES / _WARP) * _WARP, _WARP), 1024.0)
    return Pass(
        code=CODE["gather_rows"],
        elements=count,
        rows=float(index.elements),
        blocks=index.elements / min(32.0, _THREADS // threads),
        steps=math.ceil(row_bytes / _LOAD_BYTES / threads),
        random_bytes=index.elements * math.ceil(row_bytes / BURST_BYTES) * float(BURST_BYTES),
        random_rows=float(index.elements),
        **common,
    )


def _scatter(op: Op, inputs: Specs, outputs: Specs, cost: Cost) -> tuple[Pass, ...]:
    """The base copied (or zeros written), then each value added where its index says."""
    out, values = outputs[0], inputs[-1]
    touched = float(op.attrs.get("elements", values.elements))
    item = item_bytes(out)
    sequence: list[Pass] = []
    if not op.attrs.get("in_place"):
        base = inputs[0].nbytes if op.attrs.get("base", len(inputs) > 2) else 0.0
        sequence.append(
            Pass(
                code=CODE["vectorized"],
                elements=float(out.elements),
                blocks=out.elements / 16384,
                read_bytes=base,
                write_bytes=out.nbytes,
            )
        )
    indices = max((spec.elements for spec in inputs[1:-1]), default=0)
    if op.name.startswith("aten.index_add") and indices <= _FEW:
        return (*sequence, _few("scatter_few", indices, cost))
    accesses_per_value = 2.0 if op.attrs.get("accumulate") else 1.0
    sequence.append(
        Pass(
            code=CODE["scatter"],
            elements=touched,
            blocks=touched / 1024.0,
            read_bytes=values.nbytes,
            random_bytes=accesses_per_value * touched * item,
            random_rows=touched * item / max(values.nbytes / max(values.shape[0] if values.shape else 1, 1), item),
            table_bytes=out.nbytes,
        )
    )
    return tuple(sequence)


def _sparse(op: Op, inputs: Specs, cost: Cost) -> Pass:
    """A row-compressed matrix times a vector or matrix: a sector of it per nonzero."""
    count = float(op.attrs.get("nnz", inputs[0].elements))
    wide = float(op.attrs.get("n", 1)) * item_bytes(inputs[-1])
    vector = inputs[-1].nbytes
    rows = float(inputs[1].elements) if len(inputs) > 3 else 0.0  # where each begins in a sector of its own
    return Pass(
        code=CODE["sparse_rows"],
        elements=count,
        blocks=count / (3072.0 * 2.0),
        read_bytes=max(cost.compulsory.read_bytes - vector, 0.0),
        write_bytes=cost.compulsory.write_bytes,
        sector_bytes=count * max(wide, float(SECTOR_BYTES)) + rows * SECTOR_BYTES,
        random_bytes=count * max(wide, float(BURST_BYTES)),
        random_rows=count,
        table_bytes=vector,
        starts=4.0,
    )


MECHANISM = Mechanism("gather", ("gpu",), KINDS, passes.columns(_COUNT), features, passes.timer(_COUNT, "gather"))
