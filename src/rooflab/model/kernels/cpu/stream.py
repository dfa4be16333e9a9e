"""Everything on a CPU that is not a product of matrices: element-wise work, reductions, copies, gathers, norms."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from rooflab.dtypes import dtype as number_format
from rooflab.machines.microarchitecture import stated as stated_microarchitecture
from rooflab.model.device.device import Device
from rooflab.model.kernels.common import Columns, Features, KernelTimes, Mechanism, Specs
from rooflab.model.kernels.cpu import core_times, picks, strided, torch_loops
from rooflab.model.kernels.cpu.walk import Walk, along_rows, axis_order, innermost, walk
from rooflab.model.kernels.cpu.work_units import ALIKE, BY_STEPS, COUNTED, IN_CLOCKS, IN_FLOP, WORK, work_of
from rooflab.types.work import Cost, Op

# Starts of a plain inner loop that a row takes: an accumulation is one loop, a sort prepares more.
_ROW_STARTS = {"scan": 0.5, "sort": 1.5}
_EXTREMES = frozenset(["max", "min"])
# Sorting networks take what fits into so many vectors; longer arrays are partitioned, half by half, down to that
# (x86-simd-sort, which NumPy sorts with).
NETWORK_BYTES = 1024

COLUMNS = (
    "torch",
    "calls",
    "work",
    "units",
    "double",
    "grain",
    "fresh_bytes",
    "random_accesses",
    "table_bytes",
    "loop_starts",
    "extreme_starts",
    "walk_rows",
    "walk_bytes",
    "partitioned",
    "sums_bytes",
    "past_caches",
    "clocks",
    "flop",
    "own_spread",
    "distinct_bytes",
    "alone_clocks",
    "blocked",
    *strided.COLUMNS,
)


def features(op: Op, inputs: Specs, outputs: Specs, cost: Cost) -> Features:
    """The framework, its call, the sort and count of work, what may run side by side, what is allocated."""
    torch = core_times.is_torch(op)
    if torch and (loop := torch_loops.loop_of(op, inputs, outputs, cost)) is not None:
        return _of_loop(loop, op, inputs, outputs, cost)
    largest = max((*inputs, *outputs), key=lambda spec: spec.elements, default=None)
    elements = largest.elements if largest is not None else 0
    work, units = work_of(op, inputs, outputs, cost, elements, torch)
    accesses, table = picks.random_accesses(op, inputs, outputs, cost, torch)
    down = op.kind == "reduction" and not torch and not along_rows(op, inputs[0], outputs[0])
    starts, extremes = _starts(op, inputs, outputs, torch)
    walked = _walk(op, inputs, outputs) if not torch else Walk(0.0, 0.0)
    return (
        float(torch),
        float(core_times.CALLS.index(_calls(op, torch))),
        float(WORK.index(work)),
        float(units),
        float(_double(op, inputs, outputs, cost)),
        units if work == COUNTED else float(_grain(op, elements, torch)),
        core_times.fresh_bytes(inputs, outputs),
        accesses,
        table,
        starts,
        extremes,
        walked.rows,
        walked.nbytes,
        0.0 if torch else _partitioned(op, inputs),
        # A sum down the rows reads and writes its running sums at each row.
        outputs[0].nbytes if down else 0.0,
        float(op.kind == "copy"),
        *(0.0,) * 6,
        *(strided.NOTHING if torch else strided.strided(op, inputs, outputs)),
    )


def _of_loop(loop: torch_loops.Loop, op: Op, inputs: Specs, outputs: Specs, cost: Cost) -> Features:
    """The columns of an operation of PyTorch whose own loop is known."""
    accesses, table = loop.random
    if not accesses and op.kind == "reduction":
        accesses, table = picks.random_accesses(op, inputs, outputs, cost, torch=True)
    stepped = not loop.blocked and any(spec.strides for spec in (*inputs, *outputs))
    steps = strided.strided(op, inputs, outputs) if stepped else strided.NOTHING
    return (
        1.0,
        float(core_times.CALLS.index(_calls(op, torch=True))),
        float(WORK.index("nothing")),
        0.0,
        float(_double(op, inputs, outputs, cost)),
        loop.shared,
        core_times.fresh_bytes(inputs, outputs),
        accesses,
        table,
        *(0.0,) * 6,
        float(op.kind == "copy"),
        loop.clocks,
        loop.flop,
        loop.spread,
        loop.distinct_bytes,
        loop.alone_clocks,
        float(loop.blocked),
        *steps,
    )


def _double(op: Op, inputs: Specs, outputs: Specs, cost: Cost) -> bool:
    """Whether numbers of 64 bits are computed with."""
    if op.kind == "custom":
        return any(number_format(each.dtype).bits >= 64 for each in cost.flop)
    return any(number_format(spec.dtype).bits >= 64 for spec in (*inputs, *outputs)[:1])


# These are made of several operations, or bring their indices into one shape first.
_MANY_CALLS = tuple(
    f"aten.{name}" for name in ("index", "_unsafe_index", "mse_loss", "im2col", "logsumexp", "stack")
)


def _calls(op: Op, torch: bool) -> str:
    mean = op.attrs.get("function") == "mean"
    if torch:
        if op.name.startswith(_MANY_CALLS):
            return "torch.library_calls"
        wide = op.kind in (
            *(
                "softmax",
                "norm",
                "loss",
                "pool",
                "layout",
                "norm_backward",
                "softmax_backward",
                "gather",
                "scatter",
            ),
            *("sort", "fft", "interpolate"),
        )
        return "torch.composite_calls" if wide or mean else "torch.op_calls"
    if op.kind in ("copy", "cast"):
        return "numpy.copy_calls"
    return "numpy.ufunc_calls" if op.kind == "pointwise" else f"numpy.{'mean' if mean else 'method'}_calls"


def _grain(op: Op, elements: int, torch: bool) -> float:
    """Elements that PyTorch shares out among threads; none where it uses one."""
    return 0.0 if not torch or op.kind in BY_STEPS else float(elements)


def _starts(op: Op, inputs: Specs, outputs: Specs, torch: bool) -> tuple[float, float]:
    """Inner loops that are started, a row each, and those of a maximum or minimum."""
    if op.kind in ("softmax", "norm"):
        return inputs[0].elements / max(inputs[0].shape[-1] if inputs[0].shape else 1, 1), 0.0
    if op.kind == "conv" and not torch and outputs:
        # np.convolve: a dot product for each result, or one loop of few taps (arraytypes.c.src, small_correlate).
        few = math.prod(op.attrs.get("kernel", (1,))) <= 11
        return outputs[0].elements * (0.06 if few else 0.4), 0.0
    if op.kind in _ROW_STARTS and not torch and inputs:
        rows = inputs[0].elements / max(int(op.attrs.get("n") or (inputs[0].shape or (1,))[-1]), 1)
        return (_ROW_STARTS[op.kind] * rows if rows > 1 else 0.0), 0.0
    if op.kind != "reduction":
        return 0.0, 0.0
    x = inputs[0]
    if along_rows(op, x, outputs[0]):
        loops = float(outputs[0].elements)
    elif torch:
        return 0.0, 0.0
    else:  # each row is added to the running sums
        axes = list(range(len(x.shape))) if x.strides is None else axis_order(x.shape, [x.strides])
        summed = op.attrs.get("dims") or (0,)
        last = max((at for at, axis in enumerate(axes) if axis in summed), default=-1)
        loops = x.elements / max(math.prod(x.shape[axis] for axis in axes[last + 1 :]), 1)
    return (0.0, loops) if not torch and op.attrs.get("function") in _EXTREMES else (loops, 0.0)


def _walk(op: Op, inputs: Specs, outputs: Specs) -> Walk:
    """What NumPy's iterator copies row by row."""
    if not outputs or op.kind not in ("pointwise", "copy", "cast", "layout"):
        return Walk(0.0, 0.0)
    if op.kind == "pointwise":
        return walk((*inputs, *outputs), outputs[0].shape)
    parts = [spec for spec in (*inputs[:1], *outputs) if spec.shape]
    if all(spec.strides is None for spec in parts):
        return Walk(0.0, 0.0)
    return Walk(max(spec.elements / max(innermost(spec).length, 1) for spec in parts), 0.0)


