"""A program's own times, taken here: each of its operations by a clock, and the whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from rooflab.errors import RooflabError
from rooflab.story import own_times
from rooflab.types.own_time import Measurement, Observed
from rooflab.units import duration, percent, si

if TYPE_CHECKING:
    from rooflab.machines.bench.run.background_load import BackgroundLoad
    from rooflab.observe.replay.passes import Passes
    from rooflab.types.machine import Machine
    from rooflab.types.report import Report
    from rooflab.work.capture.torch.kept import Keeper

_MOST_MEMORY = 0.5  # of what is free
_DISTURBS = 0.03  # of the CPUs' time in other hands
_WORTH = 0.02  # of the operations' time: less is not worth a word


def check(machine: Machine | None, device: str | None = None) -> None:
    """Return where programs predicted on `machine`, captured for `device`, can be timed here and held against it.

    Raises:
        RooflabError: no machine, a GPU, surely another CPU.
    """
    from rooflab.machines.detect import detect, granted_cores
    from rooflab.machines.doubts import is_here

    if machine is None:
        raise RooflabError(
            "measure: expected the machine that this is; `rooflab measure -o machine.toml` writes its file"
        )
    if machine.kind != "cpu":
        raise RooflabError(
            f"measure: {machine.name} is a {machine.kind}, and operations are timed on the CPU here; profile it "
            "there, then rooflab load trace.json --machine … --model …"
        )
    if device not in (None, "cpu"):
        raise RooflabError(
            f"measure: operations are timed on the CPU here, not as {device} runs them: leave out device"
        )
    if not is_here(machine):
        raise RooflabError(
            f"measure: {machine.name} is not this machine, so its predictions say nothing of times taken here; "
            "`rooflab measure -o machine.toml` writes this one's file"
        )
    cores = len(granted_cores(detect(gpus=False)))
    if machine.source.kind != "measured" and machine.compute_units not in (None, cores):
        raise RooflabError(
            f"measure: {machine.name} has {machine.compute_units} cores, {cores} are granted here, so its "
            "predictions say nothing of times taken here; `rooflab measure -o machine.toml` writes this one's file"
        )


def keeper(target: Any, args: tuple, kwargs: Mapping[str, Any] | None) -> Keeper:
    """What keeps the calls of a program while it is captured.

    Raises:
        RooflabError: a program of another framework than PyTorch.
    """
    from rooflab.work import front_end

    framework = front_end.choose(target, args, kwargs or {})
    if framework != "torch":
        raise RooflabError(
            f"measure: operations of PyTorch programs alone can be timed one by one, this is one of {framework}; "
            "time it as a whole, and give that: report.with_times('12 ms')"
        )
    from rooflab.work.capture.torch.kept import Keeper

    return Keeper()


def measured(
    report: Report,
    keeper: Keeper,
    program: tuple[Any, tuple, Mapping[str, Any]],
    *,
    backward: bool,
    optimizer: bool,
    progress: Callable[[str, float, float], None] | None = None,
) -> Report:
    """`report` with the times of its operations and of the whole program, taken here.

    Args:
        report: of `program`, predicted on this machine.
        keeper: the calls behind its operations.
        program: function or module, its inputs, its keywords.
        backward, optimizer: whether the report has them.
        progress: called with what is done, how far, and the total.

    Raises:
        RooflabError: a compiled program, one that needs more memory than is free.
    """
    import torch

    from rooflab.machines.bench.run import background_load
    from rooflab.machines.detect import detect
    from rooflab.observe.replay import passes, whole

    assert report.machine is not None
    assert report.setting is not None
    if report.captured is not None or report.setting.mode != "eager":
        raise RooflabError(
            f"measure: operations are called one by one, which is eager mode, not {report.setting.mode}: leave "
            "out mode"
        )
    if report.setting.what_if:
        raise RooflabError("measure: a changed machine is not this one: leave out what_if")
    free = detect(gpus=False).memory_available_bytes
    if free is not None and report.memory.most_bytes > _MOST_MEMORY * free:
        raise RooflabError(
            f"measure: {report.name} holds {si(report.memory.most_bytes, 'B')} at once, more than half of the "
            f"{si(free, 'B')} that are free here: take a smaller batch or fewer layers"
        )
    cold = report.setting.cache == "cold"
    cache_bytes = _cache_bytes(report.machine) if cold else None
    timed = [number for number, row in enumerate(report.rows) if row.takes_time and own_times.timeable(row)]
    fn, args, kwargs = program
    all_of_it = whole.Whole(fn, args, kwargs, backward=backward, optimizer=optimizer)
    cpus = detect(gpus=False).allowed_cpus
    before = background_load.cpu_time(cpus)
    with whole.as_it_was(fn, args, kwargs):
        found = passes.run(
            keeper.calls, timed, cold_bytes=cache_bytes, cpus=cpus, between=all_of_it.run, progress=progress
        )
    load = background_load.background_load(before, background_load.cpu_time(cpus), len(cpus))
    notes = [*_notes(report, found, torch.get_num_threads(), cold), *_disturbed(load)]
    if all_of_it.why_not is not None:
        notes.append(f"the whole program was not timed: {all_of_it.why_not}")
    observed = {number: _observed(one, report.rows[number].op.count) for number, one in found.seen.items()}
    given = [
        own_times.Given(own_times.name_of(report, number), (number,), one.time_s)
        for number, one in observed.items()
    ]
    measurement = Measurement(by="timed here", notes=tuple(notes))
    return own_times.laid(report, given, all_of_it.median_s, measurement, observed=observed, missing=found.missing)


def _observed(one: Any, count: int) -> Observed:
    return Observed(
        time_s=one.median_s * count,
        low_s=one.share(0.1) * count,
        high_s=one.share(0.9) * count,
        runs=len(one.seconds),
    )


def _notes(report: Report, found: Passes, threads: int, cold: bool) -> list[str]:
    assert report.machine is not None
    how = "the caches emptied before each" if cold else "caches as the last one left them"
    notes = [
        f"timed here: PyTorch eager on {threads} thread{'s' if threads > 1 else ''}, each operation in its "
        f"place in {found.passes} passes over the program, in turns with the whole, {how}; the median; "
        f"{duration(found.detour_s)} of calling one alone taken off"
    ]
    if found.freeing_s > _WORTH * sum(one.median_s for one in found.seen.values()):
        notes.append(f"giving memory back between operations takes {duration(found.freeing_s)} more")
    units = report.machine.compute_units
    if units is not None and threads != units:
        notes.append(
            f"PyTorch used {threads} thread{'s' if threads > 1 else ''}, {report.machine.name} is predicted with "
            f"{units} cores"
        )
    return notes


def _disturbed(load: BackgroundLoad | None) -> list[str]:
    """What to doubt where others worked meanwhile."""
    told = []
    if load is not None and load.others > _DISTURBS:
        told.append(
            f"other processes had {percent(load.others)} of the CPUs' time meanwhile: measure again without them"
        )
    if load is not None and load.stolen > _DISTURBS:
        told.append(f"the hypervisor gave {percent(load.stolen)} of the CPUs' time to other guests meanwhile")
    return told


def _cache_bytes(machine: Machine) -> float:
    """Of the last cache, as large as it may be: what the system reports, where that is more than was found."""
    sizes = [
        max(level.capacity_bytes or 0.0, level.reported_capacity_bytes or 0.0)
        for level in machine.levels
        if level.name.startswith("L")
    ]
    return max(sizes, default=0.0) or 32 * 2**20
