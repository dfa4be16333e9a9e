"""Kernels that a compiler writes (PyTorch's inductor in Triton, XLA): element-wise work and sums over rows.

They move 16 bytes a thread whatever is broadcast or fused into them, and keep a row in registers.
"""

from __future__ import annotations

from rooflab.model.kernels import generic
from rooflab.model.kernels.common import Features, Mechanism, Specs
from rooflab.model.kernels.gpu import passes, stream
from rooflab.model.kernels.gpu.passes import CODE, Pass
from rooflab.types.work import Cost, Op

_BLOCK_ELEMENTS = 1024.0  # of one block of 4 warps
_BLOCKS = 16.0  # that an SM holds of them
_ROWS = 4.0  # that blocks of one SM hold at once


def features(op: Op, inputs: Specs, outputs: Specs, cost: Cost) -> Features | None:
    """One pass over all that enters and leaves the kernel; None for what no compiler wrote."""
    if "members" not in op.attrs or not (inputs or outputs):
        return None
    # A table that rows are gathered from is larger than all that is read.
    whole = [spec for spec in inputs if spec.nbytes <= cost.compulsory.read_bytes]
    elements = float(max((spec.elements for spec in (*whole, *outputs)), default=0))
    sums = op.kind in generic.SUMS
    rows = float(op.attrs.get("rows", 0)) if sums else 0.0
    # A row that the unit's own memory cannot hold is read again for the result; a plain sum has none.
    twice = rows > 0 and op.kind not in ("reduction", "loss")
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
            again_bytes=cost.compulsory.read_bytes if twice else 0.0,
            held_bytes=_ROWS * cost.compulsory.read_bytes / rows if twice else 0.0,
        ),
    )


MECHANISM = Mechanism(
    "compiled", ("gpu",), generic.COMPILED_KINDS, passes.columns(1), features, passes.timer(1, "compiled")
)
