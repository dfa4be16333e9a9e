"""Where a loop lies under a machine's roofs, with the predicted times of a warm run beside them.

The roofline at every level follows Ilic, Pratas, Sousa (cache-aware, CAL 2014) at L1 and Koskela et al.
(hierarchical, ISC 2018) beyond.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rooflab.errors import RooflabError
from rooflab.model.loop import crossings, main_loop, rates, reordered, teams, times
from rooflab.types.core_timing import CoreTiming
from rooflab.types.loop import LoopReport, Point, Predicted, Timed
from rooflab.types.machine import Machine, Scope
from rooflab.types.team_timing import TeamTiming
from rooflab.units import si

_SCALING = "thread scaling"  # the self-check that holds rates on all cores against those on one
_REORDERED = (
    "the compiled loop makes fewer accesses than the source's order misses: it goes along what that steps over;"
    " times and the table of levels take one miss for each of its accesses, the lines below are the source's"
)
_FAR, _SHORT_S = 2.0, 1e-5  # measured ÷ predicted that is said first; what is shorter is mostly the call itself


def place_on(
    report: LoopReport,
    machine: Machine,
    timing: CoreTiming | None = None,
    team: TeamTiming | None = None,
    *,
    most_threads: int | None = None,
    doubts: Sequence[str] = (),
) -> LoopReport:
    """`report` with its points under the roofs of `machine` and the predicted times of a warm run.

    Args:
        report: of a loop.
        machine: a CPU.
        timing: how long its core's operations take, where that was measured.
        team: how long its teams of threads take to start, where that was measured.
        most_threads: up to how many prange is predicted; as many as the machine has cores by default.
        doubts: what is to be said of the machine and the moment, among the warnings.

    Raises:
        RooflabError: a machine that is not a CPU.
    """
    if machine.kind != "cpu":
        raise RooflabError(
            f"{machine.name} is a {machine.kind}; a Python loop runs on a CPU: measure one, or give"
            " the name of one"
        )
    points = points_under(report, machine, timing)
    predictions = []
    for run in (report.run(), report.run(threads=2)):
        threads = 1 if run is None else run.threads
        predicted = times.predict(report, machine, threads, timing=timing, team=team)
        if predicted is not None and threads not in [each.threads for each in predictions]:
            predictions.append(predicted)
    doubted = _scaling_doubt(machine) if any(each.threads > 1 for each in predictions) else ""
    if doubted:
        predictions = [_between(each, predictions[0]) for each in predictions]
    # of another machine than the one that ran it, that is no surprise
    far = () if timing is None else _far_off(predictions, report.run(), report.unseen)
    unknown = _why_no_times(report, machine, timing) if not predictions else ()
    warnings = (
        *far,
        *((doubted,) if doubted else ()),
        *((_REORDERED,) if reordered.is_reordered(report) else ()),
        *teams.left_to_the_scheduler(report, team),
        *report.warnings,
        *doubts,
        *unknown,
    )
    scaling = teams.scaling(
        report,
        machine,
        lambda threads: times.predict(report, machine, threads, timing=timing, team=team),
        most_threads,
    )
    return msgspec.structs.replace(
        report,
        machine=machine,
        points=points,
        predictions=tuple(predictions),
        scaling=scaling,
        warnings=warnings,
    )


def _why_no_times(report: LoopReport, machine: Machine, timing: CoreTiming | None) -> tuple[str, ...]:
    """A sentence on what a machine does not state, so that nothing is predicted on it."""
    missing = [
        level.name if (level := crossings.level(machine, name)) else name
        for number, (name, _, _) in enumerate(crossings.of(report))
        if rates.level_s(report, machine, number, "core", 1, timing=timing) is None
    ]
    what = f"bytes/s of one core from {', '.join(missing)}" if missing else "what its core attains"
    cores = f"{machine.compute_units:,} cores" if machine.compute_units else "cores"
    where = f"no times over the {cores}" if report.regions else "no time predicted on one core"
    return (
        f"{where} of {machine.name}: its file does not state {what};"
        " rooflab measure -o machine.toml on such a machine does",
    )


def _scaling_doubt(machine: Machine) -> str:
    """A sentence where a measured machine's rates on all cores do not fit those on one; "" elsewhere."""
    if all(each.ok for each in machine.checks if each.name == _SCALING):
        return ""
    return (
        f"several threads: between perfect scaling and none, as the self-check {_SCALING!r} of {machine.name}"
        " failed: rooflab measure on a quiet machine, where its cores are not siblings"
    )


def _between(predicted: Predicted, one: Predicted) -> Predicted:
    """A prediction of several threads with bars from perfect scaling to none."""
    if predicted.threads == 1:
        return predicted
    low_s = min(predicted.time_s, one.time_s / predicted.threads)
    high_s = max(predicted.time_s, one.time_s)
    return msgspec.structs.replace(predicted, low_s=low_s, high_s=high_s, errors={})


def _far_off(predictions: list[Predicted], run: Timed | None, unseen: tuple[str, ...]) -> tuple[str, ...]:
    """A sentence where the measured time lies so far from the predicted that the bound cannot be trusted.

    `unseen`: what is called and cannot be looked into: the first to be suspected.
    """
    one = next((each for each in predictions if each.threads == 1), None)
    if one is None or run is None or not run.time_s:
        return ()
    ratio = run.time_s / one.time_s if one.time_s else 0.0
    low, high = one.low_s or one.time_s / _FAR, one.high_s or one.time_s * _FAR
    if not one.time_s or run.time_s < _SHORT_S or (run.best_s <= high and run.time_s >= low):
        return ()
    bar = f"{si(run.time_s, 's')} measured, {si(low, 's')} to {si(high, 's')} predicted"
    if ratio > 1:
        rest = f"{', '.join(unseen)}, which cannot be seen, or something else" if unseen else "something"
        return (
            f"{bar}: {rest} outside of the model takes the rest. That {one.binds} limits it is not shown,"
            " and what would help that may not help",
        )
    return (f"{bar}: it runs faster than {one.binds} allows by the model, which that rules out as its limit",)


def points_under(report: LoopReport, machine: Machine, timing: CoreTiming | None = None) -> tuple[Point, ...]:
    """Where a loop lies at each level, on one core, warm: what crosses, how long it takes, its share of the roof.

    Args:
        report: of it.
        machine: a CPU.
        timing: how long its core's operations take, where that was measured.
    """
    return _points(reordered.as_compiled(report), machine, "core", report.run(), timing)


def _points(
    report: LoopReport, machine: Machine, scope: Scope, run: Timed | None, timing: CoreTiming | None
) -> tuple[Point, ...]:
    peak = main_loop.peak_of(report, machine, scope)
    points = []
    for number, (name, read, write) in enumerate(crossings.of(report)):
        level = crossings.level(machine, name)
        nbytes = read + write
        rate = None
        if level is not None and nbytes:
            rate = rates.bytes_per_s(level, scope, write / nbytes, nearest=number == 0)
        intensity = report.flop / nbytes if nbytes else None
        roof = share = None
        if rate is not None and intensity is not None and report.flop and peak is not None:
            roof = min(intensity * rate, peak.value)
        if run is not None and run.median_s:
            if roof:
                share = report.flop / run.median_s / roof
            elif rate and not report.flop:
                share = nbytes / run.median_s / rate
        points.append(
            Point(
                level=name if level is None else level.name,
                read_bytes=read,
                write_bytes=write,
                bytes_per_s=rate,
                time_s=rates.level_s(report, machine, number, scope, 1, timing=timing),
                intensity=intensity,
                roof_flop_per_s=roof,
                share=share,
            )
        )
    return tuple(points)
