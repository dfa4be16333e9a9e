"""Rules about how a program is run: without the host in the way, compiled, with more in each call."""

from __future__ import annotations

from collections import Counter

import msgspec

from rooflab.errors import RooflabError
from rooflab.model.roofline.per_operation import row_bound
from rooflab.remedies.case import Case, Change, Unasked, memory_capacity
from rooflab.types.report import Report, Row
from rooflab.types.work import RECORDING, Op
from rooflab.units import duration, percent, si

_WAITING = 0.02  # share of the time that waits for the host, from which on it is worth a word
_MOVING = ("pointwise", "cast", "norm", "softmax", "reduction", "dropout", "copy", "layout", "loss")
_PRODUCTS = ("matmul", "grouped_matmul", "conv")
_MATTERS = 0.2  # share of the time that products must take for the batch to be worth a word
_LARGEST_BATCH = 4096

_GRAPH_CODE = """\
model = torch.compile(model, mode="reduce-overhead")   # records CUDA graphs by itself
# or, without a compiler, inputs of one shape copied into the same tensors:
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    out = model(static_input)
graph.replay()"""
_COMPILE_CODE = {
    "torch": 'model = torch.compile(model, mode="reduce-overhead")',
    "jax": "function = jax.jit(function)",
    "numpy": "@numba.njit(parallel=True, fastmath=True)  # or jax.jit of it, written with jax.numpy",
    "onnx": "# build an engine that fuses: TensorRT, OpenVINO, or torch.compile of the PyTorch original",
}


def cuda_graph(case: Case) -> Change | Unasked | None:
    """Kernels replayed without the host, where the device waits for it."""
    if case.setting.mode != "eager" or case.machine.kind == "cpu":
        return None
    waits_s = sum(_wait_s(row) for row in case.report.rows)
    launching = case.numbered(lambda row: bool(row.prediction and row.prediction.kernels))
    share = waits_s / case.time_s if case.time_s else 0.0
    if share < _WAITING:
        return None
    if case.asking_host():
        names = ", ".join(case.asking_host())
        return Unasked("cuda-graph", f"{names}: the host reads whether it succeeded, which no graph can record")
    recorded = _recorded(case)
    if isinstance(recorded, Unasked):
        return recorded
    host_s = sum(row.prediction.host_s for row in launching.values() if row.prediction)
    kernels = sum(row.prediction.kernels for row in launching.values() if row.prediction)
    return Change(
        rule="cuda-graph",
        text="Record the kernels once and replay them as a CUDA graph: no call of the host between them",
        evidence=(
            f"the device waits for the host {percent(share)} of the time ({duration(waits_s)})",
            f"dispatching {kernels:,.0f} kernels takes the host {duration(host_s)}",
            *(() if recorded is None else (_others(case, recorded),)),
        ),
        program=recorded,
        code=_GRAPH_CODE,
        setting={"mode": "graph"},
        keywords={"mode": "graph"},
    )


def _recorded(case: Case) -> Report | Unasked | None:
    """The program as it is recorded, where it asks whether it is and runs other operations then; None if not."""
    asks = next((line for line in case.graph.conventions if line.startswith(RECORDING)), None)
    if asks is None:
        return None
    where = asks.rpartition(" as answered to ")[-1]
    if case.as_recorded is None:
        return Unasked("cuda-graph", f"{where} asks whether one is being recorded: analyze(…, recorded=True) too")
    try:
        recorded = case.as_recorded()
    except RooflabError as error:
        return Unasked("cuda-graph", f"{where} asks whether one is being recorded; recorded, it stops: {error}")
    if _asked_for(recorded) == _asked_for(case.report):
        return None
    took = case.timed(recorded, case.machine, msgspec.structs.replace(case.setting, mode="graph"))
    if took.time_at_least_s >= case.time_s:
        times = f"{duration(took.time_at_least_s)} instead of {duration(case.time_s)}"
        known = case.report.prediction or case.report.predicted_part
        unsure = known is not None and took.time_at_least_s < known.high_s
        host = f", up to {duration(known.high_s)} on a slow host" if known is not None and unsure else ""
        return Unasked("cuda-graph", f"it would take {times}{host}: {_others(case, recorded)}")
    return recorded


def _asked_for(report: Report) -> list[tuple[str, float | None, float | None]]:
    return [(row.op.name, row.flop, row.nbytes) for row in report.rows]


def _others(case: Case, recorded: Report) -> str:
    return (
        f"asked whether it is being recorded, the program then runs {len(recorded.rows):,} operations instead of "
        f"{len(case.report.rows):,}"
    )


def _wait_s(row: Row) -> float:
    """Seconds that the device waits for the host before this row."""
    if row.prediction is None or row.prediction.binds != "host":
        return 0.0
    return row.prediction.overhead_s


