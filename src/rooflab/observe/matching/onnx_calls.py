"""A node of an ONNX graph as a runtime recorded it: its kind, tensors and attributes, from shapes alone.

Attributes of nodes are not in such a record, and weights that the runtime packed have no shape there. What shapes
decide is counted; what they leave open is not, and the reason is said.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from rooflab.observe.matching.torch_arguments import Seen
from rooflab.observe.matching.torch_calls import Resolved
from rooflab.types.trace import Signature
from rooflab.work import vocabulary

# ONNX's names of element types, as onnxruntime writes them.
DTYPES = {
    "float": "fp32",
    "double": "fp64",
    "float16": "fp16",
    "bfloat16": "bf16",
    "float8e4m3fn": "fp8",
    "float8e4m3fnuz": "fp8",
    "float8e5m2": "fp8",
    "float8e5m2fnuz": "fp8",
    "int64": "int64",
    "uint64": "int64",
    "int32": "int32",
    "uint32": "int32",
    "int16": "int16",
    "uint16": "int16",
    "int8": "int8",
    "uint8": "int8",
    "bool": "bool",
    "complex64": "complex64",
    "complex128": "complex128",
}
# onnxruntime's own nodes that no file has: layouts of blocks of channels, copies between devices.
_OWN = {
    "ReorderInput": "layout",
    "ReorderOutput": "layout",
    "MemcpyFromHost": "copy",
    "MemcpyToHost": "copy",
}
_NOT_RECORDED = "its shapes were not recorded"

Tensors = list[Seen]
# What a rule gives: kind, inputs, attributes; or a sentence.
Found = tuple[str, Tensors, dict[str, Any]] | str
Rule = Callable[[str, vocabulary.Entry, Tensors, Tensors], Found]


def entry(op: str) -> vocabulary.Entry | None:
    """The vocabulary's row for the operator `op` ("Conv"), of the standard or of onnxruntime's domain."""
    rows = vocabulary.load("onnx")
    return rows.get(op) or rows.get(f"com.microsoft.{op}") or rows.get(f"ai.onnx.ml.{op}")


def resolve(op: str, signature: Signature) -> Resolved:
    """What the node of type `op` with the shapes of `signature` is."""
    inputs = _tensors(signature.shapes, signature.dtypes)
    outputs = _tensors(signature.results, signature.result_dtypes)
    row = entry(op)
    kind = _OWN.get(op) or (None if row is None else row.kind)
    if kind is None:
        return Resolved(op, None, (), (), {}, "not in the vocabulary")
    if inputs is None or outputs is None:
        return Resolved(op, kind, (), (), {}, "a tensor of a number format that has no size")
    if not outputs:
        return Resolved(op, kind, (), (), {}, _NOT_RECORDED)
    found = _found(op, row, kind, inputs, outputs)
    if isinstance(found, str):
        return Resolved(op, kind, (), (), {}, found)
    kind, given, attrs = found
    return Resolved(op, kind, tuple(given), tuple(outputs), attrs)


def _found(op: str, row: vocabulary.Entry | None, kind: str, inputs: Tensors, outputs: Tensors) -> Found:
    if row is None:
        return kind, inputs, {}
    if row.recipe is not None:
        rule = _RULES.get(row.recipe)
        if rule is None:
            return f"what {op} computes depends on attributes, which are not recorded"
        return rule(op, row, inputs, outputs)
    takes = row.attrs.get("takes")
    given = inputs[:takes]
    if takes != 0 and not given:
        return _NOT_RECORDED
    return kind, given, _attributes(row)


def _attributes(row: vocabulary.Entry) -> dict[str, Any]:
    return {key: value for key, value in row.attrs.items() if key not in ("takes", "b", "w", "bias", "swap")}


def _tensors(shapes: tuple[Any, ...], dtypes: tuple[str, ...]) -> Tensors | None:
    found = []
    for shape, dtype in zip(shapes, dtypes, strict=False):
        name = DTYPES.get(dtype)
        if name is None:
            return None
        found.append(Seen(tuple(shape), name))
    return found


def _product(op: str, row: vocabulary.Entry, inputs: Tensors, outputs: Tensors) -> Found:
    """A product: the contracted size from the shapes; weights that were packed from what the product needs."""
    at = row.attrs.get("b", 1)
    if not inputs or not outputs:
        return _NOT_RECORDED
    a, out = inputs[0], outputs[0]
    ks = _contracted(a.shape, out.shape)
    second = inputs[at] if at < len(inputs) else None
    if second is not None and len(second.shape) >= 2:
        fits = {k for k in ks if _is_second(second.shape, k, out.shape)}
        if len(fits) == 1:
            rest = [one for number, one in enumerate(inputs) if number not in (0, at)]
            bias = bool(rest) and row.recipe == "gemm"
            return "matmul", [a, second, *rest], {"k": fits.pop(), "bias": bias, **_compute(row)}
        if fits:
            return "its operands may be transposed, which is not recorded, and their shapes leave it open"
    if at != 1 or len(ks) != 1:
        return "its second operand was not recorded, and the shapes leave the contracted size open"
    k = ks.pop()
    packed = Seen((k, out.shape[-1] if len(out.shape) else 1), a.dtype)
    rest = inputs[1:]
    bias = bool(rest) and row.recipe == "gemm"
    return "matmul", [a, packed, *rest], {"k": k, "bias": bias, **_compute(row)}


def _compute(row: vocabulary.Entry) -> dict[str, Any]:
    return {"compute": row.attrs["compute"]} if "compute" in row.attrs else {}


def _contracted(a: tuple[int, ...], out: tuple[int, ...]) -> set[int]:
    """What the contracted size may be: `a` as it is, or transposed."""
    if len(a) < 2 or len(out) < 2:
        return {a[-1]} if a else set()
    plain = {a[-1]} if a[-2] == out[-2] or math.prod(a[:-1]) == math.prod(out[:-1]) else set()
    turned = {a[-2]} if a[-1] == out[-2] else set()
    return plain | turned


def _is_second(b: tuple[int, ...], k: int, out: tuple[int, ...]) -> bool:
    return sorted(b[-2:]) == sorted((k, out[-1] if out else 1))


def _conv(op: str, row: vocabulary.Entry, inputs: Tensors, outputs: Tensors) -> Found:
    """A convolution: its window and groups stand in the shape of its weights."""
    at = row.attrs.get("w", 1)
    if not inputs or not outputs or at >= len(inputs) or len(inputs[at].shape) != len(inputs[0].shape):
        return "its weights were packed before the run: their shape, and so the window, is not recorded"
    x, w, y = inputs[0], inputs[at], outputs[0]
    if len(x.shape) < 3 or len(y.shape) != len(x.shape):
        return _NOT_RECORDED
    transposed = op == "ConvTranspose"
    whole, part = (y.shape[1], w.shape[1]) if transposed else (x.shape[1], w.shape[1])
    if not part or whole % part:
        return "the shapes of its channels do not fit: its groups are not known"
    rest = [one for number, one in enumerate(inputs) if number not in (0, at)]
    # A sum that was fused comes last, of the result's shape; a bias has one dimension.
    flat = [one for one in rest if len(one.shape) == 1 and one.shape == (w.shape[1 if transposed else 0],)]
    bias = bool(flat) and row.attrs.get("bias", 2) >= 0
    order = [*flat[:1], *(one for one in rest if one is not flat[0])] if flat else rest
    attrs = {"kernel": w.shape[2:], "groups": whole // part, "transposed": transposed, "bias": bias}
    return "conv", [x, w, *order], attrs


def _norm(op: str, row: vocabulary.Entry, inputs: Tensors, outputs: Tensors) -> Found:
    if len(inputs) < 2 or not inputs[1].shape:
        return "its weights have no recorded shape, and so neither have the rows that it normalises"
    if row.attrs["function"] == "group":
        return "how many groups it has is not recorded"
    size = math.prod(inputs[1].shape)
    if not size or inputs[0].numel() % size:
        return "the shape of its weights does not fit: the rows that it normalises are not known"
    attrs = {"function": row.attrs["function"], "training": False, "rows": inputs[0].numel() // size}
    return "norm", inputs, attrs


def _batch_norm(op: str, row: vocabulary.Entry, inputs: Tensors, outputs: Tensors) -> Found:
    if len(inputs) < 5:
        return "its statistics have no recorded shape"
    return "norm", inputs, {"function": "batch", "training": len(outputs) > 1}


def _pool(op: str, row: vocabulary.Entry, inputs: Tensors, outputs: Tensors) -> Found:
    if not op.startswith(("Global", "QLinearGlobal")):
        return "the size of its window is an attribute, which is not recorded"
    if not inputs or len(inputs[0].shape) < 3:
        return _NOT_RECORDED
    return "pool", inputs[:1], {"function": row.attrs["function"], "window": math.prod(inputs[0].shape[2:])}


def _layout(op: str, row: vocabulary.Entry, inputs: Tensors, outputs: Tensors) -> Found:
    return ("layout", inputs[:1], {}) if inputs else _NOT_RECORDED


def _part(op: str, row: vocabulary.Entry, inputs: Tensors, outputs: Tensors) -> Found:
    """Slice, Split: the elements that are kept are read and written."""
    if not inputs:
        return _NOT_RECORDED
    kept = sum(one.numel() for one in outputs)
    source = inputs[0]
    return "copy", [Seen((kept,), source.dtype)] if kept < source.numel() else [source], {}


def _variadic(op: str, row: vocabulary.Entry, inputs: Tensors, outputs: Tensors) -> Found:
    if not inputs:
        return _NOT_RECORDED
    return "pointwise", inputs, {"vector": len(inputs) - 1 + (op == "Mean"), "special": 0}


def _gelu(op: str, row: vocabulary.Entry, inputs: Tensors, outputs: Tensors) -> Found:
    return "whether it is exact or by tanh is an attribute, which is not recorded"


def _dropout(op: str, row: vocabulary.Entry, inputs: Tensors, outputs: Tensors) -> Found:
    return "view", inputs[:1], {}


def _power(op: str, row: vocabulary.Entry, inputs: Tensors, outputs: Tensors) -> Found:
    return "its exponent, which decides the count, is not recorded"


def _top_k(op: str, row: vocabulary.Entry, inputs: Tensors, outputs: Tensors) -> Found:
    return "the axis that it sorts is an attribute, which is not recorded"


_RULES: Mapping[str, Rule] = {
    "matmul": _product,
    "gemm": _product,
    "conv": _conv,
    "norm": _norm,
    "batch_norm": _batch_norm,
    "pool": _pool,
    "transpose": _layout,
    "taken_part": _part,
    "variadic": _variadic,
    "gelu": _gelu,
    "dropout": _dropout,
    "power": _power,
    "top_k": _top_k,
}
