"""Everything on a CPU that is no product of matrices: element-wise work, reductions, copies, gathers, norms."""

from __future__ import annotations

import numpy as np

from rooflab.dtypes import dtype as number_format
from rooflab.model.device import Device
from rooflab.model.kernels import cpu
from rooflab.model.kernels.common import Columns, Features, Kernels, Mechanism, Specs
from rooflab.types.work import Cost, Op, TensorSpec

# What one unit of work costs beside its bytes: FLOP of a core's vector unit (a polynomial's multiply-adds), or
# clocks where the loop is a chain or not vectorised. Each is a constant of each framework.
IN_FLOP = ("divide", "root", "exp", "log", "trig", "softmax", "norm")
IN_CLOCKS = ("libm", "reduce", "scan", "select", "pool_max", "pool_mean", "transpose", "piece")
WORK = ("nothing", *IN_FLOP, *IN_CLOCKS)

_FUNCTIONS = {
    name: work
    for work, names in {
        "divide": "div reciprocal floor_divide fmod remainder addcdiv softsign hypot",
        "root": "sqrt rsqrt",
        "exp": "exp exp2 expm1 sigmoid silu gelu elu selu celu silu_mul gelu_mul",
        "log": "log log2 log10 log1p softplus log_sigmoid",
        "trig": "sin cos tanh erf gelu_tanh gelu_tanh_mul mish",
        "select": "where masked_fill",
    }.items()
    for name in names.split()
}
# PyTorch hands these to a vector library on the calling thread (aten/src/ATen/native/cpu/UnaryOpsKernel.cpp,
# IMPLEMENT_VML_KERNEL: serial_for_each).
_VML = "exp expm1 exp2 log log2 log10 log1p sin cos tan tanh erf erfc erfinv asin acos atan sinh cosh lgamma trunc"
_SERIAL = frozenset(_VML.split())
# NumPy computes these in double precision with the C library, an element at a time.
_SCALAR64 = frozenset(["sin", "cos"])

COLUMNS = ("torch", "calls", "work", "units", "double", "grain", "fresh_bytes", "pieces", "starts", "past_caches")


def features(op: Op, inputs: Specs, outputs: Specs, cost: Cost) -> Features:
    """The framework, its call, the sort and count of work, what may run side by side, what is allocated."""
    torch = cpu.is_torch(op)
    largest = max((*inputs, *outputs), key=lambda spec: spec.elements, default=None)
    elements = largest.elements if largest is not None else 0
    work, units = _work(op, inputs, outputs, elements, torch)
    wide = any(number_format(spec.dtype).bits >= 64 for spec in (*inputs, *outputs)[:1])
    own = {id(spec) for spec in inputs}
    fresh = max((spec.nbytes for spec in outputs if id(spec) not in own), default=0.0)
    return (
        float(torch),
        float(cpu.CALLS.index(_calls(op, torch))),
        float(WORK.index(work)),
        float(units),
        float(wide),
        float(_grain(op, elements, torch)),
        float(fresh),
        _pieces(op, inputs, outputs, cost),
        _starts(op, inputs, outputs),
        float(op.kind == "copy"),
    )


def _work(op: Op, inputs: Specs, outputs: Specs, elements: int, torch: bool) -> tuple[str, float]:
    kind, function = op.kind, str(op.attrs.get("function", ""))
    if kind == "pointwise":
        found = _FUNCTIONS.get(function)
        if found is None:
            found = "nothing" if _is_plain(op) else "libm"
        if found == "trig" and not torch and function in _SCALAR64 and inputs[0].dtype == "fp64":
            found = "libm"
        return ("nothing" if found == "select" and torch else found), float(elements)
    if kind == "pool":
        return f"pool_{'max' if function == 'max' else 'mean'}", outputs[0].elements * float(op.attrs["window"])
    if kind == "reduction":
        return ("reduce" if _along_rows(inputs[0], outputs[0]) else "nothing"), float(elements)
    if kind == "layout":
        return "transpose", float(elements)
    named = {
        "scan": "scan",
        "softmax": "softmax",
        "softmax_backward": "softmax",
        "norm": "norm",
        "loss": "softmax",
    }
    return named.get(kind or "", "norm" if kind == "norm_backward" else "nothing"), float(elements)


def _is_plain(op: Op) -> bool:
    from rooflab.work.formulas.functions import REAL

    return REAL.get(str(op.attrs.get("function")), (1, 0))[1] == 0


