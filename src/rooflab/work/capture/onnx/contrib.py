"""Output types of ONNX Runtime's operators (com.microsoft), for which onnx has no inference.

Shapes as the operators' documentation states them:
https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from rooflab.work.capture.onnx.values import Value

Shape = Sequence[int]
Inputs = Sequence[Value | None]
Attrs = Mapping[str, Any]
Types = Callable[[Inputs, Attrs], list[tuple[int, Shape] | None]]

DOMAIN = "com.microsoft"


def types(node: onnx.NodeProto, inputs: Inputs, attrs: Attrs) -> dict[str, onnx.TypeProto] | None:
    """Type by name of output; None for operators that are not in the table."""
    if node.domain not in (DOMAIN, "", "ai.onnx"):
        return None
    rule = _TYPES.get(node.op_type)
    if rule is None or (node.domain != DOMAIN and node.op_type in _ALSO_STANDARD):
        return None
    if node.domain != DOMAIN and node.op_type not in _MISPLACED:
        return None
    try:
        outputs = rule(inputs, attrs)
    except (IndexError, KeyError, TypeError, ValueError, AttributeError):
        return {}  # an input or attribute is missing: the caller says which tensor has no shape
    return {
        name: onnx.helper.make_tensor_type_proto(code, list(shape))
        for name, (code, shape) in (
            (n, one) for n, one in zip(node.output, outputs, strict=False) if one is not None
        )
        if name
    }


def _of(inputs: Inputs, index: int) -> Value:
    value = inputs[index]
    if value is None or value.spec is None:
        raise ValueError(f"input {index} is missing")
    return value


def _has(inputs: Inputs, index: int) -> bool:
    return len(inputs) > index and inputs[index] is not None


def _code(value: Value) -> int:
    return value.type.tensor_type.elem_type


def _same(inputs: Inputs, attrs: Attrs) -> list[tuple[int, Shape] | None]:
    first = _of(inputs, 0)
    return [(_code(first), first.shape)]


def _broadcast(inputs: Inputs, attrs: Attrs) -> list[tuple[int, Shape] | None]:
    shape = np.broadcast_shapes(*(value.shape for value in inputs if value is not None))
    return [(_code(_of(inputs, 0)), shape)]


def _product(a: Shape, b: Shape) -> Shape:
    """Shape of NumPy's matmul."""
    if len(a) == 1 or len(b) == 1:
        return (*a[:-1], *(b[-1:] if len(b) > 1 else ())) if len(b) == 1 or len(a) > 1 else (*b[:-2], b[-1])
    return (*np.broadcast_shapes(tuple(a[:-2]), tuple(b[:-2])), a[-2], b[-1])


def _swapped(shape: Shape, swap: Any) -> Shape:
    return (*shape[:-2], shape[-1], shape[-2]) if swap and len(shape) > 1 else shape


def _fused_matmul(inputs: Inputs, attrs: Attrs) -> list[tuple[int, Shape] | None]:
    a, b = _of(inputs, 0), _of(inputs, 1)
    return [(_code(a), _product(_swapped(a.shape, attrs.get("transA")), _swapped(b.shape, attrs.get("transB"))))]


def _float_product(scale: int) -> Types:
    """Product of the first two inputs, in the number format of input `scale`."""
    return lambda inputs, attrs: [
        (_code(_of(inputs, scale)), _product(_of(inputs, 0).shape, _of(inputs, 1).shape))
    ]


def _fused_gemm(inputs: Inputs, attrs: Attrs) -> list[tuple[int, Shape] | None]:
    a, b = _of(inputs, 0), _of(inputs, 1)
    return [(_code(a), (_swapped(a.shape, attrs.get("transA"))[0], _swapped(b.shape, attrs.get("transB"))[1]))]


def _n_bits(inputs: Inputs, attrs: Attrs) -> list[tuple[int, Shape] | None]:
    a = _of(inputs, 0)
    return [(_code(a), (*a.shape[:-1], attrs["N"]))]


