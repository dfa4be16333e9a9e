"""What the vocabulary's data cannot say of a call: kernel sizes, windows, exponents, number formats.

A recipe sees the arguments by name (`call("weight")`, None where there is none), the result, the attributes so
far and the op's name, and returns further attributes. Among them, "kind" and "inputs" replace those of the row,
"first_inputs" and "first_outputs" are where their list ends, and "more" are tensors that are inputs too.

Tensors may be PyTorch's own, or what stands for those of a recorded run: PyTorch is not imported until it is
needed.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rooflab.work.capture.torch import sequence_recipes  # noqa: F401  its recipes register themselves
from rooflab.work.capture.torch.recipe_registry import RECIPES, Attrs, Call, is_dense, is_tensor, recipe

__all__ = ["RECIPES"]


def _logical_shape(one: Any) -> tuple[int, ...]:
    """The elements of each dimension: two of fp4 lie in a byte of PyTorch's; a recorded run has them apart."""
    if isinstance(one.dtype, str):
        return tuple(one.shape)
    from rooflab.work.capture.torch.tensors import logical_shape

    return logical_shape(one)


@recipe
def alpha(call: Call, out: Any, attrs: Attrs, name: str) -> Attrs:
    """A + alpha·b is one operation more where alpha is not 1."""
    return {"function": "add_scaled"} if call("alpha") not in (None, 1) else {}


@recipe
def rolled(call: Call, out: Any, attrs: Attrs, name: str) -> Attrs:
    """PyTorch rolls one dimension after the other."""
    return {"dims": max(len(call("dims") or ()), 1)}


