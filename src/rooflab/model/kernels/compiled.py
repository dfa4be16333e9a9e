"""Kernels that a compiler writes (PyTorch's inductor in Triton, XLA): element-wise work and sums over rows.

They move 16 bytes a thread whatever is broadcast or fused into them, and keep a row in registers.
"""

from __future__ import annotations

from rooflab.model.kernels import passes, stream
from rooflab.model.kernels.common import Features, Mechanism, Specs
from rooflab.model.kernels.passes import CODE, Pass
from rooflab.types.work import Cost, Op

_SUMS = ("norm", "softmax", "reduction", "loss", "norm_backward", "softmax_backward")
KINDS = (*_SUMS, "pointwise", "cast", "copy", "layout", "create", "random", "dropout")
_BLOCK_ELEMENTS = 1024.0  # of one block of 4 warps
_BLOCKS = 16.0  # that an SM holds of them


def features(op: Op, inputs: Specs, outputs: Specs, cost: Cost) -> Features | None:
    """One pass over all that enters and leaves the kernel; None for what no compiler wrote."""
    if "members" not in op.attrs or not (inputs or outputs):
        return None
    # A table that rows are gathered from is larger than all that is read.
    whole = [spec for spec in inputs if spec.nbytes <= cost.compulsory.read_bytes]
    elements = float(max((spec.elements for spec in (*whole, *outputs)), default=0))
    sums = op.kind in _SUMS
    rows = elements / max(inputs[0].shape[-1], 1) if sums and inputs and inputs[0].shape else 0.0
    return passes.flat(
        1,
        Pass(
            code=CODE["compiled_rows" if sums else "vectorized"],
            elements=elements,
            instructions=stream.per_element(op, cost, elements),
            rows=rows,
            blocks=elements / (_BLOCKS * _BLOCK_ELEMENTS),
            read_bytes=cost.compulsory.read_bytes,
            write_bytes=cost.compulsory.write_bytes,
        ),
    )


MECHANISM = Mechanism("compiled", ("gpu",), KINDS, passes.columns(1), features, passes.timer(1, "compiled"))
