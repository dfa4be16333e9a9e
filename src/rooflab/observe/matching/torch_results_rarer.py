"""Results of PyTorch's rarer operators from their arguments: losses, images, layouts, factorisations, random."""

from __future__ import annotations

import math
from typing import Any

from rooflab.observe.matching.torch_arguments import SCALAR_TYPES, Seen
from rooflab.observe.matching.torch_results import Arguments, Results, broadcast, rule, tensors, wider

_INDICES = "int64"


_LENGTHS = {"linspace": "steps", "logspace": "steps", "randperm": "n"}  # arguments that say how long


def _asked(given: Arguments, default: str | None) -> str | None:
    """The number format that was asked for, else `default`."""
    number = given.get("dtype")
    return SCALAR_TYPES.get(number, default) if isinstance(number, int) else default


def _whole(*values: Any) -> bool:
    return all(isinstance(value, int) for value in values if value is not None)


@rule("arange", "range")
def _counted(name: str, given: Arguments) -> Results:
    start, end, step = given.get("start") or 0, given["end"], given.get("step") or 1
    count = (end - start) / step
    length = math.ceil(count) if ".arange" in name else math.floor(count) + 1
    return [Seen((max(length, 0),), _asked(given, _INDICES if _whole(start, end, step) else "fp32"))]


@rule(
    "zeros", "ones", "full", "empty", "rand", "randn", "randint", "new_zeros", "new_ones", "new_full", "new_empty"
)
def _made(name: str, given: Arguments) -> Results:
    # Overloads with as many arguments differ by the place of the size.
    size = next(one for one in (given["size"], *given.values()) if isinstance(one, tuple))
    like = given.get("self")
    filled = given.get("fill_value")
    default = like.dtype if isinstance(like, Seen) else "fp32"
    if ".full" in name and _whole(filled) and filled is not None:
        default = "bool" if isinstance(filled, bool) else _INDICES
    if ".randint" in name:
        default = _INDICES
    return [Seen(size if isinstance(size, tuple) else (size,), _asked(given, default))]


@rule(
    "zeros_like",
    "ones_like",
    "full_like",
    "empty_like",
    "rand_like",
    "randn_like",
    "randint_like",
    "_to_copy",
    "_pin_memory",
)
def _alike(name: str, given: Arguments) -> Results:
    x = given["self"]
    return [Seen(x.shape, _asked(given, x.dtype), x.strides)]


@rule("eye", "linspace", "logspace", "randperm", "scalar_tensor", "tril_indices", "triu_indices")
def _sized(name: str, given: Arguments) -> Results:
    own = name.partition(".")[2]
    if own == "eye":
        rows = given["n"]
        shape: tuple[int, ...] = (rows, rows if given.get("m") is None else given["m"])
    elif own in ("tril_indices", "triu_indices"):
        return None  # how many there are follows from the offset: rarely worth it
    else:
        long = given.get(_LENGTHS.get(own, ""))
        if own in _LENGTHS and not isinstance(long, int):
            return None  # not recorded
        shape = (long,) if isinstance(long, int) else ()
    return [Seen(shape, _asked(given, _INDICES if own == "randperm" else "fp32"))]


@rule("hann_window", "hamming_window", "blackman_window", "bartlett_window", "kaiser_window")
def _window(name: str, given: Arguments) -> Results:
    return [Seen((given["window_length"],), _asked(given, "fp32"))]


@rule("normal", "uniform", "random", "exponential", "cauchy", "geometric", "log_normal", "bernoulli", "poisson")
def _random(name: str, given: Arguments) -> Results:
    several = tensors(given)
    first = given["self"] if isinstance(given.get("self"), Seen) else several[0]
    return [Seen(broadcast(*(one.shape for one in several)), first.dtype)]


@rule("multinomial")
def _drawn(name: str, given: Arguments) -> Results:
    return [Seen((*given["self"].shape[:-1], given["num_samples"]), _INDICES)]


@rule("mse_loss", "huber_loss", "smooth_l1_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits")
@rule("soft_margin_loss")
def _loss(name: str, given: Arguments) -> Results:
    several = [one for one in (given["self"], given["target"]) if isinstance(one, Seen)]
    kept = given.get("reduction") == 0
    return [Seen(broadcast(*(one.shape for one in several)) if kept else (), wider(several))]


