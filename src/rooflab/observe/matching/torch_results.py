"""Results of PyTorch's operators from their arguments: a profiler records what goes in, not what comes out."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from rooflab.observe.matching.torch_arguments import SCALAR_TYPES, Seen

Arguments = Mapping[str, Any]
Results = list[Seen] | None
_RULES: dict[str, Callable[[str, Arguments], Results]] = {}

_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_TESTS = ("isnan", "isinf", "isfinite", "isneginf", "isposinf", "signbit")
_TRUTHS = (*_COMPARISONS, *_TESTS, "logical_and", "logical_or", "logical_xor", "logical_not")
_WHOLE = ("bool", "int8", "int16", "int32", "int64")
# What whole numbers are made floating-point for.
_FLOATING = frozenset(
    (
        *("div", "true_divide", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt"),
        *("reciprocal", "sigmoid", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "asinh"),
        *("acosh", "atanh", "atan2", "erf", "erfc", "erfinv", "lgamma", "digamma", "xlogy", "logit", "sinc", "i0"),
    )
)
_INDICES = "int64"
_ORDER = (
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "fp8",
    "fp16",
    "bf16",
    "fp32",
    "fp64",
    "complex64",
    "complex128",
)


def results(name: str, kind: str, given: Arguments) -> Results:
    """The tensors that the operator `name` ("aten.addmm") of `kind` returns; None where that does not follow.

    Args:
        name: as the vocabulary calls it.
        kind: of its formula.
        given: its arguments by name.
    """
    rule = _RULES.get(name.partition(".")[2].rstrip("_")) or _RULES.get(f"kind {kind}")
    if rule is None:
        return None
    if name.endswith("_") and isinstance(given.get("self"), Seen):
        return [given["self"]]
    try:
        return rule(name, given)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, ZeroDivisionError, StopIteration):
        return None  # arguments that were not recorded, or not as the schema has them


def rule(*names: str) -> Callable[[Callable[[str, Arguments], Results]], Callable[[str, Arguments], Results]]:
    """Register the function below for the operators `names`, without "aten." and "_" at the end, or "kind K"."""

    def register(function: Callable[[str, Arguments], Results]) -> Callable[[str, Arguments], Results]:
        for name in names:
            _RULES[name] = function
        return function

    return register


def tensors(given: Arguments) -> list[Seen]:
    """All tensors among the arguments, lists of them included."""
    found: list[Seen] = []
    for one in given.values():
        if isinstance(one, Seen):
            found.append(one)
        elif isinstance(one, list):
            found += [each for each in one if isinstance(each, Seen)]
    return found


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of an element-wise result."""
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    return tuple(0 if 0 in sizes else max(sizes) for sizes in zip(*padded, strict=True))


def wider(several: list[Seen]) -> str | None:
    """The number format that the operands are promoted to; scalar tensors do not widen others."""
    ranked = [one for one in several if one.shape] or several
    known = [one.dtype for one in ranked if one.dtype in _ORDER]
    if {"fp16", "bf16"} <= set(known):
        return "fp32"
    return max(known, key=_ORDER.index) if known else None


@rule("kind pointwise", "lerp", "where")
def _element_wise(name: str, given: Arguments) -> Results:
    own = name.partition(".")[2].rstrip("_")
    if "_foreach_" in own:
        return [Seen(one.shape, one.dtype) for one in given["self"]]
    operands = tensors(given)
    dtype = "bool" if own in _TRUTHS else wider(operands)
    if own in _FLOATING and dtype in _WHOLE:
        dtype = "fp32"
    shape = broadcast(*(one.shape for one in operands))
    # A result has no stride of 0, whatever its operands have.
    alike = (one for one in operands if one.shape == shape and 0 not in (one.strides or ()))
    like = next(alike, None)
    return [Seen(shape, dtype, None if like is None else like.strides)]


@rule(
    "mm",
    "addmm",
    "bmm",
    "baddbmm",
    "matmul",
    "linear",
    "mv",
    "addmv",
    "dot",
    "vdot",
    "addbmm",
    "_int_mm",
    "_scaled_mm",
)
def _product(name: str, given: Arguments) -> Results:
    own = name.partition(".")[2].rstrip("_")
    # "self" of what also adds is what is added to: the factors' own names come first.
    pairs = (("mat", "vec"), ("mat1", "mat2"), ("batch1", "batch2"), ("input", "weight"), ("self", "mat2"))
    pairs += (("self", "vec"), ("self", "vec2"), ("self", "other"), ("self", "tensor"))
    a, b = next(
        (given[one], given[other])
        for one, other in pairs
        if isinstance(given.get(one), Seen) and isinstance(given.get(other), Seen)
    )
    if own == "linear":
        shape = (*a.shape[:-1], b.shape[0])
    elif own == "addbmm":
        shape = (a.shape[1], b.shape[2])
    elif b.dim() == 1:
        shape = a.shape[:-1]
    elif a.dim() == 1:
        shape = (*b.shape[:-2], b.shape[-1])
    else:
        shape = (*broadcast(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])
    asked = SCALAR_TYPES.get(given.get("out_dtype"))  # type: ignore[arg-type]
    dtype = asked or ("int32" if own == "_int_mm" else a.dtype)
    return [Seen(shape, dtype)]