def _partitioned(op: Op, inputs: Specs) -> float:
    """Elements that a sort or a partition moves left or right of a pivot, all rounds together."""
    if op.kind != "sort" or op.attrs["function"] == "search" or not inputs:
        return 0.0
    x, n = inputs[0], max(int(op.attrs["n"]), 1)
    rounds = math.log2(max(n * x.nbytes / max(x.elements, 1) / NETWORK_BYTES, 1.0))
    if op.attrs["function"] in ("kthvalue", "median", "topk"):
        picks = math.log2(max(float(op.attrs.get("picks", 1)), 1.0))  # each further one splits what is left
        return x.elements * (2.0 + picks) * (1 - 0.5**rounds)  # of one half of the half before
    return x.elements * rounds


def time(x: Columns, device: Device) -> KernelTimes:
    """A call, then the slower of its work and its bytes, on as many cores as it is given; then fresh pages."""
    c, cores = device.constants, core_times.cores_of_cpu(device)
    torch, double, x = x["torch"], x["double"], _with_reread(x)
    threads = core_times.threads_of(np.maximum(x["grain"], 1.0), device)
    peak = np.where(double > 0, cores.flop_per_s["fp64"], cores.flop_per_s["fp32"])
    starts = c("numpy.start_clocks") / device.clock_hz
    alone = np.where(threads <= 1, x["alone_clocks"], 0.0)
    own = (x["clocks"] + alone) / device.clock_hz + x["flop"] / cores.flop_per_s["fp32"]
    compute = (x["units"] * _unit_s(x["work"], torch, peak, device) + own) / threads
    starts = x["loop_starts"] * starts / threads + _walking_s(x, device)
    moved = core_times.traffic(x, device, threads, x["past_caches"])
    sums = core_times.running_s(x, device)
    # Between two rows a core copies one; single elements are as many under way as it has buffers for.
    single = np.isin(x["work"], _SINGLE)
    at_once = np.where(single, c("loop.gathered_in_flight"), c("cpu.core_misses"))
    random = x["random_accesses"] * core_times.latency_s(x["table_bytes"], device) / at_once / threads
    columns = strided.waits_s(x, device, threads)
    memory = np.maximum(moved.memory_s, random + columns)
    # A gather copies one row while it waits for the next; a strided copy waits for each line.
    picks_ahead = single | (WORK.index("piece") == x["work"]) | (x["clocks"] > 0)
    waits = np.where(picks_ahead, np.maximum(compute, random), compute + random)
    waits = np.where(x["clocks"] > 0, np.maximum(waits, columns), waits + columns)
    body = np.maximum(waits, moved.all_s + sums) + starts
    # By blocks: loads and stores step from page to page, which no prefetcher follows.
    body = np.where(x["blocked"] > 0, waits + moved.all_s, body)
    fresh = core_times.fresh_s(x["fresh_bytes"], torch, device)
    overhead = core_times.call_s(x["calls"], device) + core_times.allocate_s(x["fresh_bytes"], torch, device)
    overhead = overhead + core_times.start_s(threads, device)
    zero = np.zeros_like(body)
    # in which sets and pages lines lie is not known
    unsure = np.isin(x["work"], _UNSURE) | (columns > moved.all_s)
    spread = np.where(unsure, c("numpy.algorithm_spread"), c("cpu_stream.spread"))
    # What a call and a team take differs more from operation to operation than what a stream does.
    called = c("torch.call_spread") * overhead / np.maximum(overhead + body + fresh, 1e-12)
    spread = np.hypot(spread, np.where(torch > 0, called, 0.0))
    return KernelTimes(
        time_s=overhead + body + fresh,
        compute_s=compute + starts + zero,
        near_s=moved.near_s + sums + zero,
        cache_s=moved.cache_s + zero,
        memory_s=memory + fresh + zero,
        overhead_s=overhead + zero,
        spread=np.hypot(spread, x["own_spread"]) + zero,
        kernels=zero + 1,
    )


