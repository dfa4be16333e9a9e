"""A report with its predictions on a machine: rows, whole program, error bars, what binds."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
import numpy as np

from rooflab.model import collectives
from rooflab.model.compiler import fusion
from rooflab.model.device.device import ASSUMED_CACHE, Device, device_of
from rooflab.model.program import error_bars, floor, host_dispatch, launch_queue, op_times, warnings
from rooflab.model.program.attention_choice import with_kernels
from rooflab.model.program.error_bars import Parts
from rooflab.model.program.op_times import OpTimes, PreparedRows
from rooflab.model.roofline import roofline
from rooflab.model.roofline.per_operation import bound_on
from rooflab.types.machine import Machine
from rooflab.types.prediction import Prediction
from rooflab.types.report import Report, Row
from rooflab.types.setting import LIBRARIES, Setting
from rooflab.units import iec
from rooflab.work import counting


class Waits(NamedTuple):
    """The host's part, in seconds, of each row that launches; zeros where there is no host in the way.

    Attributes:
        wait_s: how long the device waits for the host before it.
        host_s: host time of the row and of those before it that launch nothing.
    """

    wait_s: np.ndarray
    host_s: np.ndarray


class Forecast(NamedTuple):
    """A predicted report, and what the time of its program is made of.

    Attributes:
        report: with its predictions.
        parts: host and kernel times with their spreads, of the rows that were predicted.
        numbers: of those rows.
        floor_s: what the whole program cannot beat.
    """

    report: Report
    parts: Parts
    numbers: np.ndarray
    floor_s: float


def predict_on(report: Report, machine: Machine, setting: Setting) -> Report:
    """`report` with every row predicted on `machine` as `setting` says, and the whole program.

    In the mode "compiled" the rows are the kernels that the program is fused into, and `captured` keeps the
    program as it was.
    """
    return forecast(report, machine, setting).report


def forecast(report: Report, machine: Machine, setting: Setting) -> Forecast:
    """What `predict_on` returns, with what its times are made of."""
    report = as_run(report, machine, setting)
    kept = tuple(line for line in report.conventions if not line.startswith(_NOTES))
    report = msgspec.structs.replace(report, conventions=kept)
    device = device_for(report, machine, setting, setting.what_if)
    bounded = bound_on(report, machine)
    lacking = _lacking(bounded.rows, machine)
    work = _without(op_times.prepare(report.graph, report.rows), lacking)
    times = op_times.predict_times(work, device)
    counts = counts_of(work)
    waits = waits_of(report, work, times, device, setting, counts)
    parts = parts_of(report, times, device, setting, counts, waits)
    each = _predictions(device, times, row_columns(times, counts, waits, parts))
    # What cannot be predicted here may have been elsewhere: that prediction is not of this machine.
    rows = [
        row if row.prediction is None else msgspec.structs.replace(row, prediction=None) for row in bounded.rows
    ]
    for number, prediction in zip(work.index.tolist(), each, strict=True):
        rows[number] = _predicted(rows[number], prediction)
    for number, reason in lacking.items():
        rows[number] = msgspec.structs.replace(rows[number], unbound=reason)
    floor_s = float(floor.program_floor_s(work, times, device, counts))
    whole = _whole(each, times, waits, parts, floor_s)
    conventions = (*bounded.conventions, *_notes(report, device, setting))
    predicted = msgspec.structs.replace(
        bounded,
        rows=tuple(rows),
        setting=setting,
        prediction=None,
        predicted_part=None,
        conventions=conventions,
        advice=None,  # it was given for another prediction
    )
    # What could not be followed may take any time, as may a row without a prediction.
    complete = not predicted.unpredicted and not predicted.coverage.unknown
    known = {"prediction": whole} if complete else {"predicted_part": whole}
    predicted = msgspec.structs.replace(predicted, **known)
    predicted = msgspec.structs.replace(predicted, warnings=warnings.warnings_for(predicted, device))
    return Forecast(predicted, parts, work.index, floor_s)


def device_for(report: Report, machine: Machine, setting: Setting, knobs: Mapping[str, Any]) -> Device:
    """`machine` as `setting` says, with `knobs`, and with the library that multiplies the program's matrices."""
    return device_of(
        machine,
        cache=setting.cache,
        power=setting.power,
        knobs=knobs,
        constants=setting.constants,
        threads=setting.threads,
        library=_library(report, setting),
    )


def _library(report: Report, setting: Setting) -> str | None:
    """Whose products of matrices the program calls, of those that are measured; None of a framework of its own."""
    framework = report.graph.framework
    return (setting.library or "numpy") if framework == "hand" else framework if framework in LIBRARIES else None


_NOTES = ("floor: ", "caches: ", "constants: ", "host: ", "products: ")


