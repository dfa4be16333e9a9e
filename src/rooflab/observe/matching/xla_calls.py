"""An operation of XLA as its profile has it: counted from the compiled program, else what the compiler states."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any, NamedTuple

from rooflab.errors import RooflabError
from rooflab.observe.matching.torch_arguments import Seen
from rooflab.observe.matching.torch_calls import Resolved
from rooflab.types.counted import Counted
from rooflab.types.trace import Signature
from rooflab.types.work import Flop, Phase, TensorSpec, Traffic
from rooflab.work.formulas import cost

# XLA's names of element types.
DTYPES = {
    "f64": "fp64",
    "f32": "fp32",
    "f16": "fp16",
    "bf16": "bf16",
    "f8e4m3fn": "fp8",
    "f8e5m2": "fp8",
    "s64": "int64",
    "u64": "int64",
    "s32": "int32",
    "u32": "int32",
    "s16": "int16",
    "u16": "int16",
    "s8": "int8",
    "u8": "int8",
    "s4": "int4",
    "u4": "int4",
    "pred": "bool",
    "c64": "complex64",
    "c128": "complex128",
}
_PRODUCT = re.compile(r"convolution|\bdot\b|gemm|matmul", re.IGNORECASE)

# Opcodes whose count is a function of each element.
_POINTWISE = {
    "abs": "abs",
    "add": "add",
    "and": "bitwise_and",
    "atan2": "atan2",
    "cbrt": "cbrt",
    "ceil": "ceil",
    "clamp": "clamp",
    "compare": "eq",
    "cosine": "cos",
    "divide": "div",
    "erf": "erf",
    "exponential": "exp",
    "exponential-minus-one": "expm1",
    "floor": "floor",
    "is-finite": "isfinite",
    "log": "log",
    "log-plus-one": "log1p",
    "logistic": "sigmoid",
    "maximum": "max",
    "minimum": "min",
    "multiply": "mul",
    "negate": "neg",
    "not": "bitwise_not",
    "or": "bitwise_or",
    "power": "pow",
    "remainder": "fmod",
    "round-nearest-afz": "round",
    "round-nearest-even": "round",
    "rsqrt": "rsqrt",
    "select": "where",
    "shift-left": "shift_left",
    "shift-right-arithmetic": "shift_right",
    "shift-right-logical": "shift_right",
    "sign": "sign",
    "sine": "sin",
    "sqrt": "sqrt",
    "subtract": "sub",
    "tan": "tan",
    "tanh": "tanh",
    "xor": "bitwise_xor",
}
_MOVES = {
    "concatenate": "copy",
    "convert": "cast",
    "copy": "copy",
    "pad": "copy",
    "reverse": "copy",
    "transpose": "layout",
}
_REDUCTIONS = {"add": "sum", "maximum": "max", "minimum": "min", "multiply": "prod", "and": "all", "or": "any"}
_PARTS = ("slice", "dynamic-slice")


_GRADIENT = "transpose(jvp"


class _Known(NamedTuple):
    """What one instruction asks for."""

    kind: str
    inputs: list[Seen]
    outputs: list[Seen]
    attrs: dict[str, Any]


def resolve(op: str, signature: Signature) -> Resolved:
    """What the operation called `op` is, from the compiled program where the profile holds it."""
    if signature.kind and signature.results and signature.flop is None and signature.nbytes is None:
        found = _fusion(signature) if signature.kind == "fusion" else _instruction(signature)
        if isinstance(found, str):
            return Resolved(op, None, (), (), {}, found)
        return Resolved(op, found.kind, tuple(found.inputs), tuple(found.outputs), found.attrs)
    if signature.flop is None and signature.nbytes is None:
        return Resolved(op, None, (), (), {}, "the profile states neither its FLOP nor its bytes")
    return Resolved(op, None, (), (), {}, "FLOP and bytes are those that the compiler states")


def phase_of(module: str) -> Phase:
    """The phase of training by the scopes that JAX puts around what it differentiates."""
    return "backward" if _GRADIENT in module else "forward"


def counted(op: str, signature: Signature, time_s: float, runs: int) -> Counted | None:
    """What the compiler states of one execution; None where it states nothing.

    Args:
        op: its name.
        signature: with what the file states.
        time_s: of all executions.
        runs: how many.
    """
    if signature.flop is None and signature.nbytes is None:
        return None
    matrix = _PRODUCT.search(f"{signature.kind} {op}") is not None
    dtype = next((DTYPES[one] for one in signature.result_dtypes if one in DTYPES), "unknown")
    flop = signature.flop
    return Counted(
        name=op,
        time_s=time_s / runs,
        runs=runs,
        flop=None if flop is None else (Flop("matrix" if matrix else "vector", dtype, flop),) if flop else (),
        # Reads and writes are not told apart.
        traffic=() if signature.nbytes is None else (Traffic("DRAM", signature.nbytes, 0.0, "modelled"),),
    )


def _tensors(shapes: tuple[Any, ...], dtypes: tuple[str, ...]) -> list[Seen]:
    return [
        Seen(tuple(shape), DTYPES[dtype]) for shape, dtype in zip(shapes, dtypes, strict=False) if dtype in DTYPES
    ]


def _instruction(one: Signature) -> _Known | str:
    """One instruction on its own."""
    inputs, outputs = _tensors(one.shapes, one.dtypes), _tensors(one.results, one.result_dtypes)
    attrs, opcode = dict(one.attrs), one.kind
    if not outputs:
        return f"{opcode} gives no array"
    if opcode in _POINTWISE:
        return _Known("pointwise", inputs, outputs, {"function": _POINTWISE[opcode]})
    if opcode in _MOVES:
        return _Known(_MOVES[opcode], inputs, outputs, {})
    if opcode in _PARTS:
        return _Known("copy", list(outputs), outputs, {})
    if opcode == "dot" and "k" in attrs and len(inputs) >= 2:
        return _Known("matmul", inputs[:2], outputs[:1], {"k": attrs["k"]})
    if opcode == "convolution" and "fma" in attrs and len(inputs) >= 2:
        return _Known("conv", inputs[:2], outputs[:1], {"fma": attrs["fma"]})
    if opcode == "reduce" and len(outputs) == 1 and attrs.get("of") in _REDUCTIONS:
        return _Known("reduction", inputs[:1], outputs, {"function": _REDUCTIONS[attrs["of"]]})
    if opcode == "reduce-window" and "window" in attrs and len(outputs) == 1 and attrs.get("of") in _REDUCTIONS:
        return _Known("pool", inputs[:1], outputs, {"function": "max", "window": attrs["window"]})
    if opcode == "sort" and "n" in attrs and inputs:
        return _Known("sort", inputs, outputs, {"function": "sort", "n": attrs["n"]})
    if opcode == "gather" and len(inputs) >= 2:
        return _Known("gather", inputs[:2], outputs, {})
    if opcode == "dynamic-update-slice" and len(inputs) >= 2:
        return _Known("copy", inputs[1:2], inputs[1:2], {})
    return f"no rule counts XLA's {opcode}"


def _fusion(one: Signature) -> _Known | str:
    """A fused kernel: the FLOP of its members, the bytes that enter and leave it."""
    members = [_instruction(each) for each in one.members]
    unknown = [each for each in members if isinstance(each, str)]
    if unknown:
        return f"within the fusion {unknown[0]}"
    known = [each for each in members if not isinstance(each, str)]
    inputs, outputs = _tensors(one.shapes, one.dtypes), _tensors(one.results, one.result_dtypes)
    if not outputs:
        return "the fusion gives no array"
    attrs = dict(one.attrs)
    own = [each for each in known if each.kind not in ("view", "cast")]
    if len(own) == 1 and own[0].kind in ("matmul", "conv") and "parts" not in attrs and len(known) == 1:
        return own[0]
    counts: dict[tuple[Any, ...], float] = defaultdict(float)
    access = "stream"
    for each in known:
        try:
            found = cost(each.kind, tuple(map(_spec, each.inputs)), tuple(map(_spec, each.outputs)), each.attrs)
        except (RooflabError, ArithmeticError, KeyError, IndexError, ValueError) as error:
            return f"within the fusion {each.kind} cannot be counted: {error}"
        access = found.access if found.access != "stream" else access
        for flop in found.flop:
            counts[flop.engine, flop.dtype, flop.accumulate] += flop.count
    read = {place: tensor.nbytes or 0.0 for place, tensor in enumerate(inputs)}
    for place, leaves in attrs.get("parts", ()):
        parts = sum(tensor.nbytes or 0.0 for tensor in _tensors(*_split(leaves)))
        read[place] = min(read.get(place, parts), parts)
    write = sum(tensor.nbytes or 0.0 for tensor in outputs)
    if "update" in attrs:
        place, leaves = attrs["update"]
        write = sum(tensor.nbytes or 0.0 for tensor in _tensors(*_split(leaves))) or write
        if place in read:
            read[place] = 0.0  # what is not overwritten stays where it is
    kinds = {each.kind for each in known}
    kind = next((name for name in ("matmul", "conv", "reduction") if name in kinds), "pointwise")
    return _Known(
        "fused" if kind in ("matmul", "conv") else kind,
        inputs,
        outputs,
        {
            "members": tuple(each.kind for each in one.members),
            "flop": tuple((engine, dtype, count, wide) for (engine, dtype, wide), count in counts.items()),
            "read_bytes": sum(read.values()),
            "write_bytes": write,
            "access": access,
            "function": "add",
        },
    )


def _split(leaves: Any) -> tuple[tuple[Any, ...], tuple[str, ...]]:
    return tuple(shape for _, shape in leaves), tuple(dtype for dtype, _ in leaves)


def _spec(one: Seen) -> TensorSpec:
    return TensorSpec(shape=one.shape, dtype=one.dtype or "", nbytes=one.nbytes or 0.0)
