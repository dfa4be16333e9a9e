"""Kernels that pass once over their operands: element-wise, casts, copies, fills, random numbers."""

from __future__ import annotations

import functools
import math

from rooflab.model.device.constants import load_family
from rooflab.model.kernels.common import Features, Mechanism, Specs
from rooflab.model.kernels.gpu import passes, strides
from rooflab.model.kernels.gpu.passes import CODE, Pass
from rooflab.types.work import Cost, Op, TensorSpec

KINDS = ("pointwise", "cast", "copy", "layout", "fold", "create", "random", "dropout", "kernel")

_BLOCK_ELEMENTS = 1024.0  # of one block of 128 threads with 16-byte loads
_BLOCKS = 16.0  # that an SM holds of them
_STRIDED_ELEMENTS = 512.0
_COUNT = 2
_ROLL = "aten.roll"
# PyTorch copies the operand and changes the copy: ATen/native/cuda/Indexing.cu, TensorAdvancedIndexing.cpp.
_CLONED = ("aten.masked_fill",)
_TENSORS_A_START = 64.0  # of a list that one kernel takes (multi_tensor_apply)


def features(op: Op, inputs: Specs, outputs: Specs, cost: Cost) -> Features | None:
    """One pass over what is the largest of its operands; slower where one is broadcast, strided or cast."""
    if not outputs:
        return None
    out = outputs[0]
    for spec in outputs[1:]:
        if spec.elements > out.elements:
            out = spec
    foreach = bool(op.attrs.get("foreach"))
    elements = float(sum(spec.elements for spec in outputs) if foreach else out.elements)
    code = _code(op, inputs, out)
    instructions = per_element(op, cost, elements) if op.kind == "pointwise" else 0.0
    sectors = waste = apart = 0.0
    batched = code == "copy_batched"  # of a concatenation: each is walked over in an order of its own
    if op.kind != "kernel" and code in ("vectorized", "casting", "copy_batched"):
        for spec in inputs:
            access = strides.walk(spec, strides.laid_like(spec, out) if batched else out)
            if not access.plain:
                code = "strided"
                sectors += access.sector_bytes
                apart += spec.nbytes if access.sector_bytes else 0.0
                waste += access.waste_bytes
                instructions += programs()["division"] * access.dimensions
    if code == "copy_batched" and out.strides is not None:
        # Not seen as two dimensions: each element's place in the result is divided out of its number.
        instructions += programs()["integer_division"] * (len(out.shape) - 1)
    held = _BLOCKS * (_BLOCK_ELEMENTS if code == "vectorized" else _STRIDED_ELEMENTS)
    main = Pass(
        code=CODE[code],
        elements=elements,
        instructions=instructions,
        doubles=_doubles(cost, elements),
        blocks=elements / held,
        read_bytes=cost.compulsory.read_bytes,
        write_bytes=cost.compulsory.write_bytes,
        waste_bytes=waste,
        sector_bytes=sectors,
        apart_bytes=min(apart, cost.compulsory.read_bytes),
        starts=math.ceil(max(1.0, len(outputs) / _TENSORS_A_START)) if foreach else 1.0,
    )
    if op.name == _ROLL:
        main = _rolled(main, op, out)
    if op.name in _CLONED:
        return passes.flat(_COUNT, main, _cloned(out))
    return passes.flat(_COUNT, main)


def _rolled(main: Pass, op: Op, out: TensorSpec) -> Pass:
    """One dimension after the other, each element's place found by two divisions of 64 bits."""
    times = float(op.attrs.get("dims", 1))
    return main._replace(
        elements=main.elements * times,
        instructions=2.0 * programs()["long_division"],
        blocks=main.blocks * times,
        inner_bytes=2.0 * out.nbytes * (times - 1.0),
        inner_size_bytes=out.nbytes,
        starts=times,
    )


def _cloned(out: TensorSpec) -> Pass:
    """The copy that is then changed in place."""
    size = out.nbytes
    return Pass(
        code=CODE["vectorized"],
        elements=float(out.elements),
        blocks=out.elements / (_BLOCKS * _BLOCK_ELEMENTS),
        inner_bytes=2.0 * size,
        inner_size_bytes=size,
    )


def _code(op: Op, inputs: Specs, out: TensorSpec) -> str:
    if op.attrs.get("foreach"):
        return "multi_tensor"
    if op.kind in ("dropout", "random"):
        return "dropout"
    if op.kind == "copy" and len(inputs) > 1:
        return "copy_batched"
    if op.kind == "cast" and inputs and inputs[0].dtype != out.dtype:
        # To half precision PyTorch has a vectorised kernel; others convert by a switch per element.
        return "vectorized" if inputs[0].dtype == "fp32" and out.dtype in ("bf16", "fp16") else "casting"
    return "vectorized"


def per_element(op: Op, cost: Cost, elements: float) -> float:
    """Instructions per element of an element-wise function, or of a compiler's kernel of several."""
    instructions = programs().get(op.attrs.get("function", ""))
    if instructions is not None:
        return instructions
    total = 0.0
    for one in cost.flop:
        total += one.count * (programs()["special"] if one.engine == "special" else 1.0)
    return total / elements if elements else 0.0


def _doubles(cost: Cost, elements: float) -> float:
    """Instructions per element in double precision: a card's few units for it may bind."""
    total = 0.0
    for one in cost.flop:
        if one.dtype == "fp64":
            total += one.count * (programs()["special_double"] if one.engine == "special" else 1.0)
    return total / elements if elements else 0.0


@functools.cache
def programs() -> dict[str, float]:
    """Instructions per element by function: the same program on every card, so of all GPUs' constants."""
    gpu = load_family("gpu")
    return {name.partition(".")[2]: gpu(name) for name in gpu.values if name.startswith("function.")}


MECHANISM = Mechanism("stream", ("gpu",), KINDS, passes.columns(_COUNT), features, passes.timer(_COUNT, "stream"))
