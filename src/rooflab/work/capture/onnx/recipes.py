"""From a node to the operations it asks for: the recipes that the vocabulary names, and the plain case."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from rooflab.types.work import TensorSpec
from rooflab.work.capture.onnx import attention, products
from rooflab.work.capture.onnx.node import Node, NodeOp, Operand, on_chip, reshaped, slice_of
from rooflab.work.capture.onnx.values import Value

Recipe = Callable[[Node], list[NodeOp]]

_LINEAR = ("linear", "bilinear", "trilinear")


def ops_of(node: Node, kind: str | None, recipe: str | None) -> list[NodeOp]:
    """The operations of `node`: by its recipe, else one of `kind` with its row's attributes.

    Rows may say `takes`, the number of inputs that are tensors to compute with: shapes, axes and bounds follow
    after them.
    """
    if recipe is not None:
        return RECIPES[recipe](node)
    attrs = {key: value for key, value in node.row.items() if key != "takes"}
    return [NodeOp(kind, node.present(0, node.row.get("takes")), node.results(), attrs)]


def variadic(node: Node) -> list[NodeOp]:
    """Sum, Max, Min, Mean of any number of tensors: one operation less than there are, Mean one more."""
    count = len(node.present()) - 1 + (node.op == "Mean")
    return [NodeOp("pointwise", node.present(), node.results(), {"vector": count, "special": 0})]


def power(node: Node) -> list[NodeOp]:
    """Pow, as a multiplication or root where the exponent is a constant that allows it."""
    exponent = node.x(1).content
    plain = {2.0: "square", 3.0: "cube", 0.5: "sqrt", -0.5: "rsqrt", -1.0: "reciprocal", 1.0: "identity"}
    if exponent is None or exponent.size != 1 or float(exponent.reshape(-1)[0]) not in plain:
        return [NodeOp("pointwise", node.present(), node.results(), {"function": "pow"})]
    function = plain[float(exponent.reshape(-1)[0])]
    return [NodeOp("pointwise", node.present(0, 1), node.results(), {"function": function})]


def gelu(node: Node) -> list[NodeOp]:
    """Gelu, exact or by tanh."""
    function = "gelu_tanh" if node.attrs.get("approximate") == "tanh" else "gelu"
    return [NodeOp("pointwise", node.present(), node.results(), {"function": function})]


def modulo(node: Node) -> list[NodeOp]:
    """Mod with the sign of the divisor, or of the dividend (fmod)."""
    function = "fmod" if node.attrs.get("fmod") else "remainder"
    return [NodeOp("pointwise", node.present(), node.results(), {"function": function})]


def batch_norm(node: Node) -> list[NodeOp]:
    """BatchNormalization: with the running statistics, or from the batch in training."""
    training = bool(node.attrs.get("training_mode")) or (node.opset < 14 and len(node.results()) > 1)
    return [NodeOp("norm", node.present(), node.results(), {"function": "batch", "training": training})]


def norm(node: Node) -> list[NodeOp]:
    """Layer, RMS and group normalisation: statistics of as many rows as stand before the axis, or of groups."""
    attrs = {"function": node.row["function"], "training": False}
    if node.row["function"] == "group":
        attrs["groups"] = node.attrs.get("num_groups") or node.attrs["groups"]
    else:
        attrs["rows"] = math.prod(node.spec(0).shape[: node.attrs.get("axis", -1)])
    return [NodeOp("norm", node.present(), node.results(), attrs)]


def skip_norm(node: Node) -> list[NodeOp]:
    """A sum that stays on chip and its normalisation: SkipLayerNormalization and its kin."""
    x, skip = node.x(0), node.x(1)
    bias = node.input(node.row["bias"])
    added = (x, skip, *((bias,) if bias is not None else ()))
    total = node.output(3)
    middle: Operand = total if total is not None else on_chip(node.spec(0))
    function = node.row["function"]
    weights = tuple(value for value in node.present(2) if value is not bias)
    add = NodeOp("pointwise", added, (middle,), {"vector": len(added) - 1, "special": 0}, "add")
    results = tuple(value for value in node.results() if value is not total)
    norm = NodeOp("norm", (on_chip(node.spec(0)), *weights), results, {"function": function, "training": False})
    return [add, norm]


def embed_norm(node: Node) -> list[NodeOp]:
    """EmbedLayerNormalization: up to three lookups, added and normalised in one kernel."""
    middle = on_chip(node.y())
    ids = node.x(0)
    looked: list[NodeOp] = []
    for table, indices, suffix in (
        (2, node.input(0), "word"),
        (3, ids, "position"),
        (4, node.input(1), "segment"),
    ):
        if node.input(table) is not None and indices is not None:
            looked.append(NodeOp("gather", (node.x(table), indices), (middle,), {}, suffix))
    add = NodeOp("pointwise", (middle,), (middle,), {"vector": len(looked) - 1, "special": 0}, "add")
    norm = NodeOp(
        "norm", (middle, *node.present(5, 7)), node.results()[:1], {"function": "layer", "training": False}
    )
    return [*looked, add, norm]


def lp_norm(node: Node) -> list[NodeOp]:
    """LpNormalization: a norm along an axis, then a division."""
    axis = node.attrs.get("axis", -1)
    x = node.spec(0)
    shape = tuple(1 if index == axis % len(x.shape) else size for index, size in enumerate(x.shape))
    middle = on_chip(slice_of(x, shape))
    function = "norm1" if node.attrs.get("p", 2) == 1 else "norm"
    norm = NodeOp("reduction", (node.x(0),), (middle,), {"function": function}, "norm")
    return [norm, NodeOp("pointwise", (on_chip(x), middle), node.results(), {"function": "div"}, "div")]


def local_response(node: Node) -> list[NodeOp]:
    """LRN: x / (bias + alpha·Σx²)^beta over `size` channels: a square and an addition each."""
    attrs = {"vector": 2 * node.attrs["size"] + 4, "special": 3}  # ·alpha, +bias; pow (exp, ·, log); division
    return [NodeOp("pointwise", node.present(), node.results(), attrs)]


def hardmax(node: Node) -> list[NodeOp]:
    """Hardmax: the largest along an axis becomes 1."""
    return [NodeOp("pointwise", node.present(), node.results(), {"vector": 2, "special": 0})]


def pool(node: Node) -> list[NodeOp]:
    """Pooling over a window, or over everything (Global…)."""
    spatial = node.spec(0).shape[2:]
    window = spatial if node.op.startswith(("Global", "QLinearGlobal")) else node.attrs["kernel_shape"]
    attrs = {"function": node.row["function"], "window": math.prod(window)}
    return [NodeOp("pool", node.present(0, 1), node.results(), attrs)]


def region_pool(node: Node) -> list[NodeOp]:
    """MaxRoiPool, RoiAlign: regions of the input, each averaged or its maximum taken."""
    ratio = node.attrs.get("sampling_ratio", 0)
    if node.op == "RoiAlign":
        samples = (ratio or 2) ** 2  # 0 means by the region's size, which is data: 2 × 2 assumed
        note = "" if ratio else "sampling_ratio 0 depends on data: 2 × 2 samples assumed"
        attrs = {"vector": samples * 8, "special": 0}  # four corners, a multiply-add each
        return [NodeOp("pointwise", node.present(0, 2), node.results(), attrs, note=note)]
    high, wide = node.spec(0).shape[2:]
    out = node.y().shape[2:]
    window = max(1, math.ceil(high / out[0]) * math.ceil(wide / out[1]))
    attrs = {"function": "max", "window": window}
    note = "regions depend on data: the whole image assumed for each"
    return [NodeOp("pool", node.present(0, 1), node.results(), attrs, note=note)]


def resize(node: Node) -> list[NodeOp]:
    """Resize, Upsample, GridSample: interpolation by mode and by the dimensions that change."""
    x, y = node.spec(0), node.y()
    mode = node.attrs.get("mode", "linear" if node.op == "GridSample" else "nearest")
    spatial = len(x.shape) - 2
    if node.op != "GridSample":
        spatial = sum(a != b for a, b in zip(x.shape, y.shape, strict=True))
    if mode in (*_LINEAR, "linear"):
        mode = _LINEAR[min(max(spatial, 1), 3) - 1]
    elif mode in ("cubic", "bicubic"):
        mode = "bicubic"
    takes = 2 if node.op == "GridSample" else 1
    attrs: dict[str, Any] = {"mode": mode}
    if node.attrs.get("antialias") and mode != "nearest":
        # The filter of 2 (cubic: 4) elements is stretched where the image shrinks, and ends with it.
        reach = 4 if mode == "bicubic" else 2
        changed = [(a, b) for a, b in zip(x.shape, y.shape, strict=True) if a != b]
        attrs["taps"] = tuple(min(math.ceil(reach * max(a / max(b, 1), 1.0)), a) for a, b in changed)
    return [NodeOp("interpolate", node.present(0, takes), node.results(), attrs)]


def dropout(node: Node) -> list[NodeOp]:
    """Dropout: nothing in inference, a random mask in training."""
    training = node.input(2)
    on = training is not None and (training.content is None or bool(training.content))
    if not on:
        return [NodeOp("view", node.present(0, 1), node.results()[:1])]
    ratio = node.input(1)
    content = ratio.content if ratio is not None else None
    p = 0.5 if content is None else float(content.reshape(-1)[0])
    return [NodeOp("dropout", node.present(0, 1), node.results(), {"p": p})]


def loss(node: Node) -> list[NodeOp]:
    """The loss functions, forward."""
    attrs = {"function": node.row["function"], "backward": False, "reduction": node.attrs.get("reduction", "mean")}
    return [NodeOp("loss", node.present(), node.results(), attrs)]


def scatter(node: Node) -> list[NodeOp]:
    """Scatter…: a copy of the data in which some elements are overwritten or added to."""
    accumulate = node.attrs.get("reduction", "none") != "none"
    order = (node.x(0), *((*node.present(2), node.x(1)) if node.row.get("swap") else node.present(1)))
    attrs = {"accumulate": accumulate, "in_place": bool(node.row.get("in_place"))}
    return [NodeOp("scatter", order, node.results(), attrs)]


def top_k(node: Node) -> list[NodeOp]:
    """TopK along an axis."""
    axis = node.attrs.get("axis", -1)
    attrs = {"n": node.spec(0).shape[axis], "function": "topk", "k": node.y().shape[axis]}
    return [NodeOp("sort", node.present(0, 1), node.results(), attrs)]


def unique(node: Node) -> list[NodeOp]:
    """Unique: a sort, of which as many values are kept as differ."""
    attrs = {"n": node.spec(0).elements, "function": "sort"}
    return [NodeOp("sort", node.present(0, 1), node.results(), attrs)]


def fourier(node: Node) -> list[NodeOp]:
    """DFT: real and imaginary parts are the last dimension of size 2; size 1 means real."""
    x, y = node.spec(0), node.y()
    axis = node.attrs.get("axis", 1)
    if node.opset >= 20 and node.input(2) is not None:
        content = node.x(2).content
        axis = int(content.reshape(-1)[0]) if content is not None else -2
    elif node.opset >= 20:
        axis = -2
    onesided, inverse = bool(node.attrs.get("onesided")), bool(node.attrs.get("inverse"))
    length = (x.shape if onesided and not inverse else y.shape)[axis]
    real = x.shape[-1] == 1 or onesided
    attrs = {"n": (length,), "real": real, "inverse": inverse}
    return [NodeOp("fft", (_numbers(x),), (_numbers(y),), attrs)]


def short_fourier(node: Node) -> list[NodeOp]:
    """STFT: overlapping frames, times a window, each transformed."""
    y = node.y()  # (batch, frames, bins, 2)
    onesided = bool(node.attrs.get("onesided", 1))
    window = node.input(2)
    length = window.shape[0] if window is not None else (2 * (y.shape[2] - 1) if onesided else y.shape[2])
    signal = node.spec(0)
    frames = TensorSpec(shape=(*y.shape[:2], length), dtype=signal.dtype, nbytes=0.0)
    multiply = NodeOp("pointwise", (node.x(0), *node.present(2, 3)), (frames,), {"function": "mul"}, "window")
    attrs = {"n": (length,), "real": onesided, "inverse": False}
    return [multiply, NodeOp("fft", (frames,), (_numbers(y),), attrs, "fft")]


def _numbers(spec: TensorSpec) -> TensorSpec:
    """A tensor of (real, imaginary) pairs as one of complex numbers; of single values as a real one."""
    if spec.shape[-1:] != (2,):
        return reshaped(spec, spec.shape[:-1])
    return reshaped(spec, spec.shape[:-1], dtype="complex128" if spec.dtype == "fp64" else "complex64")


def transpose(node: Node) -> list[NodeOp]:
    """Transpose: a strided copy, or a view where only dimensions of size 1 change places."""
    shape = node.spec(0).shape
    order = node.attrs.get("perm") or tuple(reversed(range(len(shape))))
    moved = [axis for axis in order if shape[axis] != 1]
    return [NodeOp("view" if moved == sorted(moved) else "layout", node.present(), node.results())]


def taken_part(node: Node) -> list[NodeOp]:
    """Slice, Split and the like: a copy of the elements that are kept, so no more of the input is read."""
    source = node.spec(0)
    kept = sum(value.spec.elements for value in node.results() if value.spec)
    if kept >= source.elements:
        return [NodeOp("copy", node.present(0, 1), node.results())]
    return [NodeOp("copy", (slice_of(source, (kept,)),), node.results())]


def quantize_dynamic(node: Node) -> list[NodeOp]:
    """DynamicQuantizeLinear: minimum and maximum, then the scale and the rounding of each element."""
    return [NodeOp("pointwise", node.present(), node.results(), {"vector": 6, "special": 0})]


def quantised_function(node: Node) -> list[NodeOp]:
    """QLinearAdd and its like: operands and results in integers, the function between them in fp32."""
    operands = len(node.inputs) // 3 if node.op in ("QLinearAdd", "QLinearMul") else 1
    vector = 2 * operands + 4 + node.row.get("vector", 1)  # dequantise each, quantise the result
    compute = TensorSpec(shape=node.y().shape, dtype="fp32", nbytes=0.0)  # says the number format; no bytes
    attrs = {"vector": vector, "special": node.row.get("special", 0)}
    values: tuple[Value, ...] = tuple(node.x(3 * index) for index in range(operands))
    return [NodeOp("pointwise", (*values, compute), node.results(), attrs)]


RECIPES: dict[str, Recipe] = {
    "affine_grid": products.affine_grid,
    "attention": attention.attention,
    "batch_norm": batch_norm,
    "causal_conv": products.causal_conv,
    "col2im": products.image_columns,
    "conv": products.conv,
    "dropout": dropout,
    "einsum": products.einsum,
    "embed_norm": embed_norm,
    "experts": products.experts,
    "fourier": fourier,
    "gelu": gelu,
    "gemm": products.gemm,
    "grouped_query": attention.grouped_query,
    "hardmax": hardmax,
    "local_response": local_response,
    "loss": loss,
    "lp_norm": lp_norm,
    "matmul": products.matmul,
    "matmul_n_bits": products.matmul_n_bits,
    "modulo": modulo,
    "multi_head": attention.multi_head,
    "norm": norm,
    "pool": pool,
    "power": power,
    "projected": attention.projected,
    "quantised_function": quantised_function,
    "quantize_dynamic": quantize_dynamic,
    "region_pool": region_pool,
    "resize": resize,
    "rnn": products.rnn,
    "scatter": scatter,
    "short_fourier": short_fourier,
    "skip_norm": skip_norm,
    "taken_part": taken_part,
    "top_k": top_k,
    "transpose": transpose,
    "unique": unique,
    "variadic": variadic,
}
