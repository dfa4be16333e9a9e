"""Kernels that pass once over their operands: element-wise, casts, copies, fills, random numbers."""

from __future__ import annotations

from rooflab.model.kernels import layout, passes
from rooflab.model.kernels.common import Features, Mechanism, Specs
from rooflab.model.kernels.passes import CODE, Pass
from rooflab.types.work import Cost, Op

KINDS = ("pointwise", "cast", "copy", "layout", "create", "random", "dropout", "kernel")

# Instructions per element beyond a load, an addition and a store, of CUDA's accurate functions with their
# range reduction and slow paths; others from `_SPECIAL` per special and 1 per vector operation.
_FUNCTIONS = {
    "gelu": 24.0,
    "sqrt": 20.0,
    "rsqrt": 16.0,
    "tanh": 14.0,
    "sigmoid": 15.0,
    "silu": 15.0,
    "exp": 8.0,
    "gelu_backward": 36.0,
    "pow": 45.0,
}
_SPECIAL = 14.0
_BLOCK_ELEMENTS = 1024.0  # of one block of 128 threads with 16-byte loads
_BLOCKS = 16.0  # that an SM holds of them
_STRIDED_ELEMENTS = 512.0


def features(op: Op, inputs: Specs, outputs: Specs, cost: Cost) -> Features | None:
    """One pass over what is the largest of its operands; slower where one is broadcast, strided or cast."""
    if not outputs:
        return None
    out = outputs[0]
    for spec in outputs[1:]:
        if spec.elements > out.elements:
            out = spec
    traffic = cost.compulsory
    elements = float(out.elements)
    code, instructions, sectors, waste = "vectorized", 0.0, 0.0, 0.0
    if op.kind in ("dropout", "random"):
        code = "dropout"
    elif op.kind == "cast" and inputs and inputs[0].dtype != out.dtype:
        code = "casting"
    elif op.kind == "copy" and len(inputs) > 1:
        code = "copy_batched"
    foreach = op.attrs.get("foreach")
    if foreach:
        elements = float(sum(spec.elements for spec in outputs))
    elif len(inputs) > 0 and code != "copy_batched" and op.kind != "kernel":
        for spec in inputs:
            found = layout.walk(spec, out)
            if not found.plain:
                code = "strided"
                sectors += found.sector_bytes
                waste += found.waste_bytes
    if op.kind == "pointwise":
        instructions = _instructions(op, cost, elements)
    held = _BLOCKS * (_BLOCK_ELEMENTS if code == "vectorized" else _STRIDED_ELEMENTS)
    return passes.flat(
        1,
        Pass(
            code=CODE[code],
            elements=elements,
            instructions=instructions,
            blocks=elements / held,
            read_bytes=traffic.read_bytes,
            write_bytes=traffic.write_bytes,
            waste_bytes=waste,
            sector_bytes=sectors,
        ),
    )


def _instructions(op: Op, cost: Cost, elements: float) -> float:
    known = _FUNCTIONS.get(op.attrs.get("function", ""))
    if known is not None:
        return known
    total = 0.0
    for one in cost.flop:
        total += one.count * (_SPECIAL if one.engine == "special" else 1.0)
    return total / elements if elements else 0.0


MECHANISM = Mechanism("stream", ("gpu",), KINDS, passes.columns(1), features, passes.timer(1, "stream"))