def _notes(report: Report, device: Device, setting: Setting) -> list[str]:
    """What the predictions take for granted, a line for each of `_NOTES` that there is something to say of."""
    convolves = any(op.kind in ("conv", "conv_backward") for op in report.graph.ops)
    notes = [floor.note(device, convolves)]
    if device.cache_name == ASSUMED_CACHE:
        size = iec(float(np.ravel(device.cache_bytes)[0]), 3)
        notes.append(
            f"caches: {device.machine.name} states none; a last cache of {size} is assumed, as its like have"
        )
    notes += _library_notes(report, device, setting)
    if setting.constants is not None:
        notes.append(f"constants: {setting.constants.family}'s as given, not as the family's file has them")
    if setting.mode == "eager" and not host_dispatch.is_known(report.graph.ops, device.machine, setting):
        notes.append(
            "host: not known, taken as one in another server with wide bars; narrower with the time of one bare "
            "eager call on yours (--dispatch, dispatch_s)"
        )
    return notes


def _library_notes(report: Report, device: Device, setting: Setting) -> list[str]:
    """Whose products a CPU's predictions rest on: measured here, or a share of its peak."""
    cores = device.cores
    if cores is None or not device.machine.products or not any(op.kind == "matmul" for op in report.graph.ops):
        return []
    if not cores.products:
        name = _library(report, setting) or report.graph.framework
        how = "; `rooflab measure --library` does" if name in LIBRARIES else ""
        return [f"products: those of {name} were not measured here, a share of the peak stands for them{how}"]
    fits = next(iter(cores.products.values()))
    row = fits[max(fits)]
    who = {"numpy": "NumPy", "torch": "PyTorch"}.get(row.library, row.library)
    threads = setting.threads or row.threads
    told = "".join(f", {name}={value}" for name, value in row.environment.items())
    kernels = f", kernels for {row.kernels}" if row.kernels else ""
    other = "" if report.graph.framework != "hand" else "; --library names another"
    return [
        f"products: as {who} computes them here, measured ({row.blas or 'its library'}{kernels}{told}; "
        f"{threads} thread{'s' if threads > 1 else ''}){other}"
    ]


def as_run(report: Report, machine: Machine, setting: Setting) -> Report:
    """`report` with the rows that run on `machine`, and the kernels that it has for them."""
    return with_kernels(_in_mode(report, setting), machine)


def predictable(report: Report, machine: Machine) -> PreparedRows:
    """The rows of `report`, bounded on `machine` and as they run, that can be predicted there."""
    return _without(op_times.prepare(report.graph, report.rows), _lacking(report.rows, machine))


def counts_of(work: PreparedRows) -> np.ndarray:
    """How often each row executes."""
    return np.array([row.op.count for row in work.rows], float)


def _in_mode(report: Report, setting: Setting) -> Report:
    """`report` with the rows that run: a compiler's kernels in the mode "compiled", else as captured."""
    captured = report.captured or report.graph
    if setting.mode == "compiled":
        if report.captured is not None:
            return report  # fused already
        fused_report = counting.report(fusion.fused(captured), report.name, report.environment)
        return msgspec.structs.replace(fused_report, captured=captured)
    return report if report.captured is None else counting.report(captured, report.name, report.environment)


def _predicted(row: Row, prediction: Prediction) -> Row:
    return Row(
        op=row.op,
        cost=row.cost,
        prediction=prediction,
        bound=prediction.bound,
        binds=prediction.binds,
        ridge=_ridge(row, prediction),
    )


def _ridge(row: Row, prediction: Prediction) -> float | None:
    """The ridge at the rates that the row attains, at the level that takes longest: as `bound` compares them.

    At theoretical rates, as the row has it, where nothing is computed or moved.
    """
    moving_s = max(prediction.memory_s.values(), default=0.0)
    if not row.intensity or not moving_s or not prediction.compute_s:
        return row.ridge
    return row.intensity * moving_s / prediction.compute_s


def _lacking(rows: tuple[Row, ...], machine: Machine) -> dict[int, str]:
    """By row, why it cannot be predicted: its number format has no peak there, or a collective no link."""
    reasons: dict[int, str] = {}
    for number, row in enumerate(rows):
        reason = warnings.why_unpredicted(row, machine) if row.unbound or row.op.kind == "collective" else None
        if reason:
            reasons[number] = reason
    return reasons


def _without(work: PreparedRows, lacking: Mapping[int, str]) -> PreparedRows:
    if not lacking:
        return work
    kept = [
        (row, number) for row, number in zip(work.rows, work.index.tolist(), strict=True) if number not in lacking
    ]
    everything = tuple(row for row, _ in kept)
    prepared = op_times.prepare(work.graph, everything)
    return dataclasses.replace(prepared, index=np.array([number for _, number in kept], int))


def waits_of(
    report: Report, work: PreparedRows, times: OpTimes, device: Device, setting: Setting, counts: np.ndarray
) -> Waits:
    """How long each row waits for the host, and the host's own time."""
    if setting.mode != "eager":
        return Waits(np.zeros(len(work.rows)), np.zeros(len(work.rows)))
    ops = report.graph.ops
    host_s = host_dispatch.dispatch_s(ops, device, setting)[:, 0] * np.array([op.count for op in ops], float)
    if device.machine.kind == "cpu":
        # The cores that work are the host: the time of a kernel there begins with its call.
        host_s[work.index] = 0.0
    # Calls that launch nothing (views) cost the host time all the same, before the next that does.
    before = np.concatenate([[0.0], np.cumsum(host_s)])[work.index + 1]
    host_s = np.diff(before, prepend=0.0)
    if device.machine.kind == "cpu":
        # It dispatches, then works.
        return Waits(host_s, host_s)
    queues = launch_queue.queue_times(host_s, times.kernels.time_s[:, :1] * counts[:, None])
    return Waits(queues.wait_s[:, 0], host_s)


