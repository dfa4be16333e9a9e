"""Attention nodes: ONNX's own from opset 23, and ONNX Runtime's four.

Keys and values are appended to a cache in place, as ONNX Runtime does where past and present share their
buffer: the new rows are a copy of their own, and attention reads the whole cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rooflab.types.work import TensorSpec
from rooflab.work.capture.onnx.contrib import keys_seen
from rooflab.work.capture.onnx.node import Node, NodeOp, Operand, reshaped, slice_of


def attention(node: Node) -> list[NodeOp]:
    """Attention of the standard domain: Q, K, V of 3 or 4 dimensions, mask, past keys and values."""
    heads, groups = node.attrs.get("q_num_heads"), node.attrs.get("kv_num_heads")
    four = len(node.spec(0).shape) == 4
    layout = "bhsd" if four else "bshd"
    query = _heads(node.spec(0), heads)
    key, value = (_heads(node.spec(index), groups) for index in (1, 2))
    ops = []
    past = node.input(4)
    if past is not None:
        ops.append(_append((key, value)))
        total = past.shape[2] + key.shape[2 if four else 1]
        key, value = (_longer(spec, total, layout, node.spec(index)) for index, spec in ((4, key), (5, value)))
    attrs = _attrs(layout, causal=bool(node.attrs.get("is_causal")), past=past is not None, mask=node.input(3))
    inputs: tuple[Operand, ...] = (query, key, value, *node.present(3, 4))
    output = reshaped(node.y(), _output_shape(query, value))
    return [*ops, NodeOp("attention", inputs, (output, *node.results()[3:]), attrs)]


def grouped_query(node: Node) -> list[NodeOp]:
    """GroupQueryAttention: causal, with a cache, fewer heads of keys and values, sliding window on wish."""
    heads, groups = node.attrs["num_heads"], node.attrs["kv_num_heads"]
    source = node.spec(0)
    batch, steps = source.shape[:2]
    size = node.y().shape[2] // heads
    query = reshaped(slice_of(source, (batch, steps, heads * size)), (batch, steps, heads, size))
    if node.input(1) is None:  # queries, keys and values packed in the first input
        rows = slice_of(source, (batch, steps, groups * size))
        new = [reshaped(rows, (batch, steps, groups, size)) for _ in range(2)]
    else:
        new = [reshaped(node.spec(index), (batch, steps, groups, size)) for index in (1, 2)]
    ops = []
    if node.attrs.get("do_rotary"):
        ops += [_rotary(query, "query"), _rotary(new[0], "key")]
    keys = new
    if node.input(3) is not None:
        ops.append(_append(new))
        total = keys_seen(node.inputs, steps)
        keys = [_longer(spec, total, "bshd", node.spec(3 + index)) for index, spec in enumerate(new)]
    attrs = _attrs("bshd", causal=True, past=node.input(3) is not None, mask=node.input(10))
    if node.attrs.get("local_window_size", -1) > 0:
        attrs["window"] = node.attrs["local_window_size"]
    inputs = (query, *keys, *node.present(10, 11))
    output = reshaped(node.y(), (batch, steps, heads, size))
    return [*ops, NodeOp("attention", inputs, (output,), attrs)]


def multi_head(node: Node) -> list[NodeOp]:
    """MultiHeadAttention: projected queries, keys and values, separate or packed; bias added before."""
    heads, query = node.attrs["num_heads"], node.spec(0)
    batch, steps = query.shape[:2]
    width = node.y().shape[2]
    ops = []
    if len(query.shape) == 5:  # (B, S, heads, 3, D)
        size = query.shape[4]
        third = slice_of(query, (batch, steps, heads, 1, size))
        specs = [reshaped(third, (batch, steps, heads, size)) for _ in range(3)]
    else:
        packed = node.input(2) is None  # keys and values as (B, L, heads, 2, D)
        key = node.spec(1)
        value = key if packed else node.spec(2)
        specs = [
            _split(query, heads),
            *(_half(one, heads) if packed else _split(one, heads) for one in (key, value)),
        ]
    bias = node.input(3)
    if bias is not None and bias.spec is not None:
        for spec, letter in zip(specs, "qkv", strict=True):
            own = slice_of(bias.spec, spec.shape[2:])
            ops.append(NodeOp("pointwise", (spec, own), (spec,), {"function": "add"}, f"bias_{letter}"))
    past = node.input(6)
    if past is not None:
        ops.append(_append(specs[1:]))
        specs[1:] = [
            _longer(spec, past.shape[2] + spec.shape[1], "bshd", node.spec(6 + index))
            for index, spec in enumerate(specs[1:])
        ]
    mask = node.input(5) or node.input(4)
    attrs = _attrs("bshd", causal=bool(node.attrs.get("unidirectional")), past=past is not None, mask=mask)
    output = reshaped(node.y(), (batch, steps, heads, width // heads))
    inputs = ((specs[0]), *specs[1:], *((mask,) if mask else ()))
    return [*ops, NodeOp("attention", inputs, (output,), attrs)]


def projected(node: Node) -> list[NodeOp]:
    """Attention and QAttention of ONNX Runtime: the product with the weights of Q, K and V, then attention."""
    quantised = node.op == "QAttention"
    x, weights = node.spec(0), node.spec(1)
    heads = node.attrs["num_heads"]
    batch, steps, hidden = x.shape
    widths = node.attrs.get("qkv_hidden_sizes") or (weights.shape[1] // 3,) * 3
    mask, past = (node.input(5), node.input(8)) if quantised else (node.input(3), node.input(4))
    bias = (node.x(2),) if node.input(2) is not None else ()
    scales = (*node.present(3, 5), *node.present(6, 8)) if quantised else ()
    form = node.y()
    each = form.nbytes / form.elements if form.elements else 0.0

    def middle(width: int) -> TensorSpec:
        return TensorSpec(shape=(batch, steps, width), dtype=form.dtype, nbytes=each * batch * steps * width)

    whole = middle(sum(widths))
    attrs = {"k": hidden, "bias": bool(bias)}
    project = NodeOp("matmul", (node.x(0), node.x(1), *bias, *scales), (whole,), attrs, "project")
    query, key, value = (_split(middle(width), heads) for width in widths)
    ops = [project]
    if past is not None:
        ops.append(_append((key, value)))
        key, value = (_longer(spec, past.shape[3] + steps, "bshd", past.spec) for spec in (key, value))
    causal = bool(node.attrs.get("unidirectional"))
    attrs = _attrs("bshd", causal=causal, past=past is not None, mask=mask)
    output = reshaped(form, (batch, steps, heads, widths[2] // heads))
    inputs = (query, key, value, *((mask,) if mask is not None else ()))
    return [*ops, NodeOp("attention", inputs, (output,), attrs, "attend")]


def _attrs(layout: str, *, causal: bool, past: bool, mask: Any) -> dict[str, Any]:
    return {
        "layout": layout,
        "causal": causal,
        "causal_from": "bottom_right" if past else "top_left",
        "mask": mask is not None,
        "fused": True,
    }


def _heads(spec: TensorSpec, heads: int | None) -> TensorSpec:
    return spec if len(spec.shape) == 4 else _split(spec, heads or 1)


def _split(spec: TensorSpec, heads: int) -> TensorSpec:
    """(B, S, heads·D) as (B, S, heads, D); (B, heads, S, D) likewise."""
    if len(spec.shape) == 4:
        batch, count, steps, size = spec.shape
        return reshaped(spec, (batch, steps, count, size))
    batch, steps, width = spec.shape
    return reshaped(spec, (batch, steps, heads, width // heads))


def _half(spec: TensorSpec, heads: int) -> TensorSpec:
    """Keys or values of a packed (B, L, heads, 2, D)."""
    batch, steps, _, _, size = spec.shape
    return reshaped(slice_of(spec, (batch, steps, heads, 1, size)), (batch, steps, heads, size))


def _longer(spec: TensorSpec, total: int, layout: str, past: TensorSpec | None) -> TensorSpec:
    """Keys or values with those of the cache before them, in the cache's memory."""
    axis = 2 if layout == "bhsd" else 1
    shape = (*spec.shape[:axis], total, *spec.shape[axis + 1 :])
    grown = total / spec.shape[axis] if spec.shape[axis] else 0.0
    home = past or spec
    return reshaped(spec, shape, nbytes=spec.nbytes * grown, storage=home.storage, role=home.role, name=home.name)


def _append(new: Sequence[TensorSpec]) -> NodeOp:
    """The new keys and values on their way into the cache."""
    return NodeOp("copy", tuple(new), tuple(reshaped(spec, spec.shape, storage=-1) for spec in new), {}, "cache")


def _rotary(spec: TensorSpec, suffix: str) -> NodeOp:
    """Rotary embedding in place: x·cos + y·sin."""
    return NodeOp("pointwise", (spec,), (spec,), {"vector": 3, "special": 0}, f"rotary_{suffix}")


def _output_shape(query: TensorSpec, value: TensorSpec) -> tuple[int, ...]:
    return (*query.shape[:-1], value.shape[-1])