@rule("mse_loss_backward", "huber_loss_backward", "smooth_l1_loss_backward", "binary_cross_entropy_backward")
@rule("soft_margin_loss_backward", "nll_loss_backward", "nll_loss2d_backward")
def _loss_backward(name: str, given: Arguments) -> Results:
    x = given["self"]
    shape = x.shape
    if "nll" not in name and isinstance(given.get("target"), Seen):
        shape = broadcast(shape, given["target"].shape)
    return [Seen(shape, x.dtype)]


@rule("nll_loss_forward", "nll_loss2d_forward")
def _picked(name: str, given: Arguments) -> Results:
    x, kept = given["self"], given.get("reduction") == 0
    return [Seen(given["target"].shape if kept else (), x.dtype), Seen((), x.dtype)]


def _spatial(given: Arguments, rank: int) -> tuple[int, ...]:
    x = given["self"] if isinstance(given.get("self"), Seen) else given["input"]
    sizes = given.get("output_size")
    if sizes is None:
        sizes = tuple(
            int(size * factor) for size, factor in zip(x.shape[-rank:], given["scale_factors"], strict=True)
        )
    return (*x.shape[:-rank], *sizes)


_RANKS = {"1d": 1, "2d": 2, "3d": 3}


def _rank(name: str) -> int:
    return next(rank for text, rank in _RANKS.items() if text in name)


@rule("kind interpolate")
def _resized(name: str, given: Arguments) -> Results:
    if "grid_sampler" in name:
        x, grid = given["input"], given["grid"]
        return [Seen((*x.shape[:2], *grid.shape[1:-1]), x.dtype)]
    x = given["self"] if isinstance(given.get("self"), Seen) else given["input"]
    return [Seen(_spatial(given, _rank(name)), x.dtype)]


@rule("kind interpolate_backward")
def _resized_backward(name: str, given: Arguments) -> Results:
    if "grid_sampler" in name:
        return [Seen(given["input"].shape, given["input"].dtype), Seen(given["grid"].shape, given["grid"].dtype)]
    return [Seen(given["input_size"], given["grad_output"].dtype)]


@rule("kind pool_backward")
def _pool_backward(name: str, given: Arguments) -> Results:
    return [Seen(given["self"].shape, given["self"].dtype)]


@rule("_adaptive_avg_pool3d", "adaptive_max_pool3d")
def _adaptive(name: str, given: Arguments) -> Results:
    x = given["self"]
    shape = (*x.shape[:-3], *given["output_size"])
    return [Seen(shape, x.dtype), *([Seen(shape, _INDICES)] if ".adaptive_max" in name else [])]