@rule(
    "convolution",
    "_convolution",
    "cudnn_convolution",
    "mkldnn_convolution",
    "_conv_depthwise2d",
    "miopen_convolution",
)
def _convolution(name: str, given: Arguments) -> Results:
    x = given["input"] if isinstance(given.get("input"), Seen) else given["self"]
    weight = given["weight"]
    rank = weight.dim() - 2

    def each(key: str, default: int) -> tuple[int, ...]:
        value = given.get(key)
        value = (default,) if value is None else value if isinstance(value, tuple) else (value,)
        return value * rank if len(value) == 1 else value

    stride, padding, dilation = each("stride", 1), each("padding", 0), each("dilation", 1)
    kernel, sizes = weight.shape[2:], x.shape[-rank:]
    if given.get("transposed"):
        extra = each("output_padding", 0)
        channels = weight.shape[1] * (given.get("groups") or 1)
        spatial = tuple(
            (size - 1) * s - 2 * p + d * (k - 1) + e + 1
            for size, s, p, d, k, e in zip(sizes, stride, padding, dilation, kernel, extra, strict=True)
        )
    else:
        channels = weight.shape[0]
        spatial = tuple(
            (size + 2 * p - d * (k - 1) - 1) // s + 1
            for size, s, p, d, k in zip(sizes, stride, padding, dilation, kernel, strict=True)
        )
    return [Seen((*x.shape[: x.dim() - rank - 1], channels, *spatial), x.dtype)]


@rule("convolution_backward")
def _convolution_backward(name: str, given: Arguments) -> Results:
    x, weight = given["input"], given["weight"]
    bias = Seen((weight.shape[0] if not given.get("transposed") else weight.shape[1],), weight.dtype)
    wanted = given.get("output_mask") or (True, True, True)
    return [Seen(one.shape, one.dtype) for one, asked in zip((x, weight, bias), wanted, strict=True) if asked]


@rule("kind attention")
def _attention(name: str, given: Arguments) -> Results:
    query, value = given["query"], given["value"]
    packed = "_flash_attention" in name or "_efficient_attention" in name
    packed = packed and "scaled_dot_product" not in name  # batch, sequence, heads, size
    heads, length = (query.shape[-2], query.shape[-3]) if packed else (query.shape[-3], query.shape[-2])
    sums = Seen((query.shape[0], heads, length), "fp32")
    return [Seen((*query.shape[:-1], value.shape[-1]), query.dtype, query.strides), sums]


@rule("kind attention_backward")
def _attention_backward(name: str, given: Arguments) -> Results:
    return [given["query"], given["key"], given["value"], given.get("attn_bias") or given["query"]]


@rule("native_layer_norm")
def _layer_norm(name: str, given: Arguments) -> Results:
    x, normalized = given["input"], given["normalized_shape"]
    rows = Seen((*x.shape[: x.dim() - len(normalized)], *(1,) * len(normalized)), "fp32")
    return [Seen(x.shape, x.dtype), rows, rows]


@rule("_fused_rms_norm", "rms_norm")
def _rms_norm(name: str, given: Arguments) -> Results:
    x = given["input"]
    return [Seen(x.shape, x.dtype), Seen((*x.shape[:-1], 1), "fp32")]


@rule(
    "native_group_norm", "native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm", "_native_batch_norm_legit"
)
def _channel_norm(name: str, given: Arguments) -> Results:
    x = given["input"]
    groups = given["N"] * given["group"] if "group" in given else x.shape[1]
    sums = Seen((groups,), x.dtype if "group_norm" in name else "fp32")
    running = [given.get(one) for one in ("running_mean", "running_var")] if given.get("training") is True else []
    updated = [one for one in running if isinstance(one, Seen)]
    return [Seen(x.shape, x.dtype, x.strides), sums, sums, Seen((0,), "int8"), *updated]


@rule(
    "native_layer_norm_backward",
    "_fused_rms_norm_backward",
    "native_group_norm_backward",
    "native_batch_norm_backward",
)
def _norm_backward(name: str, given: Arguments) -> Results:
    x = given["input"]
    weight = given.get("weight")
    return [Seen(x.shape, x.dtype), *([weight, weight] if isinstance(weight, Seen) else [])]


@rule("kind softmax", "kind softmax_backward", "kind scan", "clone", "contiguous", "neg", "alias", "fill", "zero")
def _alike(name: str, given: Arguments) -> Results:
    first = tensors(given)[0]
    wide = given.get("half_to_float") is True
    dtype = "fp32" if wide else "int64" if ".cum" in name and first.dtype in _WHOLE else first.dtype
    own = name.partition(".")[2]
    indices = [Seen(first.shape, _INDICES)] if own in ("cummax", "cummin") else []
    return [Seen(first.shape, dtype), *indices]


