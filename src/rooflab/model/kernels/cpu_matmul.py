"""Products of matrices on a CPU: BLAS and oneDNN, convolution and attention as the products that they are."""

from __future__ import annotations

import math

import numpy as np

from rooflab.model.device import Device
from rooflab.model.kernels import cpu
from rooflab.model.kernels.common import Columns, Features, Kernels, Mechanism, Specs
from rooflab.types.work import Cost, Op

KINDS = ("matmul", "conv", "attention", "grouped_matmul", "rnn", "conv_backward", "attention_backward")
COLUMNS = ("torch", "calls", "m", "n", "k", "batch", "format", "item_bytes", "share", "special", "fresh_bytes")
FORMATS = ("fp64", "fp32", "bf16", "fp16", "int8")
SHARES = ("numpy.product_share", "torch.product_share", "torch.conv_share", "torch.attention_share")


def features(op: Op, inputs: Specs, outputs: Specs, cost: Cost) -> Features | None:
    """Rows, columns, inner size and number of the products; the library; what is allocated."""
    multiplied = [one for one in cost.flop if one.engine == "matrix"]
    flop = sum(one.count for one in multiplied)
    if not flop or not outputs or not inputs:
        return None
    torch = cpu.is_torch(op)
    batch, m, n, k = _sizes(op, inputs, outputs, flop)
    if op.kind == "conv" and op.attrs.get("groups", 1) > 1 and n == 1:
        return None  # depthwise: no product, a stencil
    dtype = multiplied[0].dtype if multiplied[0].dtype in FORMATS else "fp32"
    share = 3 if op.kind == "attention" else 2 if op.kind == "conv" else int(torch)
    calls = "torch.library_calls" if op.kind != "matmul" else "torch.op_calls"
    return (
        float(torch),
        float(cpu.CALLS.index(calls if torch else "numpy.matmul_calls")),
        m,
        n,
        k,
        batch,
        float(FORMATS.index(dtype)),
        inputs[0].nbytes / max(inputs[0].elements, 1),
        float(share),
        float(sum(one.count for one in cost.flop if one.engine == "special")),
        float(outputs[0].nbytes),
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
    if op.kind == "matmul" and len(inputs) > 1:
        k = float(op.attrs.get("k", inputs[0].shape[-1] if inputs[0].shape else 1))
        b = inputs[1]
        n = float(b.shape[-1]) if len(b.shape) > 1 and out.shape and out.shape[-1] == b.shape[-1] else 1.0
        products = math.prod(b.shape[:-2]) if len(b.shape) > 2 else 1
        return float(products), max(out.elements / n / products, 1.0), n, max(k, 1.0)
    # As one product of the same work, square in what is not known.
    k = float(inputs[0].shape[-1]) if inputs[0].shape else 1.0
    return 1.0, max(flop / 2 / max(out.elements / k, 1.0) / k, 1.0), max(out.elements / k, 1.0), max(k, 1.0)


def time(x: Columns, device: Device) -> Kernels:
    """A call, packing, then the slower of arithmetic and bytes: on one core or on all, whichever is faster."""
    c, cores = device.constants, cpu.cores(device)
    zero = np.zeros_like(x.hot_read_bytes)
    peak = np.stack(
        [np.broadcast_to(np.asarray(cores.flop_per_s[name], float), zero.shape[1:]) for name in FORMATS]
    )
    core_peak = peak[x["format"][:, 0].astype(int)]
    share = np.array([c(name) for name in SHARES])[x["share"].astype(int)]
    edge = c("cpu.product_edge")
    m, n, k = x["m"], x["n"], x["k"]
    filled = 1 / ((1 + edge / m) * (1 + edge / n) * (1 + edge / k))
    special = c("torch.softmax_flop") / 2 * x["special"]
    core_s = x.matrix_flop / (core_peak * share * filled) + special / np.asarray(cores.flop_per_s["fp32"])
    vector = (np.minimum(m, n) <= 1) & (x["share"] <= 1)
    core_s = np.where(vector, x.matrix_flop / core_peak, core_s)
    packed = np.where(vector, 0.0, x["batch"] * (m + n) * k * x["item_bytes"])
    best = None
    for threads in (np.ones_like(m), np.where(vector & (x["torch"] > 0), 1.0, cores.units)):
        moved = cpu.traffic(x, device, threads)
        moved_s = moved.all_s / np.where(vector & (x["torch"] > 0), c("torch.matvec_share"), 1.0)
        last = cores.tiers[-2] if len(cores.tiers) > 1 else cores.tiers[-1]
        pack_s = packed * c("cpu.pack_passes") / np.minimum(last.core_read * threads, last.all_read)
        start = cpu.start_s(threads, device)
        body = np.maximum(core_s / threads, moved_s) + pack_s
        each = (body + start, core_s / threads + pack_s, start + zero, moved)
        best = each if best is None else _faster(best, each)
    assert best is not None
    total, compute, start, moved = best
    fresh = cpu.fresh_s(x["fresh_bytes"], x["torch"], device)
    overhead = cpu.call_s(x["calls"], device) + cpu.allocate_s(x["fresh_bytes"], x["torch"], device)
    return Kernels(
        time_s=total + overhead + fresh + zero,
        compute_s=compute + zero,
        near_s=moved.near_s + zero,
        cache_s=moved.cache_s + zero,
        memory_s=moved.memory_s + fresh + zero,
        overhead_s=overhead + start + zero,
        spread=c("cpu_matmul.spread") + zero,
        kernels=zero + 1,
    )


def _faster(one: tuple, other: tuple) -> tuple:
    first = one[0] <= other[0]
    moved = cpu.Traffic(*(np.where(first, a, b) for a, b in zip(one[3], other[3], strict=True)))
    return (*(np.where(first, a, b) for a, b in zip(one[:3], other[:3], strict=True)), moved)


MECHANISM = Mechanism("cpu_matmul", ("cpu",), KINDS, COLUMNS, features, time)