def _with_reread(x: Columns) -> Columns:
    """`x` with what is read again from a cache, where the distinct bytes of it lie there."""
    distinct = np.where(x["distinct_bytes"] > 0, np.minimum(x["distinct_bytes"], x.read_bytes), x.read_bytes)
    hot = np.minimum(x.hot_read_bytes / np.maximum(distinct, 1.0), 1.0)
    return dataclasses.replace(x, hot_read_bytes=hot * x.read_bytes)


def _walking_s(x: Columns, device: Device) -> np.ndarray:
    """Seconds that NumPy spends beside an operation's own arithmetic: rows, buffers, maxima, partitions.

    A partition stores each vector twice, compressed; on a core whose microarchitecture takes many cycles for that
    store, they are the time. Others have them in what a comparison takes.
    """
    c = device.constants
    row = stated_microarchitecture(device.machine.environment)
    stores = 2.0 * ((row and row.compress_store_cycles) or 0) / np.where(x["double"] > 0, 8.0, 16.0)
    clocks = (
        x["extreme_starts"] * c("numpy.extreme_clocks")
        + x["walk_rows"] * c("numpy.row_clocks")
        + x["walk_bytes"] * c("numpy.buffer_clocks")
        + x["partitioned"] * stores
    )
    return clocks / device.clock_hz


def _unit_s(work: np.ndarray, torch: np.ndarray, peak: np.ndarray, device: Device) -> np.ndarray:
    """Seconds of one unit of work on one core."""
    flop = np.zeros((2, len(WORK)))
    clocks = np.zeros((2, len(WORK)))
    for row, framework in enumerate(("numpy", "torch")):
        flop[row, WORK.index(COUNTED)] = 1.0
        for name in (*IN_FLOP, *IN_CLOCKS):
            table, unit = (flop, "flop") if name in IN_FLOP else (clocks, "clocks")
            # An algorithm that nobody timed with PyTorch takes what NumPy's takes: both are loops of C.
            makers = (framework, "numpy") if name in ALIKE else (framework,)
            stated = [
                key for key in (f"{each}.{name}_{unit}" for each in makers) if key in device.constants.values
            ]
            if stated:
                table[row, WORK.index(name)] = device.constants(stated[0])
    at = (torch.astype(int), work.astype(int))
    return flop[at] / peak + clocks[at] / device.clock_hz


_SINGLE = (WORK.index("element"), WORK.index("tally"))
_UNSURE = tuple(WORK.index(name) for name in ALIKE)

MECHANISM = Mechanism("cpu_stream", ("cpu",), (), COLUMNS, features, time)
