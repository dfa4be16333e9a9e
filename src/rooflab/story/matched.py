"""A profile beside the program that ran: count, prediction and measured time of one operation in one row."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from rooflab.errors import RooflabError
from rooflab.types.profile import Observation, ProfileRow
from rooflab.types.report import Report

if TYPE_CHECKING:
    from rooflab.observe.matching.programs import Fit, Fits
    from rooflab.types.counted import Counted
    from rooflab.types.machine import Machine
    from rooflab.types.matched import Matching
    from rooflab.types.prediction import Prediction
    from rooflab.types.report import Row
    from rooflab.types.setting import Mode
    from rooflab.types.trace import Trace

# A report, or (function or module, inputs) or (function or module, inputs, keywords), as a target of the command
# `analyze` returns them.
Program = Report | tuple[Any, ...]

_OPTIMIZER = re.compile(r"Optimizer\.step#(\w+)\.step")
_COMPILED = re.compile(r"Torch-Compiled Region|CompiledFxGraph|^triton_(poi|per|red)_fused_|^## Call Compiled")
_PRODUCTS = ("matmul", "conv", "attention", "linear")
_ALIKE = (0.5, 2.0)  # counted over asked: padding of tiles adds, causal masks leave out
_NOT_FOUND = "no kernel was found for it"
_NOT_OURS = "not an operation of the program"


def report_of(program: Program, trace: Trace, machine: Machine | None) -> Report:
    """The report of `program`, predicted on `machine` as the kernels of `trace` ran.

    Args:
        program: a report, or (function or module, inputs) or that and its keywords.
        trace: tells whether a backward pass, an optimizer's step and a compiler were there.
        machine: None for no predictions.

    Raises:
        RooflabError: neither of these; what `analyze` raises.
    """
    from rooflab.story.programs import predict

    report = program if isinstance(program, Report) else _analyzed(program, trace, machine)
    return report if machine is None else predict(report, machine, mode=mode_of(trace))


def mode_of(trace: Trace) -> Mode:
    """The mode to predict in: "compiled" where a compiler's kernels ran, else "graph": kernels without a host."""
    return "compiled" if any(map(_COMPILED.search, trace.names)) else "graph"


def _analyzed(program: Any, trace: Trace, machine: Machine | None) -> Report:
    from rooflab.story.programs import analyze

    fn, args, kwargs = _parts(program)
    device = "cpu" if machine is not None and machine.kind == "cpu" else "cuda"
    report = analyze(fn, *args, kwargs=kwargs, device=device)
    # What the trace has beside the forward pass, unless the function does it itself.
    phases = {op.phase for op in report.graph.ops}
    more: dict[str, Any] = {}
    if report.graph.framework == "torch" and phases <= {"forward"}:
        if any(name.startswith("autograd::engine::evaluate_function") for name in trace.names):
            more["backward"] = True
        optimizer = _optimizer(trace)
        if optimizer is not None:
            more["optimizer"] = optimizer
    return analyze(fn, *args, kwargs=kwargs, device=device, **more) if more else report


def _parts(program: Any) -> tuple[Any, tuple[Any, ...], Mapping[str, Any]]:
    known = isinstance(program, tuple) and len(program) in (2, 3) and _is_program(program[0])
    if not known or (len(program) == 3 and not isinstance(program[2], Mapping)):
        got = f"a tuple of {len(program)}" if isinstance(program, tuple) else type(program).__name__
        raise RooflabError(
            f"model: got {got}, expected a Report, or (function or module, inputs), or that and its keywords"
        )
    inputs = program[1]
    if isinstance(inputs, Mapping):
        return program[0], (), inputs
    args = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    return program[0], args, program[2] if len(program) == 3 else {}


def _is_program(value: Any) -> bool:
    return callable(value) or isinstance(value, (str, PathLike))