@rule("copy", "copy_")
def _copied(name: str, given: Arguments) -> Results:
    return [given["self"]]


@rule("native_dropout")
def _dropout(name: str, given: Arguments) -> Results:
    x = given["input"]
    return [Seen(x.shape, x.dtype), Seen(x.shape, "bool")]


@rule("cat", "concat")
def _joined(name: str, given: Arguments) -> Results:
    parts = [one for one in given["tensors"] if one.shape != (0,)]
    dim = given.get("dim") or 0
    shape = list(parts[0].shape)
    shape[dim] = sum(one.shape[dim] for one in parts)
    return [Seen(tuple(shape), parts[0].dtype)]


@rule("embedding")
def _embedding(name: str, given: Arguments) -> Results:
    return [Seen((*given["indices"].shape, given["weight"].shape[1]), given["weight"].dtype)]


@rule("embedding_dense_backward")
def _embedding_backward(name: str, given: Arguments) -> Results:
    rows = given["grad_output"]
    return [Seen((given["num_weights"], rows.shape[-1]), rows.dtype)]


@rule("gather", "scatter", "scatter_add", "index_add", "index_copy", "index_fill", "index_put")
def _indexed(name: str, given: Arguments) -> Results:
    x = given["self"]
    return [Seen(given["index"].shape if ".gather" in name else x.shape, x.dtype)]


@rule("index_select")
def _selected(name: str, given: Arguments) -> Results:
    x, dim = given["self"], given["dim"]
    shape = list(x.shape)
    shape[dim] = given["index"].numel()
    return [Seen(tuple(shape), x.dtype)]


@rule("index", "_unsafe_index")
def _index(name: str, given: Arguments) -> Results:
    x, indices = given["self"], given["indices"]
    if given.get("reached") is not None:
        return [Seen(given["reached"], x.dtype)]
    shape = broadcast(*(one.shape for one in indices))
    return [Seen((*shape, *x.shape[len(indices) :]), x.dtype)]


@rule("kind reduction")
def _reduced(name: str, given: Arguments) -> Results:
    x = given["self"]
    own = name.partition(".")[2]
    dims = given.get("dim")
    dims = tuple(range(x.dim())) if dims is None or dims == () else dims if isinstance(dims, tuple) else (dims,)
    gone = {dim % x.dim() for dim in dims} if x.dim() else set()
    keep = given.get("keepdim") is True
    shape = tuple(1 if at in gone else size for at, size in enumerate(x.shape) if keep or at not in gone)
    dtype = (
        _INDICES if own in ("argmax", "argmin", "count_nonzero") else "bool" if own in ("any", "all") else x.dtype
    )
    if own in ("sum", "prod") and dtype in ("bool", "int8", "int16", "int32"):
        dtype = _INDICES
    found = [Seen(shape, dtype)]
    if own in ("max", "min", "median", "mode") and given.get("dim") is not None:
        found.append(Seen(shape, _INDICES))
    if own in ("var_mean", "std_mean", "aminmax"):
        found.append(Seen(shape, dtype))
    return found


@rule("sort", "topk")
def _sorted(name: str, given: Arguments) -> Results:
    x = given["self"]
    shape = list(x.shape)
    if ".topk" in name:
        dim = given.get("dim")
        shape[-1 if dim is None else int(dim)] = given["k"]
    return [Seen(tuple(shape), x.dtype), Seen(tuple(shape), _INDICES)]


@rule("argsort")
def _argsorted(name: str, given: Arguments) -> Results:
    return [Seen(given["self"].shape, _INDICES)]


@rule("max_pool2d_with_indices", "max_pool3d_with_indices", "avg_pool2d", "avg_pool1d", "avg_pool3d")
def _pooled(name: str, given: Arguments) -> Results:
    x = given["self"]
    kernel = given["kernel_size"]
    rank = len(kernel)
    each = lambda value, default: default if not value else value if len(value) == rank else value * rank  # noqa: E731
    stride, padding = each(given.get("stride"), kernel), each(given.get("padding"), (0,) * rank)
    dilation = each(given.get("dilation"), (1,) * rank)
    round_up = given.get("ceil_mode") is True
    sizes = []
    for size, k, s, p, d in zip(x.shape[-rank:], kernel, stride, padding, dilation, strict=True):
        span = size + 2 * p - d * (k - 1) - 1
        sizes.append((math.ceil(span / s) if round_up else span // s) + 1)
    shape = (*x.shape[:-rank], *sizes)
    return [Seen(shape, x.dtype), *([Seen(shape, _INDICES)] if ".max" in name else [])]


@rule("_adaptive_avg_pool2d", "adaptive_max_pool2d")
def _adaptive(name: str, given: Arguments) -> Results:
    x, sizes = given["self"], given["output_size"]
    shape = (*x.shape[:-2], *sizes)
    return [Seen(shape, x.dtype), *([Seen(shape, _INDICES)] if ".adaptive_max" in name else [])]