@recipe
def power(call: Call, out: Any, attrs: Attrs, name: str) -> Attrs:
    """Small fixed exponents are computed by multiplications and roots."""
    exponent = call("exponent")
    special = {1: "positive", 2: "square", 3: "cube", 0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal"}
    return {"function": special.get(exponent, "pow") if isinstance(exponent, (int, float)) else "pow"}


@recipe
def gelu(call: Call, out: Any, attrs: Attrs, name: str) -> Attrs:
    """The form with tanh is another function."""
    if call("approximate") != "tanh":
        return {}
    return {"function": attrs["function"].replace("gelu", "gelu_tanh")}


@recipe
def distances(call: Call, out: Any, attrs: Attrs, name: str) -> Attrs:
    """sum(|x − y|^p)^(1/p) over the features: subtract, power (a multiplication for p = 2), add; a root."""
    features = (call("x1") if call("x1") is not None else call("self")).shape[-1]
    p = call("p")
    if p == 2:
        return {"vector": 3 * features, "special": 1}
    if p in (0, 1, math.inf):
        return {"vector": 3 * features, "special": 0}
    return {"vector": 4 * features, "special": 2 * features + 2}


@recipe
def distances_backward(call: Call, out: Any, attrs: Attrs, name: str) -> Attrs:
    """For each of the other points: subtract, multiply by gradient over distance, add; powers unless p is 2."""
    others, p = call("x2").shape[-2], call("p")
    return {"vector": 3 * others, "special": 0 if p in (0, 1, 2, math.inf) else 2 * others}


@recipe
def order(call: Call, out: Any, attrs: Attrs, name: str) -> Attrs:
    """The order of a norm decides its function."""
    exponent = next((one for one in (call("p"), call("ord")) if one is not None), 2)
    functions = {2: "norm", 1: "norm1", math.inf: "norm_inf", -math.inf: "norm_inf", 0: "count_nonzero"}
    return {"function": functions.get(exponent, "norm_p")}


@recipe
def addend(call: Call, out: Any, attrs: Attrs, name: str) -> Attrs:
    """With a beta of 0 the addend is neither read nor added."""
    return {"bias": False, "first_inputs": 2} if call("beta") == 0 else {}


@recipe
def summed_batches(call: Call, out: Any, attrs: Attrs, name: str) -> Attrs:
    """Addbmm sums the products of a batch into one matrix."""
    batch, _rows, k = call("batch1").shape
    return {"k": batch * k, **addend(call, out, attrs, name)}


@recipe
def addmm_activation(call: Call, out: Any, attrs: Attrs, name: str) -> Attrs:
    """The function applied to the result before it is stored."""
    return {"activation": "gelu_tanh" if call("use_gelu") else "relu"}


@recipe
def grouped(call: Call, out: Any, attrs: Attrs, name: str) -> Attrs:
    """Multiply-adds of groups that together cover every row (or column, or inner index) once."""
    a = call("self") if call("self") is not None else call("mat_a")
    b = call("mat2") if call("mat2") is not None else call("mat_b")
    shape = _logical_shape(a)
    rows = shape[-2] * shape[-1] if b.dim() == 2 else math.prod(shape)
    return {"fma": rows * _logical_shape(b)[-1]}


@recipe
def trilinear(call: Call, out: Any, attrs: Attrs, name: str) -> Attrs:
    """sum(i1·i2·i3) over the whole broadcast space, one multiply-add each; the second product is not counted."""
    return {"fma": math.prod(_expanded(call))}


def _expanded(call: Call) -> list[int]:
    shapes = []
    for tensor, at in (("i1", "expand1"), ("i2", "expand2"), ("i3", "expand3")):
        shape = list(call(tensor).shape)
        for dim in call(at):
            shape.insert(dim, 1)
        shapes.append(shape)
    return [max(sizes) for sizes in zip(*shapes, strict=True)]


@recipe
def euclidean(call: Call, out: Any, attrs: Attrs, name: str) -> Attrs:
    """|x|² − 2·x·y + |y|² as one product with two columns more."""
    return {"k": call("x1").shape[-1] + 2}


@recipe
def sparse(call: Call, out: Any, attrs: Attrs, name: str) -> Attrs:
    """Non-zeros of the sparse operand and columns of the dense one."""
    operands = [call(one) for one in ("self", "mat1", "mat", "mat2", "other", "vec", "batch1", "batch2")]
    tensors = [one for one in operands if is_tensor(one)]
    nnz = max(one._nnz() for one in tensors if not is_dense(one))
    dense = next((one for one in reversed(tensors) if is_dense(one)), None)
    columns = dense.shape[-1] if dense is not None and dense.dim() > 1 else 1
    derived: Attrs = {"nnz": int(nnz), "n": int(columns)}
    if call("beta") == 0:  # the addend, the last of the inputs, is not read
        derived["first_inputs"] = -1
    elif call("beta") is not None:
        derived["bias"] = True
    return derived


@recipe
def packed_linear(call: Call, out: Any, attrs: Attrs, name: str) -> Attrs:
    """A linear layer whose weight and bias are packed in an object of the library."""
    weight, bias = call("W_prepack").unpack()
    derived: Attrs = {"k": int(weight.shape[1]), "bias": bias is not None, "more": (weight, bias)}
    if not name.endswith("fp16"):
        derived["compute"] = "int8"
    return derived


@recipe
def qr_parts(call: Call, out: Any, attrs: Attrs, name: str) -> Attrs:
    """Which of Q and R are formed: mode "reduced", "complete" or "r"."""
    mode = call("mode") or "reduced"
    return {"parts": "r"} if mode == "r" else {"parts": "qr", "complete": mode == "complete"}


@recipe
def conv(call: Call, out: Any, attrs: Attrs, name: str) -> Attrs:
    """The kernel's sizes."""
    return {"kernel": tuple(call("weight").shape[2:])}


@recipe
def conv_backward(call: Call, out: Any, attrs: Attrs, name: str) -> Attrs:
    """The kernel's sizes, and which gradients are asked for."""
    input_grad, weight_grad, bias_grad = call("output_mask")
    return {
        "kernel": tuple(call("weight").shape[2:]),
        "input_grad": input_grad,
        "weight_grad": weight_grad,
        "bias_grad": bias_grad,
    }


@recipe
def window(call: Call, out: Any, attrs: Attrs, name: str) -> Attrs:
    """Elements that a pool looks at for one result."""
    sizes = call("kernel_size")
    dims = {"1": 1, "2": 2, "3": 3}[name.partition("pool")[2][0]]
    return {"window": math.prod(sizes) if len(sizes) > 1 else sizes[0] ** dims}


@recipe
def adaptive_window(call: Call, out: Any, attrs: Attrs, name: str) -> Attrs:
    """Elements per result, rounded up where sizes do not divide."""
    dims = int(name.partition("pool")[2][0])
    x = call("self")
    small = call("grad_output") if "backward" in name else (out[0] if isinstance(out, tuple) else out)
    sizes = zip(x.shape[-dims:], small.shape[-dims:], strict=True)
    return {"window": math.prod(-(-big // max(small, 1)) for big, small in sizes)}


@recipe
def bag(call: Call, out: Any, attrs: Attrs, name: str) -> Attrs:
    """Rows of a bag are added up (or their largest taken)."""
    weighted = call("per_sample_weights") is not None
    return {"reduce": {0: "sum", 1: "mean", 2: "max"}[call("mode")], "weighted": weighted}


@recipe
def bag_gradient(call: Call, out: Any, attrs: Attrs, name: str) -> Attrs:
    """Elements that a bag's gradient is added to: those of each row in it; a maximum's came from one row."""
    grad = call("grad")
    return {"elements": grad.numel() if call("mode") == 2 else call("indices").numel() * grad.shape[-1]}


@recipe
def diagonal(call: Call, out: Any, attrs: Attrs, name: str) -> Attrs:
    """Of a matrix, its diagonal alone is read."""
    return {"elements": min(call("self").shape)}


@recipe
def sampled(call: Call, out: Any, attrs: Attrs, name: str) -> Attrs:
    """How values between points are found: 0 linear in each dimension (the row's mode), 1 nearest, 2 cubic."""
    mode = (None, "nearest", "bicubic")[call("interpolation_mode")]
    return {} if mode is None else {"mode": mode}


@recipe
def affine(call: Call, out: Any, attrs: Attrs, name: str) -> Attrs:
    """Each coordinate of the grid is a row of the matrix times a point: a multiply-add per column."""
    return {"vector": 2 * call("theta").shape[-1], "special": 0}


@recipe
def antialiased(call: Call, out: Any, attrs: Attrs, name: str) -> Attrs:
    """Taps by dimension: a filter of twice its reach, 1 or 2 elements, stretched where the image shrinks."""
    large, small = call("input_size") or call("self").shape, call("output_size")
    reach = 2 if attrs["mode"] == "bicubic" else 1
    scales = [max(before / max(after, 1), 1.0) for before, after in zip(large[-2:], small[-2:], strict=True)]
    return {"taps": tuple(min(math.ceil(2 * reach * s), n) for s, n in zip(scales, large[-2:], strict=True))}


@recipe
def in_place(call: Call, out: Any, attrs: Attrs, name: str) -> Attrs:
    """The form that ends in an underscore writes into its first operand."""
    derived: Attrs = {"in_place": name.endswith("_")}
    values = next((one for one in (call("src"), call("source"), call("value")) if one is not None), None)
    if not is_tensor(values):  # a number, held in a register
        derived |= {"base": True, "elements": call("index").numel()}
        if name.startswith("aten.index_fill"):
            x = call("self")
            derived["elements"] *= x.numel() // max(1, x.shape[call("dim")]) if x.dim() else 1
    return derived | dims(call, out, attrs, name)


@recipe
def put(call: Call, out: Any, attrs: Attrs, name: str) -> Attrs:
    """Elements that indices reach: their broadcast shape times the dimensions that they leave; a mask: all."""
    x, indices = call("self"), [one for one in call("indices") if one is not None]
    derived: Attrs = {"in_place": name.endswith("_")}
    if any(str(one.dtype).removeprefix("torch.") in ("bool", "uint8") for one in indices):
        return {**derived, "elements": x.numel()}
    reached = math.prod(np.broadcast_shapes(*(tuple(one.shape) for one in indices)))
    left = [size for size, one in zip(x.shape, [*call("indices"), *[None] * x.dim()], strict=False) if one is None]
    return {**derived, "elements": reached * math.prod(left)}


@recipe
def picked(call: Call, out: Any, attrs: Attrs, name: str) -> Attrs:
    """The dimensions that indices go along; a mask goes along as many as it has."""
    found, at = [], 0
    for one in call("indices"):
        wide = one.dim() if one is not None and str(one.dtype).removeprefix("torch.") == "bool" else 1
        found += range(at, at + wide) if one is not None else ()
        at += wide
    return {"dims": tuple(found)} if call("self").dim() > 1 else {}


@recipe
def reduced(call: Call, out: Any, attrs: Attrs, name: str) -> Attrs:
    """How a loss is reduced, in words."""
    return {"reduction": ("none", "mean", "sum")[call("reduction")]}


@recipe
def along(call: Call, out: Any, attrs: Attrs, name: str) -> Attrs:
    """Length of what is sorted."""
    x, dim = call("self"), call("dim")
    if not x.dim():
        return {"n": 1}
    return {"n": int(x.shape[dim] if dim is not None else x.numel())}


@recipe
def dims(call: Call, out: Any, attrs: Attrs, name: str) -> Attrs:
    """The dimensions that are reduced or run along, where the call says which: `order` for a norm beside it."""
    asked = call("dim")
    x = next((one for one in (call("self"), call("input"), call("grad_output")) if is_tensor(one)), None)
    derived = order(call, out, attrs, name) if "norm" in name else {}
    listed = (asked,) if isinstance(asked, int) else tuple(asked or ())
    if x is None or x.dim() < 2 or not all(isinstance(one, int) for one in listed) or not listed:
        return derived
    return {**derived, "dims": tuple(sorted(one % x.dim() for one in listed))}


@recipe
def fft(call: Call, out: Any, attrs: Attrs, name: str) -> Attrs:
    """Lengths of the transformed dimensions, as of the real signal."""
    signal = out if name.endswith("c2r") else call("self")
    derived: Attrs = {"n": tuple(int(signal.shape[dim]) for dim in call("dim"))}
    if name.endswith("c2c"):
        derived["inverse"] = not call("forward")
    return derived


@recipe
def updated(call: Call, out: Any, attrs: Attrs, name: str) -> Attrs:
    """Number of parameters that a fused optimizer updates."""
    return {"elements": sum(one.numel() for one in call("self"))}


@recipe
def copy(call: Call, out: Any, attrs: Attrs, name: str) -> Attrs:
    """A copy to another number format is a cast; to another order of elements, a change of layout."""
    source = call("src") if call("src") is not None else call("self")
    if source.dtype != out.dtype:
        return {"kind": "cast"}
    if not is_dense(source) or not is_dense(out):
        return {}
    same = source.shape == out.shape and source.stride() == out.stride()
    both = source.is_contiguous() and out.is_contiguous()
    return {} if same or both else {"kind": "layout"}


@recipe
def bernoulli(call: Call, out: Any, attrs: Attrs, name: str) -> Attrs:
    """With a probability p, the tensor's own values are not read."""
    return {"inputs": ()} if call("p") is not None and not is_tensor(call("p")) else {}


@recipe
def ranks(call: Call, out: Any, attrs: Attrs, name: str) -> Attrs:
    """Ranks of the group that exchanges."""
    from rooflab.work.capture.torch.ranks import group_size

    size = call("group_size")
    return {"ranks": group_size(call("group_name")) if size is None else int(size)}


@recipe
def c10d(call: Call, out: Any, attrs: Attrs, name: str) -> Attrs:
    """Ranks of the group, the tensors written to (`into`), and whether the call returns before it is done."""
    from rooflab.work.capture.torch.ranks import group_size

    into = attrs.pop("into", None)  # type: ignore[attr-defined]
    waits = call("async_op") is False
    return {
        "ranks": group_size(call("process_group")),
        "asynchronous": not waits,
        "more_outputs": None if into is None else call(into),
    }
