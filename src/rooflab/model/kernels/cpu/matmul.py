"""Products of matrices on a CPU: BLAS and oneDNN, convolution and attention as the products that they are."""

from __future__ import annotations

import math

import numpy as np

from rooflab.model.device.device import Device
from rooflab.model.kernels.common import Columns, Features, KernelTimes, Mechanism, Specs
from rooflab.model.kernels.cpu import core_times, library, strided
from rooflab.types.work import Cost, Op

KINDS = ("matmul", "conv", "attention", "grouped_matmul", "rnn", "conv_backward", "attention_backward")
COLUMNS = (
    "torch",
    "calls",
    "m",
    "n",
    "k",
    "batch",
    "format",
    "item_bytes",
    "share",
    "special",
    "fresh_bytes",
    "vector",
    "plain",
    "outer",
    "beside_clocks",
    "unsure",
    *strided.COLUMNS,
)
FORMATS = ("fp64", "fp32", "bf16", "fp16", "int8")
SHARES = ("numpy.product_share", "torch.product_share", "torch.conv_share", "torch.attention_share")


def features(op: Op, inputs: Specs, outputs: Specs, cost: Cost) -> Features | None:
    """Rows, columns, inner size and number of the products; the library; what is allocated."""
    multiplied = [one for one in cost.flop if one.engine == "matrix"]
    flop = sum(one.count for one in multiplied)
    if not flop or not outputs or not inputs:
        return None
    torch = core_times.is_torch(op)
    if op.kind == "conv" and len(outputs[0].shape) < 2:
        return None  # NumPy's, of two signals: a loop of short sums
    batch, m, n, k = _sizes(op, inputs, outputs, flop)
    if op.kind == "conv" and op.attrs.get("groups", 1) > 1 and n == 1:
        return None  # depthwise: a stencil, no product
    dtype = multiplied[0].dtype if multiplied[0].dtype in FORMATS else "fp32"
    share = 3 if op.kind == "attention" else 2 if op.kind == "conv" else int(torch)
    calls = "torch.library_calls" if op.kind != "matmul" else "torch.op_calls"
    return (
        float(torch),
        float(core_times.CALLS.index(calls if torch else "numpy.matmul_calls")),
        m,
        n,
        k,
        batch,
        float(FORMATS.index(dtype)),
        inputs[0].nbytes / max(inputs[0].elements, 1),
        float(share),
        float(sum(one.count for one in cost.flop if one.engine == "special")),
        core_times.fresh_bytes(inputs, outputs[:1]),
        float(op.kind == "matmul" and any(len(spec.shape) == 1 for spec in inputs[:2])),
        float(op.kind == "matmul" and len(inputs) > 1),
        _outer(op, inputs),
        *_beside(op, outputs, (batch, m, n, k)),
        *strided.mirrored(op, outputs),
    )


def _sizes(op: Op, inputs: Specs, outputs: Specs, flop: float) -> tuple[float, float, float, float]:
    """How many products there are, and the m, n and k of each."""
    out = outputs[0]
    if op.kind == "conv":
        groups, weight = op.attrs.get("groups", 1), inputs[1]
        n = out.shape[1] / groups
        k = math.prod(weight.shape[1:])
        return float(groups), out.elements / out.shape[1], n, float(k)
    if op.kind == "attention":
        *outer, length, head = inputs[0].shape
        keys = inputs[1].shape[-2]
        return float(2 * math.prod(outer)), float(length), float(keys), float(head)
    first = inputs[0].shape
    if op.kind == "matmul" and len(inputs) > 1:
        k = float(op.attrs.get("k", first[-1] if first else 1))
        b = inputs[1]
        n = float(out.shape[-1]) if len(b.shape) > 1 and out.shape and out.shape[-1] in b.shape[-2:] else 1.0
        products = math.prod(b.shape[:-2])
        # Of a matrix times its own transpose half of the rows; a chain's steps are less than one product of all.
        part = flop / (2 * out.elements * k) if "fma" in op.attrs and out.elements and k else 1.0
        return float(products), max(out.elements / n / products * part, 1.0), n, max(k, 1.0)
    # As one product of the same work, square in what is not known.
    k = float(first[-1]) if first else 1.0
    return 1.0, max(flop / 2 / max(out.elements / k, 1.0) / k, 1.0), max(out.elements / k, 1.0), max(k, 1.0)


