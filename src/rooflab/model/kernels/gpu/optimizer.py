"""Fused optimiser steps: chunks of many tensors, a block each."""

from __future__ import annotations

import math

from rooflab.model.kernels.common import Features, Mechanism, Specs
from rooflab.model.kernels.gpu import passes
from rooflab.model.kernels.gpu.passes import CODE, Pass
from rooflab.types.work import Cost, Op

KINDS = ("optimizer",)
_CHUNK = 65536.0  # elements of one block
_CHUNKS_A_START = 320.0
_TENSORS_A_START = 36.0
_RESIDENT = 3.0


def features(op: Op, inputs: Specs, outputs: Specs, cost: Cost) -> Features | None:
    """One pass over parameters, gradients and states, as many kernels as their lists need."""
    if not inputs:
        return None
    elements = float(op.attrs.get("elements", inputs[0].elements))
    tensors = max(1.0, len(outputs) / 3.0)
    chunks = elements / _CHUNK + 0.5 * tensors
    return passes.flat(
        1,
        Pass(
            code=CODE["optimizer"],
            elements=elements,
            blocks=chunks / _RESIDENT,
            read_bytes=cost.compulsory.read_bytes,
            write_bytes=cost.compulsory.write_bytes,
            starts=math.ceil(max(chunks / _CHUNKS_A_START, tensors / _TENSORS_A_START)),
        ),
    )


MECHANISM = Mechanism("optimizer", ("gpu",), KINDS, passes.columns(1), features, passes.timer(1, "optimizer"))