def _compiling(case: Case) -> str:
    """How its framework compiles; CUDA graphs, which `reduce-overhead` records, are of a GPU alone."""
    code = _COMPILE_CODE.get(case.graph.framework, "")
    return code.replace(', mode="reduce-overhead"', "") if case.machine.kind == "cpu" else code


def compiled(case: Case) -> Change | None:
    """Chains of element-wise work, sums and epilogues fused by a compiler, which needs no host between kernels."""
    if case.setting.mode == "compiled" or case.report.captured is not None:
        return None
    fusible = case.numbered(lambda row: row.op.kind in _MOVING)
    if len(fusible) < 2 and case.setting.mode != "eager":
        return None
    before = sum(row.nbytes or 0.0 for row in fusible.values())
    share = f"{percent(case.share(fusible))} of the time"
    evidence = (f"{len(fusible):,} operations that only move or combine elements take {share}",)
    return Change(
        rule="compile",
        text="Compile the program: element-wise chains, sums and epilogues become one kernel each",
        evidence=(*(evidence if fusible else ()), *_more_cores(case)),
        rows=tuple(fusible),
        code=_compiling(case),
        setting={"mode": "compiled"},
        keywords={"mode": "compiled"},
        tell=lambda fused: _fused(fused, before),
    )


def _more_cores(case: Case) -> tuple[str, ...]:
    """What compiling changes beside fusing, where the program ran on one core."""
    cores = case.machine.compute_units or 1
    if case.graph.framework != "numpy" or case.machine.kind != "cpu" or cores < 2:
        return ()
    return (f"NumPy's calls run on one core, compiled loops on all {cores:,}: that is part of the gain",)


def _fused(report: Report, before: float) -> tuple[str, ...]:
    """What became of the operations that only moved `before` bytes."""
    ops = report.graph.ops
    kernels = [op for op in ops if "members" in op.attrs]
    kept = sum(op.count * (op.attrs["read_bytes"] + op.attrs["write_bytes"]) for op in kernels)
    chains = [op for op in ops if len(op.attrs.get("members", ())) > 1]
    said = [f"fused they move {si(kept, 'B')} instead of {si(before, 'B')}"] if chains and kept < before else []
    return (*said, *(f"{times} × {name}" if times > 1 else name for name, times in _chains(chains)))


def _chains(ops: list[Op]) -> list[tuple[str, int]]:
    """The chains that are fused most often, by the names of their members."""
    counts = Counter("one kernel of " + " + ".join(op.attrs["members"][:6]) for op in ops)
    return counts.most_common(2)


def batch(case: Case) -> Change | Unasked | None:
    """More samples in each call, where products wait for their weights: up to the ridge."""
    # Of theory: what a product of few rows attains of the peak is the very thing that changes.
    ridges = {id(row): row_bound(row, case.machine).ridge for row in case.report.rows if row.op.kind in _PRODUCTS}
    short = case.numbered(lambda row: _well_below(row, ridges.get(id(row))))
    if case.graph.framework == "hand" or case.share(short) < _MATTERS:
        return None
    if case.at_batch is None or case.batch is None:
        return Unasked("batch", "the program must be captured again for another one (give --batch)")
    intensity = _middle([row.intensity or 0.0 for row in short.values()])
    ridge = _middle([ridges[id(row)] or 0.0 for row in short.values()])
    # Bytes of weights stay, FLOP grow with the batch: at the ridge both take equally long.
    size = min(max(2 * case.batch, round(case.batch * ridge / intensity)), max(_LARGEST_BATCH, 2 * case.batch))
    try:
        program = _fitting(case, size)
    except RooflabError as error:
        return Unasked("batch", f"the program cannot be captured with more: {error}")
    if program is None:
        return None
    size, report = program
    return Change(
        rule="batch",
        text=f"Put {size} samples into each call instead of {case.batch}: the same weights serve them all",
        evidence=(
            f"products far below the ridge take {percent(case.share(short))} of the time: {intensity:.3g} "
            "FLOP/byte, "
            f"where {case.machine.name} has its ridge at {ridge:.3g}",
            "predicted for each sample; each call takes longer",
        ),
        rows=tuple(short),
        effort="setting",
        price="latency",
        program=report,
        times=size / case.batch,
        keywords={"batch": size},
    )


def _fitting(case: Case, size: int) -> tuple[int, Report] | None:
    """The program with a batch of that size, or of the largest by halves whose memory fits."""
    assert case.at_batch is not None
    assert case.batch is not None
    capacity = memory_capacity(case.machine)
    while size >= 2 * case.batch:
        program = case.at_batch(size)
        if program.memory.most_bytes <= capacity:
            return size, program
        size //= 2
    return None


def _well_below(row: Row, ridge: float | None) -> bool:
    """Whether a product of the forward pass moves far more than it computes."""
    return bool(ridge and row.intensity and row.op.phase == "forward" and row.intensity < ridge / 2)


def _middle(values: list[float]) -> float:
    """The median of values that there are."""
    return sorted(values)[len(values) // 2]