def parts_of(
    report: Report, times: OpTimes, device: Device, setting: Setting, counts: np.ndarray, waits: Waits
) -> Parts:
    """What the error bars are made from."""
    return Parts(
        host_s=waits.host_s,
        device_s=times.kernels.time_s[:, 0] * counts,
        host_spread=host_dispatch.spread(report.graph.ops, device, setting),
        device_spreads=times.kernels.spread[:, 0] * device.constants.wider,
        overlaps=device.machine.kind != "cpu",
    )


class RowColumns(NamedTuple):
    """What is predicted of every row, seconds of all its executions; the fields are those of `Prediction`.

    Attributes:
        waiting: whether waiting for the host is most of its overhead.
    """

    time_s: np.ndarray
    low_s: np.ndarray
    high_s: np.ndarray
    floor_s: np.ndarray
    compute_s: np.ndarray
    near_s: np.ndarray
    cache_s: np.ndarray
    memory_s: np.ndarray
    link_s: np.ndarray
    overhead_s: np.ndarray
    waiting: np.ndarray
    host_s: np.ndarray
    kernels: np.ndarray


def row_columns(times: OpTimes, counts: np.ndarray, waits: Waits, parts: Parts) -> RowColumns:
    """What is predicted of every row that executes `counts` times."""
    k = times.kernels
    floor_s, wait_s = times.floor_s[:, 0] * counts, waits.wait_s
    bars = error_bars.bars_of_rows(parts)
    overhead_s = k.overhead_s[:, 0] * counts + wait_s
    return RowColumns(
        time_s=parts.device_s + wait_s,
        low_s=np.maximum(floor_s, bars.low_s),
        high_s=bars.high_s,
        floor_s=floor_s,
        compute_s=k.compute_s[:, 0] * counts,
        near_s=k.near_s[:, 0] * counts,
        cache_s=k.cache_s[:, 0] * counts,
        memory_s=k.memory_s[:, 0] * counts,
        link_s=k.link_s[:, 0] * counts,
        overhead_s=overhead_s,
        waiting=wait_s > overhead_s / 2,
        host_s=waits.host_s,
        kernels=k.kernels[:, 0] * counts,
    )


def level_names(device: Device) -> tuple[str, str, str]:
    """What the levels behind `near_s`, `cache_s` and `memory_s` are called: two may have one name."""
    return device.near_name, device.cache_name, device.memory_name


def _predictions(device: Device, times: OpTimes, columns: RowColumns) -> list[Prediction]:
    names = level_names(device)
    link = collectives.find_link(device.machine).name if columns.link_s.any() else ""
    predictions = []
    for engine, *numbers in zip(times.engines, *(each.tolist() for each in columns), strict=True):
        time, low, high, floor, compute, near, cache, memory, linked, over, waiting, host_s, kernels = numbers
        levels = dict(zip(names, (near, cache, memory), strict=True))
        if linked:
            levels[link] = linked
        bound, binds = roofline.verdict(compute, engine, levels, over, "host" if waiting else "launch")
        predictions.append(
            Prediction(
                time_s=time,
                low_s=low,
                high_s=high,
                floor_s=floor,
                compute_s=compute,
                memory_s=levels,
                overhead_s=over,
                bound=bound,
                binds=binds,
                host_s=host_s,
                kernels=kernels,
            )
        )
    return predictions


def _whole(
    rows: list[Prediction], times: OpTimes, waits: Waits, parts: Parts, floor_s: float
) -> Prediction | None:
    """The program: its rows one after the other, and no faster than `floor_s`."""
    if not rows:
        return None
    levels = dict.fromkeys(name for row in rows for name in row.memory_s)
    memory = {name: sum(row.memory_s.get(name, 0.0) for row in rows) for name in levels}
    engines: dict[str, float] = {}
    for engine, row in zip(times.engines, rows, strict=True):
        engines[engine] = engines.get(engine, 0.0) + row.compute_s
    compute, over = sum(engines.values()), sum(row.overhead_s for row in rows)
    time_s, wait_s = max(sum(row.time_s for row in rows), floor_s), waits.wait_s.sum()
    bars = error_bars.bars_of_program(parts)
    engine = max(engines, key=engines.__getitem__)
    bound, binds = roofline.verdict(compute, engine, memory, over, "host" if wait_s > over / 2 else "launch")
    return Prediction(
        time_s=time_s,
        low_s=min(time_s, max(floor_s, float(bars.low_s[0]))),
        high_s=max(time_s, float(bars.high_s[0])),
        floor_s=floor_s,
        compute_s=compute,
        memory_s=memory,
        overhead_s=over,
        bound=bound,
        binds=binds,
        host_s=sum(row.host_s for row in rows),
        kernels=sum(row.kernels for row in rows),
    )
