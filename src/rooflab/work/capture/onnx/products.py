"""Nodes that multiply matrices: products, convolutions, recurrent layers, mixtures of experts."""

from __future__ import annotations

import math

from rooflab.work.capture.onnx.node import Node, NodeOp, Operand, on_chip, slice_of
from rooflab.work.einsum import contraction, of_diagonals

_INT8_INPUTS = 4  # accuracy_level of MatMulNBits at which A is quantised to int8 before the product


def matmul(node: Node) -> list[NodeOp]:
    """MatMul and its like: a, b first; scales, zero points and the like after them.

    The row gives the index of b (`b`, default 1) and of a bias (`bias`), where it has one.
    """
    second = node.row.get("b", 1)
    a, b = node.x(0), node.x(second)
    bias = node.input(node.row["bias"]) if "bias" in node.row else None
    k = _contracted(a.shape, bool(node.attrs.get("transA")), first=True)
    attrs = {"k": k, "bias": bias is not None}
    if "compute" in node.row:
        attrs["compute"] = node.row["compute"]
    others = tuple(value for value in node.present(1) if value is not b and value is not bias)
    return [NodeOp("matmul", (a, b, *((bias,) if bias else ()), *others), node.results()[:1], attrs)]


def _contracted(shape: tuple[int, ...], transposed: bool, first: bool) -> int:
    if len(shape) < 2 or transposed != first:
        return shape[-1] if shape else 1
    return shape[-2]


def gemm(node: Node) -> list[NodeOp]:
    """Gemm: alpha·A·B + beta·C; the scalings are part of the product's last step."""
    return matmul(node._replace(row={**node.row, "bias": 2}))


def matmul_n_bits(node: Node) -> list[NodeOp]:
    """MatMulNBits: A times weights of 2 to 8 bits in blocks with scales; B holds the packed size."""
    attrs = {"k": node.attrs["K"], "weight_bits": node.attrs.get("bits", 4), "bias": node.input(5) is not None}
    if node.attrs.get("accuracy_level") == _INT8_INPUTS:
        attrs["compute"] = "int8"
    bias = (node.x(5),) if node.input(5) is not None else ()
    return [NodeOp("matmul", (node.x(0), node.x(1), *bias, *node.present(2, 5)), node.results(), attrs)]


def einsum(node: Node) -> list[NodeOp]:
    """Einsum: one operand moves or is summed; two multiply; more are contracted from left to right.

    Of an operand with a label twice the diagonal is read.
    """
    given = node.present()
    equation, shapes = of_diagonals(node.attrs["equation"], [value.shape for value in given])
    operands = tuple(
        value if shape == value.shape else slice_of(node.spec(place), shape)
        for place, (value, shape) in enumerate(zip(given, shapes, strict=True))
    )
    product = contraction(equation, shapes)
    if product.kind == "matmul":
        attrs = {"k": product.k, "fma": product.multiply_adds}
        return [NodeOp("matmul", operands, node.results(), attrs)]
    function = {"pointwise": "mul", "reduction": "sum"}.get(product.kind)
    kind = "layout" if product.kind == "view" and equation != node.attrs["equation"] else product.kind
    return [NodeOp(kind, operands, node.results(), {"function": function} if function else {})]


def conv(node: Node) -> list[NodeOp]:
    """Conv, ConvTranspose and their quantised forms.

    The row gives the index of the weights (`w`, default 1) and of the bias (`bias`, default 2 or none).
    """
    second, third = node.row.get("w", 1), node.row.get("bias", 2)
    x, w = node.x(0), node.x(second)
    bias = node.input(third) if third >= 0 else None
    others = tuple(value for value in node.present(1) if value is not w and value is not bias)
    attrs = {
        "kernel": w.shape[2:],
        "groups": node.attrs.get("group", 1),
        "transposed": node.op == "ConvTranspose",
        "bias": bias is not None,
    }
    note = "the interpolation of its inputs is not counted" if node.op == "DeformConv" else ""
    return [NodeOp("conv", (x, w, *((bias,) if bias else ()), *others), node.results(), attrs, note=note)]


def causal_conv(node: Node) -> list[NodeOp]:
    """CausalConvWithState: a depthwise convolution over time."""
    attrs = {"kernel": node.spec(1).shape[2:], "groups": node.spec(0).shape[1], "transposed": False}
    bias = node.input(2) is not None
    return [NodeOp("conv", node.present(), node.results(), {**attrs, "bias": bias})]


def rnn(node: Node) -> list[NodeOp]:
    """LSTM, GRU, RNN: one layer, forward, reverse or both; the activations of RNN decide its cell."""
    x, recurrent = node.spec(0), node.spec(2)
    steps, batch, size = x.shape
    if node.attrs.get("layout"):
        steps, batch = batch, steps
    cell = node.op.lower()
    if cell == "rnn":
        first = (node.attrs.get("activations") or ("Tanh",))[0]
        cell = "rnn_relu" if first.lower() == "relu" else "rnn_tanh"
    hidden = recurrent.shape[2]
    attrs = {
        "cell": cell,
        "hidden": hidden,
        "layers": 1,
        "bidirectional": node.attrs.get("direction") == "bidirectional",
        "input": size,
        "steps": steps,
        "batch": batch,
        "projection": 0,
        "bias": node.input(3) is not None,
    }
    states = node.present(5, 7)
    inputs = (node.x(0), *states, *node.present(1, 4), *node.present(4, 5), *node.present(7))
    note = "each sequence is counted at full length" if node.input(4) is not None else ""
    return [NodeOp("rnn", inputs, node.results(), attrs, note=note)]


def experts(node: Node) -> list[NodeOp]:
    """MoE and QMoE: `k` experts a token, two or three products each; only the weights of so many are read."""
    x, router, inner = node.spec(0), node.spec(1), node.spec(2)
    quantised = node.op == "QMoE"
    second, third = (5, 8) if quantised else (4, 6)
    tokens, hidden = math.prod(x.shape[:-1]), x.shape[-1]
    count, chosen = router.shape[-1], node.attrs.get("k", 1)
    wide = inner.shape[1]  # (experts, fused inner size, hidden size or its packed bytes)
    down = node.spec(second)
    narrow = wide // 2 if node.attrs.get("activation_type") == "swiglu" else wide
    gate = hidden * wide if node.input(third) is not None else 0
    share = min(1.0, tokens * chosen / count)
    touched = max(1, round(count * share))
    weights: list[Operand] = [
        slice_of(inner, (touched, *inner.shape[1:])),
        slice_of(down, (touched, *down.shape[1:])),
    ]
    if gate:
        gates = node.spec(third)
        weights.append(slice_of(gates, (touched, *gates.shape[1:])))
    multiply_adds = tokens * chosen * (hidden * wide + narrow * hidden + gate)
    attrs: dict[str, object] = {"fma": multiply_adds, "active": touched}
    if quantised:
        attrs["weight_bits"] = node.attrs.get("expert_weight_bits", 4)
    note = "activation of the experts, their biases and scales are not counted"
    return [NodeOp("grouped_matmul", (node.x(0), *weights, node.x(1)), node.results()[:1], attrs, note=note)]


def affine_grid(node: Node) -> list[NodeOp]:
    """AffineGrid: each point of the grid times a small matrix."""
    theta = node.spec(0)
    return [NodeOp("matmul", (node.x(0), on_chip(node.y())), node.results(), {"k": theta.shape[-1]})]


def image_columns(node: Node) -> list[NodeOp]:
    """Col2Im: overlapping columns added into an image."""
    return [NodeOp("fold", node.present(0, 1), node.results(), {})]
