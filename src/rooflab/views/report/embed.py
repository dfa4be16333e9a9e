"""The numbers behind a report's page, as its scripts read them: lines of operations, predictions, roofs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rooflab.model.program.tape import tape_of
from rooflab.model.roofline.per_operation import report_roofs
from rooflab.types.prediction import Prediction
from rooflab.types.report import Report
from rooflab.views.common import explore
from rooflab.views.common.explore import short
from rooflab.views.report import verdict
from rooflab.views.report.alike import Line, lines_of
from rooflab.views.report.nearest import Roofs, at_roofs, factors
from rooflab.views.report.tables import coverage

MOST_ROWS_TAPED = 500
OVERHEADS = ("host", "launch")

_SUMS = ("time_s", "low_s", "high_s", "floor_s", "compute_s", "overhead_s", "host_s", "kernels")


def embedded(named: Sequence[tuple[str, Report]]) -> dict[str, Any]:
    """What the scripts of a page need of its reports, each with its name; equal lists of operations once."""
    programs: list[dict[str, Any]] = []
    predictions = []
    for label, report in named:
        lines = lines_of(report)
        program = _program(report, lines)
        if program not in programs:
            programs.append(program)
        # Recording takes half a millisecond a row: the first prediction always, the others where they are small.
        small = sum(len(one.rows) for _, one in named) <= MOST_ROWS_TAPED
        tape = tape_of(report) if report is named[0][1] or small else None
        prediction = {**_prediction(report, lines), **_roofs(report), "tape": tape}
        predictions.append({"label": label, "program": programs.index(program), **prediction})
    return {"programs": programs, "predictions": predictions}


def warnings_of(report: Report) -> tuple[str, ...]:
    """What a reader must know first: what is missing from the totals, then the report's own warnings."""
    return report.warnings if report.coverage.complete else (*coverage(report), *report.warnings)


def how(report: Report) -> str:
    """How it was taken to run, what-ifs included; empty without a setting."""
    setting = report.setting
    if setting is None:
        return ""
    changed = "".join(f", {name} × {factor:.4g}" for name, factor in setting.what_if.items())
    return f"{setting.mode} mode, {setting.cache} caches, {setting.power} clocks{changed}"


def _program(report: Report, lines: Sequence[Line]) -> dict[str, Any]:
    """Columns of what each line of operations asks for; unknown is null."""

    def accessed(line: Line) -> float | None:
        one = line.row.accessed_bytes
        return None if one is None else one * len(line.rows)

    counted = bool(report.coverage.counted or not report.rows)
    return {
        "whole": report.coverage.complete,
        "flop": report.flop if counted else None,
        "bytes": report.nbytes if counted else None,
        "lines": {
            "name": [line.name for line in lines],
            "module": [line.module for line in lines],
            "kind": [line.row.op.kind or f"unknown: {line.name}" for line in lines],
            "phase": [line.row.op.phase for line in lines],
            "where": [line.row.op.where or "" for line in lines],
            "times": [line.times for line in lines],
            "flop": [short(line.flop) for line in lines],
            "bytes": [short(line.nbytes) for line in lines],
            "accessed": [short(accessed(line)) for line in lines],
            "engine": [_engine(line) for line in lines],
            "takesTime": [line.row.takes_time for line in lines],
            "rows": [list(line.rows) for line in lines],
        },
    }


def _engine(line: Line) -> str:
    """The engine and number format with the most FLOP of a line; empty without any."""
    flop = () if line.row.cost is None else line.row.cost.flop
    most = max(flop, key=lambda one: one.count, default=None)
    return f"{most.dtype} {most.engine}" if most is not None and most.count else ""


def _prediction(report: Report, lines: Sequence[Line]) -> dict[str, Any]:
    """The whole program's prediction, and columns of each line's; unknown is null."""
    known = report.prediction or report.predicted_part
    members = [[report.rows[number] for number in line.rows] for line in lines]
    levels = list(dict.fromkeys(name for row in report.rows if row.prediction for name in row.prediction.memory_s))
    roofs = Roofs.of(report)
    columns: dict[str, Any] = {name: [] for name in _SUMS}
    memory: dict[str, list[float | None]] = {name: [] for name in levels}
    for rows in members:
        each = [row.prediction for row in rows if row.prediction is not None]
        whole = len(each) == len(rows)
        for name in _SUMS:
            columns[name].append(short(sum(getattr(one, name) for one in each)) if whole else None)
        for name in levels:
            memory[name].append(short(sum(one.memory_s.get(name, 0.0) for one in each)) if whole else None)
    return {
        "machine": None if report.machine is None else report.machine.name,
        "warnings": warnings_of(report),
        "how": how(report),
        "total": None if known is None else _whole(known),
        # The scripts say the same of a total; without one this stands.
        "headline": verdict.headline(report) if known is None else None,
        "missing": report.missing,
        "held": report.peak_memory_bytes,
        "binding": binding(report),
        "reach": short(verdict.reach_s(report)),
        "roof": at_roofs(roofs, report.rows, 1),
        "columns": {
            **columns,
            "memory_s": memory,
            "bound": [line.row.bound for line in lines],
            "binds": [line.row.binds for line in lines],
            "ridge": [short(line.row.ridge) for line in lines],
            "unbound": [line.row.unbound for line in lines],
            "roof": [at_roofs(roofs, (line.row,), len(line.rows)) for line in lines],
            "measured_s": [short(line.measured_s) for line in lines],
        },
    }


def binding(report: Report) -> dict[str, float]:
    """Seconds of the rows by what binds them, as `_binding` of `forecast` adds them up for the program's verdict.

    Balanced rows stand with what binds them by a little, and once more under "balanced".
    """
    sums: dict[str, float] = dict.fromkeys(("memory", "compute", "overhead", "balanced"), 0.0)
    for row in report.rows:
        one = row.prediction
        if one is None:
            continue
        kind = "memory" if one.binds in one.memory_s else "overhead" if one.binds in OVERHEADS else "compute"
        sums[kind] += one.time_s
        sums["balanced"] += one.time_s if one.bound == "balanced" else 0.0
    return sums


def _whole(one: Prediction) -> dict[str, Any]:
    return {
        **{name: getattr(one, name) for name in _SUMS},
        "memory_s": one.memory_s,
        "bound": one.bound,
        "binds": one.binds,
    }


def _roofs(report: Report) -> dict[str, Any]:
    """Bandwidths near to far and peaks slow to fast, those that the program meets marked."""
    machine = report.machine
    if machine is None:
        return {"levels": [], "peaks": []}
    found = report_roofs(report, machine)
    used = {} if found is None else dict(found.peaks)
    return explore.roofs(machine, used, factors(report))