def _along_rows(x: TensorSpec, out: TensorSpec) -> bool:
    """Whether a reduction sums neighbours: its last dimension is gone."""
    kept = [size for size in out.shape if size != 1]
    return not kept or not x.shape or kept[-1] != x.shape[-1]


def _calls(op: Op, torch: bool) -> str:
    if torch:
        wide = op.kind in ("softmax", "norm", "loss", "pool", "layout", "norm_backward", "softmax_backward")
        return "torch.composite_calls" if wide else "torch.op_calls"
    if op.attrs.get("function") == "mean":
        return "numpy.mean_calls"
    return "numpy.ufunc_calls" if op.kind in ("pointwise", "copy", "cast") else "numpy.method_calls"


def _grain(op: Op, elements: int, torch: bool) -> float:
    """Elements that PyTorch shares out among threads; none where it uses one."""
    serial = op.kind == "scan" or (op.kind == "pointwise" and op.attrs.get("function") in _SERIAL)
    return 0.0 if serial or not torch else float(elements)


def _pieces(op: Op, inputs: Specs, outputs: Specs, cost: Cost) -> float:
    """Random accesses: rows of a gather, lines of a transposed read."""
    if op.kind in ("gather", "scatter"):
        rows = min((spec.elements for spec in inputs[1:]), default=0)
        return float(rows)
    return cost.compulsory.read_bytes / 64 if op.kind == "layout" else 0.0


def _starts(op: Op, inputs: Specs, outputs: Specs) -> float:
    """Inner loops that are started: rows of a reduction along them, of a softmax or norm, of a gather."""
    if op.kind in ("softmax", "norm"):
        return inputs[0].elements / max(inputs[0].shape[-1] if inputs[0].shape else 1, 1)
    if op.kind == "reduction" and _along_rows(inputs[0], outputs[0]):
        return float(outputs[0].elements)
    if op.kind in ("gather", "scatter"):
        return float(min((spec.elements for spec in inputs[1:]), default=0))
    return 0.0


def time(x: Columns, device: Device) -> Kernels:
    """A call, then the slower of its work and its bytes, on as many cores as it is given; then fresh pages."""
    c, cores = device.constants, cpu.cores(device)
    torch, double = x["torch"], x["double"]
    threads = cpu.threads_of(np.maximum(x["grain"], 1.0), device)
    peak = np.where(double > 0, cores.flop_per_s["fp64"], cores.flop_per_s["fp32"])
    compute = x["units"] * _unit_s(x["work"], torch, peak, device) / threads
    starts = np.where(torch > 0, c("torch.start_clocks"), c("numpy.start_clocks")) / device.clock_hz
    compute = compute + x["starts"] * starts / threads
    moved = cpu.traffic(x, device, threads, x["past_caches"])
    hot = x.hot_read_bytes / np.maximum(x.read_bytes, 1.0)
    random = x["pieces"] * cpu.latency_s(x.read_bytes, hot, threads, device) / c("cpu.core_misses") / threads
    memory = moved.memory_s + random * (1 - hot)
    body = np.maximum(compute, moved.near_s + moved.cache_s + moved.memory_s)
    body = np.maximum(body, random)
    fresh = cpu.fresh_s(x["fresh_bytes"], torch, device)
    overhead = cpu.call_s(x["calls"], device) + cpu.allocate_s(x["fresh_bytes"], torch, device)
    overhead = overhead + cpu.start_s(threads, device)
    zero = np.zeros_like(body)
    return Kernels(
        time_s=overhead + body + fresh,
        compute_s=compute + zero,
        near_s=moved.near_s + zero,
        cache_s=moved.cache_s + zero,
        memory_s=memory + fresh + zero,
        overhead_s=overhead + zero,
        spread=c("cpu_stream.spread") + zero,
        kernels=zero + 1,
    )


def _unit_s(work: np.ndarray, torch: np.ndarray, peak: np.ndarray, device: Device) -> np.ndarray:
    """Seconds of one unit of work on one core."""
    flop = np.zeros((2, len(WORK)))
    clocks = np.zeros((2, len(WORK)))
    for row, framework in enumerate(("numpy", "torch")):
        for name in WORK[1:]:
            table, unit = (flop, "flop") if name in IN_FLOP else (clocks, "clocks")
            constant = device.constants.values.get(f"{framework}.{name}_{unit}")
            if constant is not None:
                table[row, WORK.index(name)] = device.constants(f"{framework}.{name}_{unit}")
    at = (torch.astype(int), work.astype(int))
    return flop[at] / peak + clocks[at] / device.clock_hz


MECHANISM = Mechanism("cpu_stream", ("cpu",), (), COLUMNS, features, time)
