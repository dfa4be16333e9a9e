"""All rules about programs, and what they give: each change predicted again, ranked by what it saves."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from rooflab.model.program.forecast import Forecast, Prepared
from rooflab.remedies import PAGE, WORTH, hardware, numbers, rewriting, running
from rooflab.remedies.case import Case, Change, Unasked
from rooflab.remedies.gains import gain
from rooflab.types.advice import Advice, Advices
from rooflab.types.report import Report
from rooflab.work import counting


class Rule(NamedTuple):
    """A rule: its name (`Advice.rule`), the regime that it is a remedy for, and what asks a program."""

    name: str
    regime: str
    ask: Callable[[Case], Change | Unasked | None]


# After these the same work gives the same results. Changes to the graph are made in this order.
FREE: tuple[Rule, ...] = (
    Rule("cuda-graph", "overhead-bound", running.cuda_graph),
    Rule("compile", "memory-bound, overhead-bound", running.compiled),
    Rule("fused-attention", "memory-bound", rewriting.fused_attention),
    Rule("channels-last", "memory-bound", rewriting.channels_last),
    Rule("pad", "compute-bound", rewriting.padded_products),
    Rule("avoid-materialising", "memory-bound", rewriting.not_materialised),
    Rule("contiguous", "memory-bound", rewriting.contiguous),
    Rule("fused-optimizer", "memory-bound, overhead-bound", rewriting.fused_optimizer),
)
# These have a price; they are asked of the program as it is once the changes of the others are made.
TRADES: tuple[Rule, ...] = (
    Rule("batch", "memory-bound, overhead-bound", running.batch),
    Rule("tf32", "compute-bound", numbers.tf32),
    Rule("half", "any", numbers.half),
    Rule("fp8", "compute-bound", numbers.eight_bits),
    Rule("weight-only", "memory-bound", numbers.weight_only),
    Rule("kv-cache", "memory-bound", numbers.narrow_cache),
    Rule("machine", "any", hardware.machine),
)


def advise(
    report: Report,
    at_batch: Callable[[int], Report] | None = None,
    batch: int | None = None,
    as_recorded: Callable[[], Report] | None = None,
) -> Advices:
    """What would help `report`, which is predicted on a machine.

    Args:
        report: with its predictions.
        at_batch: captures the same program with another size of its batch.
        batch: its size now.
        as_recorded: captures it as it runs while a CUDA graph is recorded of it.
    """
    machine, setting = report.machine, report.setting
    assert machine is not None  # `story.advise` asks for both
    assert setting is not None
    case = Case(
        report, report.captured or report.graph, machine, setting, at_batch, batch, Prepared(), as_recorded
    )
    if not case.time_s:
        return Advices(unasked=("all: nothing of it could be predicted",))
    as_is = _State(case, case, case.timed(report, machine, setting).forecast_of(report), ())
    free, not_asked = _found(FREE, as_is)
    state = _improved(free, as_is)
    trades, unasked = _found(TRADES, state, report)
    together = tuple(change.rule for change in state.changes)
    several = len(together) > 1
    return Advices(
        each=tuple(found.advice for found in free),
        trades=tuple(found.advice for found in trades),
        together=together if several else (),
        together_s=state.case.time_s if several else None,
        unasked=(*not_asked, *unasked),
    )


class _State(NamedTuple):
    """A program with some changes made, and as it is without them."""

    base: Case
    case: Case
    forecast: Forecast
    changes: tuple[Change, ...]


class _Found(NamedTuple):
    """A change worth a word, and the program that was predicted with it."""

    change: Change
    advice: Advice
    after: Forecast


def _found(
    rules: tuple[Rule, ...], state: _State, shown: Report | None = None
) -> tuple[list[_Found], tuple[str, ...]]:
    """What `rules` find worth a word in that state, most gain first; and which could not be asked, and why."""
    found: list[_Found] = []
    unasked = []
    for rule in rules:
        change = rule.ask(state.case)
        if isinstance(change, Unasked):
            unasked.append(f"{change.rule}: {change.reason}")
        elif change is not None:
            after = change.forecast or _predicted((*state.changes, change), state.base)
            advice = _advice(change, state, after, shown)
            if advice is not None:
                found.append(_Found(change, advice, after))
    found = _distinct(found)
    found.sort(key=lambda one: -(one.advice.gain_s or 0.0))
    return found, tuple(unasked)


def _distinct(found: list[_Found]) -> list[_Found]:
    """`found` without a compiler, where it would fuse nothing that a CUDA graph does not give as well."""
    times = {one.change.rule: one.advice.after_s or 0.0 for one in found}
    useless = times.get("compile", 0.0) > (1 - WORTH) * times.get("cuda-graph", float("inf"))
    return [one for one in found if not (useless and one.change.rule == "compile")]


def _advice(change: Change, state: _State, after: Forecast, shown: Report | None) -> Advice | None:
    """`change`, predicted as `after`; None where it saves too little to be worth a word."""
    case = state.case
    before_s, after_s = case.time_s, (after.report.time_at_least_s or 0.0) / change.times
    # What can be predicted must be the same: else a part that fell out would look like a gain.
    if not after_s or len(after.report.unpredicted) > len(case.report.unpredicted):
        return None
    if before_s - after_s < WORTH * before_s:
        return None
    saved = gain(state.forecast, after, change.times, change.machine is not None)
    # What has a price must be worth it in four of five cases.
    if change.price != "nothing" and saved.low_s < 0:
        return None
    floor_s = min(after.floor_s / change.times, after_s)
    told = change.tell(after.report) if change.tell else ()
    return Advice(
        rule=change.rule,
        change=change.text,
        evidence=(*change.evidence, *told),
        rows=change.rows if shown is None else _same_rows(change.rows, case.report, shown),
        before_s=before_s,
        after_s=after_s,
        gain_low_s=saved.low_s,
        gain_high_s=min(saved.high_s, before_s - floor_s),  # no run beats the floor
        effort=change.effort,
        price=change.price,
        code=change.code,
        after=tuple(one.rule for one in state.changes),
        page=PAGE + change.rule,
        changes=dict(change.keywords),
    )


def _same_rows(numbers: tuple[int, ...], of: Report, shown: Report) -> tuple[int, ...]:
    """The rows of `shown` that are the operations of those rows of `of`."""
    if of is shown:
        return numbers
    places = {(row.op.name, row.op.module, row.op.outputs): n for n, row in enumerate(shown.rows)}
    ops = [of.rows[number].op for number in numbers]
    keys = [(op.name, op.module, op.outputs) for op in ops]
    return tuple(places[key] for key in keys if key in places)


def _predicted(changes: tuple[Change, ...], case: Case) -> Forecast:
    """The program of `case`, as it was captured, with all of `changes`."""
    setting, machine, program, graph = case.setting, case.machine, case.report, case.graph
    for change in changes:
        setting = msgspec.structs.replace(setting, **dict(change.setting))
        if change.machine is not None:
            # A host's own time and constants of another family do not go with it.
            machine = change.machine
            setting = hardware.setting_of_another(setting)
        if change.program is not None:
            program, graph = change.program, change.program.graph
    changed = graph
    for change in changes:
        changed = changed if change.graph is None else change.graph(changed)
    if changed is not graph:
        program = counting.report(changed, program.name, program.environment)
    return case.forecast(program, machine, setting)


def _improved(found: list[_Found], as_is: _State) -> _State:
    """The program with all the changes that go together made at once."""
    compiles = any(one.change.rule == "compile" for one in found)
    # What a compiler does by itself is not done before it; it starts its kernels without the host too.
    kept = [one for one in found if not (compiles and one.change.rule in _BY_COMPILER)]
    kept.sort(key=lambda one: _ORDER.index(one.change.rule))
    if not kept:
        return as_is
    changes = tuple(one.change for one in kept)
    after = kept[0].after if len(kept) == 1 else _predicted(changes, as_is.base)
    report = after.report
    if len(report.unpredicted) > len(as_is.case.report.unpredicted):
        return as_is
    assert report.setting is not None  # a prediction has one
    case = as_is.case._replace(report=report, graph=report.captured or report.graph, setting=report.setting)
    return _State(as_is.base, case, after, changes)


_ORDER = tuple(rule.name for rule in FREE)
# What a compiler makes of a program as well.
_BY_COMPILER = ("cuda-graph", "fused-attention", "channels-last", "pad", "avoid-materialising", "contiguous")