def _optimizer(trace: Trace) -> Any:
    """What makes the optimizer whose step is in the trace; None where there is none."""
    from functools import partial
    from importlib import import_module

    found = next(filter(None, map(_OPTIMIZER.search, trace.names)), None)
    made = None if found is None else getattr(import_module("torch").optim, found.group(1), None)
    if made is None:
        return None
    if any(name.startswith("aten::_fused_") and name.endswith("_") for name in trace.names):
        return partial(made, fused=True)
    return made


def matched(
    trace: Trace, report: Report, machine: Machine | None, counted: Sequence[Counted] = ()
) -> tuple[tuple[ProfileRow, ...], Matching, tuple[str, ...]]:
    """The rows of the profile of `trace`, one for each operation of `report`; how much fits; what to know of it.

    The predictions of the rows are those of the report's rows, for as many runs of the program as the profile
    holds: their sum is the report's own, times the runs. What belongs to no operation follows without one. Where
    the kernels were counted, `counted` says what of each.
    """
    from rooflab.observe.matching import programs
    from rooflab.observe.matching.counted_rows import counted_rows
    from rooflab.observe.matching.ledger import ledger
    from rooflab.types.matched import Matching

    takes_time = [number for number, row in enumerate(report.rows) if row.takes_time]
    if not takes_time:
        raise RooflabError(f"{report.name}: no operation of it takes time, expected the program that was profiled")
    fits = programs.fit(trace, report.graph, takes_time)
    if counted:
        fits = _plausible(fits, report, counted)
    rows = _ours(trace, report, fits, _starts(report, machine), counted)
    others: list[ProfileRow] = []
    if fits.rest:
        rest = (
            counted_rows([counted[kernel] for kernel in fits.rest]) if counted else ledger(trace, fits.rest).rows
        )
        others = [_unmatched(row) for row in rest]
    each = [row.prediction.time_s for row in report.rows if row.prediction is not None]
    matching = Matching(
        program=report.name,
        mode="compiled" if report.captured is not None else "graph",
        runs=len(fits.runs),
        partial_runs=len(fits.partial),
        ops=len(takes_time),
        ops_found=len({one.op for one in fits.fits}),
        kernels=len(trace.kernels),
        kernels_found=len(trace.kernels) - len(fits.rest),
        other_shapes=sum(one.shapes_differ for one in fits.fits),
        predicted_s=sum(each) if each else None,
    )
    ordered = sorted((*rows, *others), key=lambda row: -row.time_s)
    return tuple(ordered), matching, tuple(_warnings(matching))


def _plausible(fits: Fits, report: Report, counted: Sequence[Counted]) -> Fits:
    """`fits` without kernels that did another amount of arithmetic than their operation asks for."""
    kept, rest = [], list(fits.rest)
    for one in fits.fits:
        cost = report.rows[one.op].cost
        done = [counted[kernel].total_flop for kernel in one.kernels]
        flop = None if None in done else sum(each for each in done if each is not None)
        asked = 0.0 if cost is None else cost.total_flop
        # Element-wise work is counted by instructions, and an exponential is many: products alone can be told so.
        product = report.rows[one.op].op.kind in _PRODUCTS
        if product and flop and asked and not _ALIKE[0] < flop / asked < _ALIKE[1]:
            rest += one.kernels
        else:
            kept.append(one)
    # A run of which less than half is left was none.
    found = Counter(one.run for one in kept)
    good = {run for run, count in found.items() if 2 * count >= len(fits.takes_time)}
    rest += [kernel for one in kept if one.run not in good for kernel in one.kernels]
    return fits._replace(
        fits=[one for one in kept if one.run in good],
        rest=sorted(rest),
        runs=[run for run in fits.runs if run in good],
        partial=[run for run in fits.partial if run in good],
    )


class _Starts(NamedTuple):
    """What of a prediction a kernel's own time may leave out: each pause, and by row of the report fetching."""

    pause_s: float
    fetches_s: Sequence[float]


def _starts(report: Report, machine: Machine | None) -> _Starts:
    from rooflab.model.program.pauses import between_kernels_s, fetching_s

    if machine is None or report.setting is None:
        return _Starts(0.0, [0.0] * len(report.rows))
    pause_s = between_kernels_s(machine, report.setting)
    return _Starts(pause_s, fetching_s(report, machine, report.setting, pause_s))