def _skip_norm(inputs: Inputs, attrs: Attrs) -> list[tuple[int, Shape] | None]:
    x = _of(inputs, 0)
    statistic = (TensorProto.FLOAT, (*x.shape[:-1], 1))
    return [(_code(x), x.shape), statistic, statistic, (_code(x), x.shape)]


def _embed_norm(inputs: Inputs, attrs: Attrs) -> list[tuple[int, Shape] | None]:
    ids, word = _of(inputs, 0), _of(inputs, 2)
    shape = (*ids.shape, word.shape[1])
    return [(_code(word), shape), (TensorProto.INT32, (ids.shape[0],)), (_code(word), shape)]


def _attention(bias: int, past: int) -> Types:
    """Attention with its projection in it: input (B, S, C), weights (C, 3·hidden)."""

    def rule(inputs: Inputs, attrs: Attrs) -> list[tuple[int, Shape] | None]:
        x, weights = _of(inputs, 0), _of(inputs, 1)
        heads = attrs["num_heads"]
        sizes = attrs.get("qkv_hidden_sizes") or (weights.shape[1] // 3,) * 3
        batch, steps = x.shape[0], x.shape[1]
        code = _code(_of(inputs, bias)) if _has(inputs, bias) else _code(x)
        before = _of(inputs, past).shape[3] if _has(inputs, past) else 0
        present = (2, batch, heads, before + steps, sizes[0] // heads)
        return [(code, (batch, steps, sizes[2])), (code, present)]

    return rule


def _multi_head(inputs: Inputs, attrs: Attrs) -> list[tuple[int, Shape] | None]:
    query, heads = _of(inputs, 0), attrs["num_heads"]
    batch, steps = query.shape[0], query.shape[1]
    if len(query.shape) == 5:  # packed (B, S, heads, 3, D)
        width, keys, value_width = query.shape[2] * query.shape[4], steps, query.shape[2] * query.shape[4]
    else:
        width, key = query.shape[2], _of(inputs, 1)
        keys = key.shape[2] if len(key.shape) == 4 else key.shape[1]
        value_width = width
        if _has(inputs, 2):
            value = _of(inputs, 2).shape
            value_width = value[1] * value[3] if len(value) == 4 else value[2]
    total = keys + (_of(inputs, 6).shape[2] if _has(inputs, 6) else 0)
    code = _code(query)
    return [
        (code, (batch, steps, value_width)),
        (code, (batch, heads, total, width // heads)),
        (code, (batch, heads, total, value_width // heads)),
    ]


def _grouped_query(inputs: Inputs, attrs: Attrs) -> list[tuple[int, Shape] | None]:
    query, heads, groups = _of(inputs, 0), attrs["num_heads"], attrs["kv_num_heads"]
    batch, steps, width = query.shape
    size = width // heads if _has(inputs, 1) else width // (heads + 2 * groups)
    past = _of(inputs, 3).shape[2] if _has(inputs, 3) else 0
    present = (batch, groups, max(past, keys_seen(inputs, steps)), size)  # the buffer may be longer than its use
    return [(_code(query), (batch, steps, heads * size)), (_code(query), present), (_code(query), present)]


def keys_seen(inputs: Inputs, steps: int) -> int:
    """Keys that GroupQueryAttention meets: its total_sequence_length where constant, else past + new."""
    total = inputs[6] if _has(inputs, 6) else None
    if total is not None and total.content is not None:
        return int(total.content.reshape(-1)[0])
    return steps + (_of(inputs, 3).shape[2] if _has(inputs, 3) else 0)


def _rotary(inputs: Inputs, attrs: Attrs) -> list[tuple[int, Shape] | None]:
    return _same(inputs, attrs)


def _quantize(inputs: Inputs, attrs: Attrs) -> list[tuple[int, Shape] | None]:
    code = _code(_of(inputs, 2)) if _has(inputs, 2) else TensorProto.UINT8
    return [(code, _of(inputs, 0).shape)]


def _dequantize(inputs: Inputs, attrs: Attrs) -> list[tuple[int, Shape] | None]:
    return [(_code(_of(inputs, 1)), _of(inputs, 0).shape)]


def _fused_conv(inputs: Inputs, attrs: Attrs) -> list[tuple[int, Shape] | None]:
    x, w = _of(inputs, 0).shape, _of(inputs, 1).shape
    spatial = len(x) - 2
    strides, dilations = attrs.get("strides") or (1,) * spatial, attrs.get("dilations") or (1,) * spatial
    pads = attrs.get("pads") or (0,) * (2 * spatial)
    sizes = []
    for axis in range(spatial):
        padded = x[2 + axis] + pads[axis] + pads[axis + spatial]
        reach = dilations[axis] * (w[2 + axis] - 1) + 1
        if attrs.get("auto_pad", "NOTSET").startswith("SAME"):
            sizes.append(math.ceil(x[2 + axis] / strides[axis]))
        else:
            sizes.append((padded - reach) // strides[axis] + 1)
    return [(_code(_of(inputs, 0)), (x[0], w[0], *sizes))]


def _swiglu_halved(inputs: Inputs, attrs: Attrs) -> list[tuple[int, Shape] | None]:
    x = _of(inputs, 0)
    return [(_code(x), (*x.shape[:-1], x.shape[-1] // 2))]


_TYPES: dict[str, Types] = {
    "Attention": _attention(bias=2, past=4),
    "QAttention": _attention(bias=2, past=8),
    "MultiHeadAttention": _multi_head,
    "GroupQueryAttention": _grouped_query,
    "RotaryEmbedding": _rotary,
    "MatMulNBits": _n_bits,
    "MatMulBnb4": _n_bits,
    "MatMulFpQ4": lambda inputs, attrs: [
        (_code(_of(inputs, 0)), (*_of(inputs, 0).shape[:-1], int(_of(inputs, 2).content[1])))  # type: ignore[index]
    ],
    "FusedMatMul": _fused_matmul,
    "TransposeMatMul": _fused_matmul,
    "FusedMatMulActivation": _fused_matmul,
    "GemmFloat8": _fused_gemm,
    "FusedGemm": _fused_gemm,
    "MatMulIntegerToFloat": _float_product(scale=2),
    "DynamicQuantizeMatMul": _float_product(scale=0),
    "FusedConv": _fused_conv,
    "QuantizeLinear": _quantize,
    "DequantizeLinear": _dequantize,
    "LayerNormalization": _skip_norm,
    "SimplifiedLayerNormalization": _skip_norm,
    "SkipLayerNormalization": _skip_norm,
    "SkipSimplifiedLayerNormalization": _skip_norm,
    "EmbedLayerNormalization": _embed_norm,
    "GroupNorm": _same,
    "SkipGroupNorm": _same,
    "Gelu": _same,
    "FastGelu": _same,
    "BiasGelu": _same,
    "QuickGelu": _same,
    "BiasAdd": _broadcast,
    "BiasSplitGelu": _swiglu_halved,
    "QLinearAdd": lambda inputs, attrs: [
        (_code(_of(inputs, 0)), np.broadcast_shapes(_of(inputs, 0).shape, _of(inputs, 3).shape))
    ],
    "QLinearMul": lambda inputs, attrs: [
        (_code(_of(inputs, 0)), np.broadcast_shapes(_of(inputs, 0).shape, _of(inputs, 3).shape))
    ],
    "QLinearSigmoid": _same,
    "QLinearLeakyRelu": _same,
    "QLinearSoftmax": _same,
    "QLinearGlobalAveragePool": lambda inputs, attrs: [
        (_code(_of(inputs, 0)), (*_of(inputs, 0).shape[:2], *(1,) * (len(_of(inputs, 0).shape) - 2)))
    ],
    "Inverse": _same,
    "MoE": _same,
    "QMoE": _same,
}
# Exporters of ONNX Runtime write these in the standard domain too, which does not define them.
_MISPLACED = ("SimplifiedLayerNormalization", "SkipLayerNormalization", "SkipSimplifiedLayerNormalization")
_ALSO_STANDARD = (
    "Attention",
    "RotaryEmbedding",
    "QuantizeLinear",
    "DequantizeLinear",
    "LayerNormalization",
    "Gelu",
)