# PyTorch's batches of products below so many multiply-adds, and those with a vector, are a plain loop: a chain of
# additions (aten/src/ATen/native/LinearAlgebra.cpp, bmm_out_or_baddbmm_; 4 to 5 clocks each on Zen 4).
_SMALL_PRODUCT, _CHAIN_CLOCKS = 400, 4.5
# oneDNN's output channels are the lanes of a vector, and those of one vector alone wait for their own sums.
_LANES, _CHANNEL_EDGE = 16, 8
# The weights are brought into blocks at each call. Small convolutions are starts and remainders for the most part.
_WEIGHT_CLOCKS, _SMALL_CONV = 1.1, 1e7
# Distances by a product: the norms beside it, what is added, clamped, and its root.
_DISTANCE_CLOCKS = 4.0


def _beside(op: Op, outputs: Specs, sizes: tuple[float, float, float, float]) -> tuple[float, float]:
    """Clocks that a product takes beyond its arithmetic at the peak; and whether that is a rough guess."""
    batch, m, n, k = sizes
    if not core_times.is_torch(op):
        return 0.0, 0.0
    if op.name.removeprefix("aten.") in ("bmm", "baddbmm") and (n <= 1 or m * n * k < _SMALL_PRODUCT):
        return batch * m * n * k * _CHAIN_CLOCKS, 1.0
    if op.name.startswith("aten._euclidean"):
        return outputs[0].elements * _DISTANCE_CLOCKS, 1.0
    if op.kind != "conv":
        return 0.0, 0.0
    return _WEIGHT_CLOCKS * k * n * batch, float(n < _LANES or batch * m * n * k < _SMALL_CONV)


def _outer(op: Op, inputs: Specs) -> float:
    """How many matrices are stacked in the left operand of a product with one matrix."""
    if op.kind != "matmul" or len(inputs) < 2 or len(inputs[1].shape) > 2:
        return 1.0
    return float(max(math.prod(inputs[0].shape[:-2]), 1))