def _ours(
    trace: Trace, report: Report, fits: Fits, starts: _Starts, counted: Sequence[Counted]
) -> list[ProfileRow]:
    by_op: dict[int, list[Fit]] = defaultdict(list)
    for one in fits.fits:
        by_op[one.op].append(one)
    whole = set(fits.runs)
    rows = []
    for number in fits.takes_time:
        found = by_op.get(number, [])
        if found:
            rows.append(_found(trace, report, number, found, starts, counted))
        missing = len(whole) - sum(one.run in whole for one in found)
        if missing > 0:
            rows.append(_row(report, number, missing, starts, _NOTHING, unmatched=_NOT_FOUND))
    return rows


_NOTHING = Observation(time_s=0.0, low_s=0.0, high_s=0.0, kernels=())


def _found(
    trace: Trace, report: Report, number: int, found: list[Fit], starts: _Starts, counted: Sequence[Counted]
) -> ProfileRow:
    from rooflab.observe.matching.counted_kernels import together
    from rooflab.observe.matching.ledger import observed

    row = _row(report, number, len(found), starts, observed(trace, [one.kernels for one in found]))
    if not counted:
        return row
    # A row is all executions of its operation in one run; counters saw one of them.
    return msgspec.structs.replace(row, counted=together([counted[kernel] for kernel in found[0].kernels]))


def _row(
    report: Report, number: int, runs: int, starts: _Starts, observation: Observation, unmatched: str | None = None
) -> ProfileRow:
    from rooflab.model.program.pauses import within

    row: Row = report.rows[number]
    specs = [report.graph.tensors[one] for one in row.op.inputs]
    single = row.prediction
    prediction = None if single is None else scaled(single, runs)
    # A row of the report is all its executions in one run: with its count the costs add up as they do there.
    executions = runs * row.op.count
    return ProfileRow(
        name=row.op.name,
        kind=row.op.kind,
        shapes=" · ".join("x".join(map(str, one.shape)) for one in specs if one.shape),
        dtype=next((one.dtype for one in specs), ""),
        executions=executions,
        observation=observation,
        cost=row.cost,
        why=None if row.cost is not None else report.coverage.reasons.get(row.op.name, "no formula is known"),
        prediction=prediction,
        pause_s=0.0 if prediction is None else within(prediction, starts.pause_s),
        fetch_s=0.0 if prediction is None else starts.fetches_s[number] * runs,
        module=row.op.module or "",
        where=row.op.where,
        phase=row.op.phase,
        unmatched=unmatched,
    )


def scaled(one: Prediction, runs: int) -> Prediction:
    """The prediction of `runs` executions of what `one` predicts."""
    return msgspec.structs.replace(
        one,
        time_s=one.time_s * runs,
        low_s=one.low_s * runs,
        high_s=one.high_s * runs,
        floor_s=one.floor_s * runs,
        compute_s=one.compute_s * runs,
        memory_s={level: seconds * runs for level, seconds in one.memory_s.items()},
        overhead_s=one.overhead_s * runs,
        host_s=one.host_s * runs,
        kernels=one.kernels * runs,
    )


def _unmatched(row: ProfileRow) -> ProfileRow:
    known = row.why if row.why in ("no operation is recorded for it", "no operations are recorded") else None
    return msgspec.structs.replace(row, unmatched=f"{_NOT_OURS}: {known}" if known else _NOT_OURS)


def _warnings(matching: Matching) -> list[str]:
    lines = []
    if not matching.kernels_found:
        lines.append(
            f"no kernel of the profile was found in {matching.program}: is it the program that was profiled?"
        )
    elif not matching.runs:
        lines.append(f"the profile holds no whole run of {matching.program}: the totals are those of a part")
    if matching.other_shapes:
        lines.append(
            f"{matching.other_shapes} executions ran with other sizes than in {matching.program}: their "
            "predictions are not theirs; give it the inputs that were profiled"
        )
    return lines
