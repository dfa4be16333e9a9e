"""Reductions and scans: many elements to one, along rows, along columns, or all of them."""

from __future__ import annotations

import math

from rooflab.model.kernels.common import Features, Mechanism, Specs
from rooflab.model.kernels.gpu import passes, stream
from rooflab.model.kernels.gpu.passes import CODE, Pass
from rooflab.types.work import Cost, Op, TensorSpec
from rooflab.work.formulas.cost_terms import item_bytes

KINDS = ("reduction", "scan", "loss")
_INDEX = ("argmax", "argmin")
_SHARED = 64  # results below which their sums are shared between blocks
_RESIDENT = 4.0  # blocks of 512 threads of an SM
_SCAN_STEP = 64.0  # elements of a row that one step of a scan takes
_SCAN_ROWS = 16.0  # rows of one of its blocks


def features(op: Op, inputs: Specs, outputs: Specs, cost: Cost) -> Features | None:
    """The passes of a reduction (one, or those of log-sum-exp), a scan, or a loss."""
    if not inputs or not outputs:
        return None
    if op.kind == "scan":
        return passes.flat(4, _scan(op, inputs[0], outputs[0], cost))
    if op.kind == "loss":
        return passes.flat(4, *_loss(op, inputs, outputs, cost))
    x = inputs[0]
    if op.attrs.get("function") == "logsumexp":
        return passes.flat(4, *_logsumexp(x, outputs[0], cost))
    apart = len(inputs) > 1 and len(inputs) == len(outputs)  # a list, each with a result of its own
    elements = float(sum(spec.elements for spec in inputs) if apart else x.elements)
    return passes.flat(4, _reduce(op, x, outputs[0], elements, 1 if apart else len(outputs), cost))


def _reduce(op: Op, x: TensorSpec, out: TensorSpec, elements: float, results: int, cost: Cost) -> Pass:
    along_rows = _keeps_front(x, out)
    shared = not along_rows or out.elements < _SHARED  # blocks add their parts through global memory
    code = "reduce" if along_rows else "reduce_columns"
    name = op.attrs.get("function", "")
    if name in _INDEX or results > 1:
        code = "reduce_index"
    elif name.startswith(("var", "std")):
        code = "moments"
    return Pass(
        code=CODE[code],
        elements=elements,
        rows=float(out.elements) if along_rows else 0.0,
        # As many blocks as the device holds share a sum that has few results; 16 rows take one.
        blocks=out.elements / 16.0 / _RESIDENT if along_rows else 0.0,
        read_bytes=cost.compulsory.read_bytes,
        write_bytes=cost.compulsory.write_bytes,
        starts=2.0 if shared and elements > 65536 else 1.0,  # the counters of shared sums are cleared first
    )


def _keeps_front(x: TensorSpec, out: TensorSpec) -> bool:
    """Whether the last dimension is among those that are summed over."""
    kept = [size for size in out.shape if size != 1]
    front = [size for size in x.shape if size != 1]
    return kept == front[: len(kept)] and (x.strides is None or not x.strides or x.strides[-1] == 1)


def _logsumexp(x: TensorSpec, out: TensorSpec, cost: Cost) -> tuple[Pass, ...]:
    """PyTorch's: maximum; x − maximum into a temporary; exp in place; sum."""
    elements, size = float(x.elements), x.nbytes
    blocks = out.elements / 16.0 / _RESIDENT
    return (
        Pass(code=CODE["reduce"], elements=elements, blocks=blocks, read_bytes=cost.compulsory.read_bytes),
        Pass(
            code=CODE["strided"],
            elements=elements,
            instructions=2 * stream.programs()["division"],  # the maximum lies along two dimensions
            blocks=elements / 8192,
            inner_bytes=2 * size,
            inner_size_bytes=size,
        ),
        Pass(
            code=CODE["vectorized"],
            elements=elements,
            blocks=elements / 16384,
            inner_bytes=2 * size,
            inner_size_bytes=size,
        ),
        Pass(
            code=CODE["reduce"],
            elements=elements,
            blocks=blocks,
            inner_bytes=size,
            inner_size_bytes=size,
            write_bytes=cost.compulsory.write_bytes,
            starts=4.0,
        ),
    )


def _scan(op: Op, x: TensorSpec, out: TensorSpec, cost: Cost) -> Pass:
    traffic = cost.compulsory
    length = float(op.attrs.get("n") or (x.shape[-1] if x.shape else 1))
    rows = x.elements / length if length else 0.0
    common = {
        "elements": float(out.elements),
        "read_bytes": traffic.read_bytes,
        "write_bytes": traffic.write_bytes,
    }
    if rows <= 1:
        return Pass(code=CODE["scan_whole"], blocks=out.elements / 30000, starts=2.0, **common)
    return Pass(
        code=CODE["scan_rows"],
        blocks=rows / _SCAN_ROWS / _RESIDENT,
        steps=math.ceil(length / _SCAN_STEP),
        **common,
    )


def _loss(op: Op, inputs: Specs, outputs: Specs, cost: Cost) -> tuple[Pass, ...]:
    traffic = cost.compulsory
    backward, name = bool(op.attrs.get("backward")), op.attrs.get("function")
    if name == "nll" and not backward:
        # One block gathers and sums all rows.
        target = inputs[1]
        return (
            Pass(
                code=CODE["row_loss"],
                elements=float(target.elements),
                steps=math.ceil(target.elements / 1024),
                read_bytes=traffic.read_bytes,
                write_bytes=traffic.write_bytes,
            ),
        )
    elements = float(max(spec.elements for spec in (*inputs, *outputs)))
    stream = Pass(
        code=CODE["vectorized"],
        elements=elements,
        instructions=10.0,
        blocks=elements / 16384,
        read_bytes=traffic.read_bytes,
        write_bytes=traffic.write_bytes if outputs[0].elements > 1 else elements * item_bytes(inputs[0]),
    )
    if outputs[0].elements > 1 or op.attrs.get("reduction") == "none":
        return (stream,)
    size = elements * item_bytes(inputs[0])
    return (
        stream,
        Pass(
            code=CODE["reduce"],
            elements=elements,
            inner_bytes=size,
            inner_size_bytes=size,
            starts=2.0,
        ),
    )


MECHANISM = Mechanism("reduction", ("gpu",), KINDS, passes.columns(4), features, passes.timer(4, "reduction"))