def time(x: Columns, device: Device) -> KernelTimes:
    """A call, packing, arithmetic and bytes: on one core or on all of them, whichever is faster.

    The library packs blocks of both operands into its caches, multiplies them there and adds to the result in
    memory: little of it overlaps. A matrix times a vector only streams the matrix, or is multiplied like the
    others where that is faster: one row takes no longer than two. Only PyTorch's product with a vector (`mv`) is
    left to one core. Where the library's own products were measured on this machine, they stand for it.
    """
    c, cores = device.constants, core_times.cores_of_cpu(device)
    zero = np.zeros_like(x.hot_read_bytes)
    share = np.where(x["torch"] > 0, c("torch.matvec_share"), c("numpy.matvec_share"))
    # NumPy calls BLAS for each product of a batch; PyTorch once.
    teams = np.where(x["torch"] > 0, 1.0, x["batch"])
    alone = (x["torch"] > 0) & (x["vector"] > 0)
    best = None
    for matvec, units in ((True, 1.0), (True, cores.units), (False, 1.0), (False, cores.units)):
        streams = _is_matvec(x) & (matvec | alone)
        core_s, packed = _one_core(x, device, streams, zero)
        threads = np.where(streams & alone, 1.0, units) + 0 * zero
        moved = core_times.Traffic(
            *(each / np.where(streams, share, 1.0) for each in core_times.traffic(x, device, threads))
        )
        last = cores.tiers[-min(2, len(cores.tiers))]
        pack_s = packed * c("cpu.pack_passes") / np.minimum(last.core_read * threads, last.all_read)
        start_s = core_times.start_s(threads, device) * teams
        work_s = core_s / threads / np.where(threads > 1, c("cpu.team_share"), 1.0)
        each = (work_s + pack_s + moved.all_s + start_s, work_s + pack_s, start_s, *moved)
        best = each if best is None else _faster(best, each)
    assert best is not None  # the loop has four rounds
    total_s, compute_s, start_s, near_s, cache_s, memory_s = best
    fresh_s = core_times.fresh_s(x["fresh_bytes"], x["torch"], device)
    call_s = core_times.call_s(x["calls"], device) + core_times.allocate_s(x["fresh_bytes"], x["torch"], device)
    mirror_s = strided.waits_s(x, device, np.ones_like(zero))
    spread = c("cpu_matmul.spread") + zero
    measured = library.library_times(x, device, FORMATS)
    if measured is not None:
        call_s = np.where(measured.known, measured.call_s, call_s)
        start_s, near_s = (np.where(measured.known, 0.0, each) for each in (start_s, near_s))
        compute_s, cache_s, memory_s, spread = (
            np.where(measured.known, one, other)
            for one, other in (
                (measured.compute_s, compute_s),
                (measured.cache_s, cache_s),
                (measured.memory_s, memory_s),
                (measured.spread, spread),
            )
        )
        total_s = np.where(measured.known, compute_s + cache_s + memory_s, total_s)
    return KernelTimes(
        time_s=total_s + call_s + fresh_s + mirror_s + zero,
        compute_s=compute_s + zero,
        near_s=near_s + zero,
        cache_s=cache_s + zero,
        memory_s=memory_s + fresh_s + mirror_s + zero,
        overhead_s=call_s + start_s + zero,
        spread=np.maximum(
            spread, np.where((mirror_s > total_s / 2) | (x["unsure"] > 0), c("numpy.algorithm_spread"), 0.0)
        ),
        kernels=zero + 1,
    )


def _one_core(x: Columns, device: Device, streams: np.ndarray, zero: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Seconds of the arithmetic on one core, and the bytes packed before it: neither where a matrix `streams`."""
    c, cores = device.constants, core_times.cores_of_cpu(device)
    peaks = [np.broadcast_to(cores.flop_per_s[name], zero.shape[1:]) for name in FORMATS]
    peak = np.stack(peaks)[x["format"][:, 0].astype(int)]
    share = np.array([c(name) for name in SHARES])[x["share"].astype(int)]
    m, n, k = x["m"], x["n"], x["k"]
    edge = c("cpu.product_edge")
    conv = (x["share"] == SHARES.index("torch.conv_share")) & (x["torch"] > 0)
    lanes = np.ceil(n / _LANES) * _LANES
    columns = np.where(conv, (lanes + _CHANNEL_EDGE) / n, 1 + edge / n)
    filled = 1 / ((1 + edge / m) * columns * (1 + edge / k))
    special_s = c("torch.softmax_flop") / 2 * x["special"] / cores.flop_per_s["fp32"]
    core_s = np.where(streams, 0.0, x.matrix_flop / (peak * share * filled) + special_s)
    core_s = core_s + x["beside_clocks"] / device.clock_hz
    return core_s, np.where(streams, 0.0, x["batch"] * (m + n) * k * x["item_bytes"])


def _is_matvec(x: Columns) -> np.ndarray:
    return (np.minimum(x["m"], x["n"]) <= 1) & (x["share"] <= 1)


def _faster(one: tuple[np.ndarray, ...], other: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    """By row, what has the smaller total, which stands first."""
    first = one[0] <= other[0]
    return tuple(np.where(first, a, b) for a, b in zip(one, other, strict=True))


MECHANISM = Mechanism("cpu_matmul", ("cpu",), KINDS, COLUMNS, features, time)