@rule("constant_pad_nd", "reflection_pad1d", "reflection_pad2d", "reflection_pad3d")
@rule("replication_pad1d", "replication_pad2d", "replication_pad3d")
def _padded(name: str, given: Arguments) -> Results:
    x = given["self"]
    pad = given["pad"] if isinstance(given.get("pad"), tuple) else given["padding"]
    shape = list(x.shape)
    for at in range(len(pad) // 2):
        shape[-1 - at] += pad[2 * at] + pad[2 * at + 1]
    return [Seen(tuple(shape), x.dtype)]


@rule("reflection_pad1d_backward", "reflection_pad2d_backward", "reflection_pad3d_backward")
@rule("replication_pad1d_backward", "replication_pad2d_backward", "replication_pad3d_backward")
def _as_before(name: str, given: Arguments) -> Results:
    return [Seen(given["self"].shape, given["self"].dtype)]


@rule("select_backward", "slice_backward", "diagonal_backward", "unfold_backward")
def _as_large(name: str, given: Arguments) -> Results:
    gradient = given.get("grad_output") or given["grad_in"]
    return [Seen(given["input_sizes"], gradient.dtype)]


@rule(
    "flip", "roll", "channel_shuffle", "slice_scatter", "select_scatter", "diagonal_scatter", "as_strided_scatter"
)
def _rearranged(name: str, given: Arguments) -> Results:
    return [Seen(given["self"].shape, given["self"].dtype)]


@rule("rot90")
def _turned(name: str, given: Arguments) -> Results:
    x, shape = given["self"], list(given["self"].shape)
    if (given.get("k") or 0) % 2:
        a, b = given["dims"]
        shape[a], shape[b] = shape[b], shape[a]
    return [Seen(tuple(shape), x.dtype)]


@rule("repeat")
def _repeated(name: str, given: Arguments) -> Results:
    x, repeats = given["self"], given["repeats"]
    padded = (1,) * (len(repeats) - x.dim()) + x.shape
    return [Seen(tuple(a * b for a, b in zip(padded, repeats, strict=True)), x.dtype)]


@rule("pixel_shuffle", "pixel_unshuffle")
def _pixels(name: str, given: Arguments) -> Results:
    x = given["self"]
    *outer, channels, height, width = x.shape
    if "unshuffle" in name:
        by = given["downscale_factor"]
        return [Seen((*outer, channels * by * by, height // by, width // by), x.dtype)]
    by = given["upscale_factor"]
    return [Seen((*outer, channels // (by * by), height * by, width * by), x.dtype)]


@rule("im2col")
def _patches(name: str, given: Arguments) -> Results:
    x, kernel = given["self"], given["kernel_size"]
    counts = [
        (size + 2 * p - d * (k - 1) - 1) // s + 1
        for size, k, d, p, s in zip(
            x.shape[-2:], kernel, given["dilation"], given["padding"], given["stride"], strict=True
        )
    ]
    return [Seen((*x.shape[:-3], x.shape[-3] * math.prod(kernel), math.prod(counts)), x.dtype)]


@rule("col2im")
def _unpatched(name: str, given: Arguments) -> Results:
    x = given["self"]
    channels = x.shape[-2] // math.prod(given["kernel_size"])
    return [Seen((*x.shape[:-2], channels, *given["output_size"]), x.dtype)]


@rule("diag_embed")
def _diagonals(name: str, given: Arguments) -> Results:
    x = given["self"]
    size = x.shape[-1] + abs(given.get("offset") or 0)
    shape = list(x.shape[:-1])
    rank = x.dim() + 1
    for at in sorted(dim % rank for dim in (given["dim1"], given["dim2"])):
        shape.insert(at, size)
    return [Seen(tuple(shape), x.dtype)]


@rule("block_diag")
def _blocks(name: str, given: Arguments) -> Results:
    parts = [(1,) * (2 - one.dim()) + one.shape for one in given["tensors"]]
    return [Seen((sum(one[0] for one in parts), sum(one[1] for one in parts)), given["tensors"][0].dtype)]


@rule("stack")
def _stacked(name: str, given: Arguments) -> Results:
    parts = given["tensors"]
    shape = list(parts[0].shape)
    shape.insert((given.get("dim") or 0) % (len(shape) + 1), len(parts))
    return [Seen(tuple(shape), parts[0].dtype)]


@rule("repeat_interleave")
def _interleaved(name: str, given: Arguments) -> Results:
    size = given.get("output_size")
    return [Seen((size,), _INDICES)] if isinstance(size, int) and "self" not in given else None


@rule("permute_copy")
def _permuted(name: str, given: Arguments) -> Results:
    x = given["self"]
    return [Seen(tuple(x.shape[dim] for dim in given["dims"]), x.dtype)]


@rule("view_copy", "expand_copy", "as_strided_copy")
def _viewed(name: str, given: Arguments) -> Results:
    x, size = given["self"], given["size"]
    if ".expand" in name:
        padded = (1,) * (len(size) - x.dim()) + x.shape
        size = tuple(b if a == -1 else a for a, b in zip(size, padded, strict=True))
    elif -1 in size:
        known = -math.prod(size)
        size = tuple(x.numel() // known if one == -1 else one for one in size)
    return [Seen(size, x.dtype)]


@rule("t_copy", "transpose_copy")
def _transposed(name: str, given: Arguments) -> Results:
    x, shape = given["self"], list(given["self"].shape)
    a, b = (given["dim0"], given["dim1"]) if ".transpose" in name else (0, -1)
    if shape:
        shape[a], shape[b] = shape[b], shape[a]
    return [Seen(tuple(shape), x.dtype)]


@rule("take", "masked_select")
def _taken(name: str, given: Arguments) -> Results:
    index = given.get("index")
    return [Seen(index.shape, given["self"].dtype)] if isinstance(index, Seen) else None


@rule("scatter_reduce", "index_reduce", "put", "_index_put_impl", "_unsafe_index_put")
def _put(name: str, given: Arguments) -> Results:
    return [Seen(given["self"].shape, given["self"].dtype, given["self"].strides)]


@rule("masked_scatter")
def _masked_put(name: str, given: Arguments) -> Results:
    return [Seen(broadcast(given["self"].shape, given["mask"].shape), given["self"].dtype)]


@rule("isin")
def _is_in(name: str, given: Arguments) -> Results:
    elements = given.get("elements")
    return [Seen(elements.shape if isinstance(elements, Seen) else (), "bool")]


@rule("glu")
def _gated(name: str, given: Arguments) -> Results:
    x = given["self"]
    shape = list(x.shape)
    dim = given.get("dim")
    shape[-1 if dim is None else dim] //= 2
    return [Seen(tuple(shape), x.dtype)]


@rule("_prelu_kernel_backward")
def _prelu_backward(name: str, given: Arguments) -> Results:
    x = given["self"]
    return [Seen(x.shape, x.dtype), Seen(x.shape, x.dtype)]


@rule("rrelu_with_noise")
def _noisy(name: str, given: Arguments) -> Results:
    x = given["self"]
    return [Seen(x.shape, x.dtype), Seen(x.shape, x.dtype)]


@rule("complex", "polar")
def _complex(name: str, given: Arguments) -> Results:
    a, b = tensors(given)[:2]
    wide = "complex128" if "fp64" in (a.dtype, b.dtype) else "complex64"
    return [Seen(broadcast(a.shape, b.shape), wide)]


@rule("_pdist_forward")
def _pairs(name: str, given: Arguments) -> Results:
    x = given["self"]
    return [Seen((x.shape[0] * (x.shape[0] - 1) // 2,), x.dtype)]


@rule("_cdist_forward")
def _distances(name: str, given: Arguments) -> Results:
    a, b = given["x1"], given["x2"]
    return [Seen((*broadcast(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-2]), a.dtype)]


@rule("_cdist_backward")
def _distances_backward(name: str, given: Arguments) -> Results:
    a, b = given["x1"], given["x2"]
    return [Seen((*broadcast(a.shape[:-2], b.shape[:-2]), *a.shape[-2:]), a.dtype)]


@rule("histc")
def _histogram(name: str, given: Arguments) -> Results:
    return [Seen((given["bins"],), given["self"].dtype)]


@rule("searchsorted", "bucketize")
def _searched(name: str, given: Arguments) -> Results:
    x = given["self"]
    return [Seen(x.shape if isinstance(x, Seen) else (), "int32" if given.get("out_int32") else _INDICES)]


@rule("median", "nanmedian", "mode", "kthvalue")
def _middle(name: str, given: Arguments) -> Results:
    x, dim = given["self"], given.get("dim")
    if dim is None:
        return [Seen((), x.dtype)]
    shape = list(x.shape)
    if shape:
        shape[dim] = 1
        if given.get("keepdim") is not True:
            del shape[dim % len(shape)]
    return [Seen(tuple(shape), x.dtype), Seen(tuple(shape), _INDICES)]


@rule("_embedding_bag", "_embedding_bag_forward_only")
def _bags(name: str, given: Arguments) -> Results:
    weight, indices, offsets = given["weight"], given["indices"], given["offsets"]
    bags = offsets.shape[0] - (1 if given.get("include_last_offset") else 0)
    several = Seen((bags,), _INDICES)
    return [Seen((bags, weight.shape[1]), weight.dtype), Seen(indices.shape, _INDICES), several, several]


@rule("_embedding_bag_dense_backward")
def _bags_backward(name: str, given: Arguments) -> Results:
    gradient = given["grad"]
    return [Seen((given["num_weights"], gradient.shape[1]), gradient.dtype)]
