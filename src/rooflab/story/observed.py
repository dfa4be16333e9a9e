"""What did limit the run I profiled? A profiler's file as a profile: counted, predicted, measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rooflab.errors import RooflabError
from rooflab.machines import catalog
from rooflab.story.limits import largest, limits_of
from rooflab.types.profile import Profile, ProfileRow

if TYPE_CHECKING:
    from rooflab.observe.matching.ledger import Ledger
    from rooflab.story.matched import Program
    from rooflab.types.counted import Counted, Counters
    from rooflab.types.machine import Machine
    from rooflab.types.trace import Device, Trace


def profiled(found: Trace | Counters, name: str, machine: Machine | None, model: Program | None = None) -> Profile:
    """What was `found` in the file called `name` as a profile, held against `machine`, else the one it names."""
    import msgspec

    from rooflab.model.diagnosis.rules import diagnose
    from rooflab.remedies.profiles.rules import advise
    from rooflab.types.trace import Trace

    if isinstance(found, Trace):
        profile = _of_trace(found, name, machine, model)
    else:
        profile = _of_counters(found, name, machine, model)
    limits = limits_of(profile.rows, profile.timeline, profile.machine)
    most = largest(limits)
    return msgspec.structs.replace(
        profile,
        limits=limits,
        bound=None if most is None else most.bound,
        binds=None if most is None else most.binds,
        findings=diagnose(profile),
        advice=advise(profile),
    )


def _of_trace(trace: Trace, name: str, given: Machine | None, model: Program | None) -> Profile:
    from rooflab.observe.matching.host import on_host
    from rooflab.observe.matching.memory import memory_of
    from rooflab.observe.timeline import timeline

    trace = on_host(trace)
    times = timeline(trace)
    device = _device(trace)
    target, warnings = _machine(given, device)
    if model is None:
        matching, rows = None, _by_themselves(trace, target)
    else:
        from rooflab.story.matched import matched, report_of

        rows, matching, more = matched(trace, report_of(model, trace, target), target)
        warnings += more
    if target is not None:
        rows = _placed(rows, target, device)
    return Profile(
        name=name,
        source=trace.source,
        rows=rows,
        timeline=times,
        memory=memory_of(trace),
        device=device,
        machine=target,
        matching=matching,
        dropped=trace.dropped,
        warnings=warnings,
        notes=trace.notes,
    )


def _of_counters(counters: Counters, name: str, given: Machine | None, model: Program | None) -> Profile:
    from rooflab.observe.matching.untimed import untimed

    target, warnings = _machine(given, counters.device)
    dropped, told = untimed(counters.rows)
    notes = (*counters.notes, *told)
    if target is None and counters.machine is not None:
        # A card that the catalogue does not have: the file's own roofs.
        target, warnings = counters.machine, ()
        notes = (*notes, f"{target.name} is not in the catalogue: its roofs are those of its own counters")
    matching = None
    if model is None:
        from rooflab.observe.matching.counted_rows import counted_rows

        rows = counted_rows(counters.rows)
    else:
        from rooflab.observe.matching.counted_kernels import as_trace
        from rooflab.story.matched import matched, report_of

        trace, counted = as_trace(counters)
        rows, matching, more = matched(trace, report_of(model, trace, target), target, counted)
        warnings += more
    if target is not None:
        rows = _placed(rows, target, counters.device)
    return Profile(
        name=name,
        source=counters.source,
        rows=rows,
        device=counters.device,
        machine=target,
        matching=matching,
        dropped=(*counters.dropped, *dropped),
        warnings=warnings,
        notes=notes,
    )


def _placed(rows: tuple[ProfileRow, ...], machine: Machine, device: Device | None) -> tuple[ProfileRow, ...]:
    """The rows under the roofs of `machine`, with what was counted, else with what their shapes ask for."""
    import msgspec

    from rooflab.model.roofline.counted import place

    capability = None if device is None else device.capability
    placed = []
    for row in rows:
        elsewhere = row.counted is not None and row.counted.device is not None
        work = None if elsewhere else row.counted or _asked_for(row)
        placement = None if work is None else place(work, machine, capability)
        placed.append(msgspec.structs.replace(row, placement=placement))
    return tuple(placed)


def _asked_for(row: ProfileRow) -> Counted | None:
    """What one execution of `row` asks for; None where that or its time is not known."""
    from rooflab.types.counted import Counted

    if row.cost is None or not row.time_s:
        return None
    cost = row.cost
    return Counted(name=row.name, time_s=row.time_s / row.executions, flop=cost.flop, traffic=(cost.compulsory,))


def _machine(given: Machine | None, device: Device | None) -> tuple[Machine | None, tuple[str, ...]]:
    """The machine that was given, else the one that the file names; and what is to be said of that."""
    if given is not None or device is None:
        return given, ()
    give = f"give --machine to have roofs and predictions{_alike(device)}"
    if not device.name:
        return None, (f"the file does not name its device; {give}",)
    try:
        return catalog.named(device.name), ()  # a name out of a file: never a path
    except RooflabError as error:
        return None, (f"{error}; {give}",)


def _alike(device: Device) -> str:
    """What machines of the catalogue have as many units as the device."""
    if device.compute_units is None:
        return ""
    named = ((name, catalog.find(name)) for name in catalog.names())
    alike = [name for name, one in named if one.compute_units == device.compute_units and one.kind == "gpu"]
    which = f", as {', '.join(alike)}" if alike else ""
    return f" (it has {device.compute_units} multiprocessors{which})"


def _device(trace: Trace) -> Device | None:
    """The device that worked most, as the file describes it."""
    import numpy as np

    used = trace.kernels.device
    if not len(used):
        return None
    numbers, counts = np.unique(used, return_counts=True)
    most = int(numbers[counts.argmax()])
    return next((one for one in trace.devices if one.number == most), next(iter(trace.devices), None))


def _by_themselves(trace: Trace, machine: Machine | None) -> tuple[ProfileRow, ...]:
    """The operations as the trace alone tells of them."""
    from rooflab.observe.matching.ledger import ledger

    found = ledger(trace)
    return found.rows if machine is None else _predicted(found, machine)


def _predicted(found: Ledger, machine: Machine) -> tuple[ProfileRow, ...]:
    """The rows with what each was predicted to take on the device, called as often."""
    import msgspec

    from rooflab.model.program.pauses import between_kernels_s, fetching_s, within
    from rooflab.story.programs import predict
    from rooflab.work import counting

    ops = tuple(
        msgspec.structs.replace(op, count=row.executions)
        for op, row in zip(found.graph.ops, found.rows, strict=True)
    )
    report = predict(
        counting.report(msgspec.structs.replace(found.graph, ops=ops), "profile"), machine, mode="graph"
    )
    assert report.setting is not None
    pause_s = between_kernels_s(machine, report.setting)
    fetches_s = fetching_s(report, machine, report.setting, pause_s)
    return tuple(
        msgspec.structs.replace(
            row, prediction=each.prediction, pause_s=within(each.prediction, pause_s), fetch_s=fetch_s
        )
        if each.prediction is not None
        else row
        for row, each, fetch_s in zip(found.rows, report.rows, fetches_s, strict=True)
    )
