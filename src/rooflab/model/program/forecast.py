"""A report with its predictions on a machine: what runs there, how long it takes, what it waits for."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from rooflab.model.compiler import fusion
from rooflab.model.device.device import Device
from rooflab.model.program import floor, host_dispatch, launch_queue, op_times, warnings
from rooflab.model.program.assumptions import NOTES, device_for, notes
from rooflab.model.program.attention_choice import with_kernels
from rooflab.model.program.error_bars import Parts
from rooflab.model.program.op_times import OpTimes, PreparedRows
from rooflab.model.program.predictions import of_program, of_rows, row_columns
from rooflab.model.roofline.per_operation import RATES, RowBound, bounds_of, rates_note
from rooflab.types.machine import Machine
from rooflab.types.prediction import Prediction
from rooflab.types.report import Report, Row
from rooflab.types.setting import Setting
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


class Prepared:
    """Programs made ready to be timed, each once: for whoever predicts the same on several devices."""

    def __init__(self) -> None:
        self._of: dict[int, tuple[tuple[Row, ...], PreparedRows]] = {}
        self._bounds: dict[tuple[int, int], tuple[tuple[Row, ...], Machine, list[RowBound]]] = {}

    def rows_of(self, report: Report) -> PreparedRows:
        """`op_times.prepare` of the rows of `report`."""
        held = self._of.get(id(report.rows))
        if held is None or held[0] is not report.rows:
            held = self._of[id(report.rows)] = report.rows, op_times.prepare(report.graph, report.rows)
        return held[1]

    def bounds_of(self, rows: tuple[Row, ...], machine: Machine) -> list[RowBound]:
        """`per_operation.bounds_of` those rows on `machine`; both are kept, so that their identities stay."""
        key = id(rows), id(machine)
        if key not in self._bounds:
            self._bounds[key] = rows, machine, bounds_of(rows, machine)
        return self._bounds[key][2]


class Timed(NamedTuple):
    """A program timed on a machine, not yet written into its rows.

    Attributes:
        report: as it runs there.
        device: that it was timed on.
        bounds: of each row, by the plain roofline.
        lacking: by row, why it cannot be predicted.
        work, times, counts, waits, parts: of the rows that were.
        floor_s: what the whole program cannot beat.
    """

    report: Report
    device: Device
    bounds: list[RowBound]
    lacking: dict[int, str]
    work: PreparedRows
    times: OpTimes
    counts: np.ndarray
    waits: Waits
    parts: Parts
    floor_s: float

    @property
    def time_s(self) -> float | None:
        """Seconds of the whole program; None where a part of it cannot be predicted."""
        timed = set(self.work.index.tolist())
        if self.report.coverage.unknown or not timed:
            return None
        if any(row.takes_time and number not in timed for number, row in enumerate(self.report.rows)):
            return None
        return self.time_at_least_s

    @property
    def time_at_least_s(self) -> float:
        """Seconds of the rows that can be predicted, one after the other."""
        return max(float((self.parts.device_s + self.waits.wait_s).sum()), self.floor_s)

    def forecast_of(self, report: Report) -> Forecast:
        """This program as a forecast, where `report` is the one that was predicted so."""
        return Forecast(report, self.parts, self.work.index, self.floor_s)


def predict_on(report: Report, machine: Machine, setting: Setting) -> Report:
    """`report` with every row predicted on `machine` as `setting` says, and the whole program.

    In the mode "compiled" the rows are the kernels that the program is fused into, and `captured` keeps the
    program as it was.
    """
    return forecast(report, machine, setting).report


def timed(report: Report, machine: Machine, setting: Setting, prepared: Prepared | None = None) -> Timed:
    """How long `report` takes on `machine` as `setting` says, as arrays.

    Args:
        report, machine, setting: as for `predict_on`.
        prepared: programs that were predicted before, and perhaps this one among them.
    """
    prepared = prepared or Prepared()
    report = as_run(report, machine, setting)
    device = device_for(report, machine, setting, setting.what_if)
    bounds = prepared.bounds_of(report.rows, machine)
    lacking = _lacking(report.rows, [each.reason for each in bounds], machine)
    work = _without(prepared.rows_of(report), lacking)
    times = op_times.predict_times(work, device)
    counts = counts_of(work)
    waits = waits_of(report, work, times, device, setting, counts)
    parts = parts_of(report, times, device, setting, counts, waits)
    floor_s = float(floor.program_floor_s(work, times, device, counts))
    return Timed(report, device, bounds, lacking, work, times, counts, waits, parts, floor_s)


def forecast(report: Report, machine: Machine, setting: Setting, prepared: Prepared | None = None) -> Forecast:
    """What `predict_on` returns, with what its times are made of; `prepared` as in `timed`."""
    one = timed(report, machine, setting, prepared)
    device, times, parts = one.device, one.times, one.parts
    each = of_rows(device, times, row_columns(times, one.counts, one.waits.wait_s, one.waits.host_s, parts))
    predicted = msgspec.structs.replace(
        one.report,
        rows=_rows(one, each),
        machine=machine,
        setting=setting,
        prediction=None,
        predicted_part=None,
        conventions=_conventions(one.report, machine, device, setting),
        advice=None,  # it was given for another prediction
    )
    whole = of_program(each, parts, one.floor_s)
    # What could not be followed may take any time, as may a row without a prediction.
    complete = not predicted.unpredicted and not predicted.coverage.unknown
    known = {"prediction": whole} if complete else {"predicted_part": whole}
    predicted = msgspec.structs.replace(predicted, **known)
    predicted = msgspec.structs.replace(predicted, warnings=warnings.warnings_for(predicted, device))
    return Forecast(predicted, parts, one.work.index, one.floor_s)


def _rows(one: Timed, predictions: list[Prediction]) -> tuple[Row, ...]:
    """The rows with their predictions; those without one as the plain roofline bounds them."""
    by_number = dict(zip(one.work.index.tolist(), predictions, strict=True))
    rows = []
    for number, (row, bound) in enumerate(zip(one.report.rows, one.bounds, strict=True)):
        prediction = by_number.get(number)
        if prediction is not None:
            rows.append(_predicted(row, bound.ridge, prediction))
            continue
        # What cannot be predicted here may have been elsewhere: that prediction is not of this machine.
        reason = one.lacking.get(number, bound.reason)
        found = {"bound": bound.bound, "binds": bound.binds, "ridge": bound.ridge, "unbound": reason}
        rows.append(msgspec.structs.replace(row, prediction=None, **found))
    return tuple(rows)


def _conventions(report: Report, machine: Machine, device: Device, setting: Setting) -> tuple[str, ...]:
    kept = tuple(line for line in report.conventions if not line.startswith((*NOTES, RATES)))
    return (*kept, rates_note(report, machine), *notes(report, device, setting))


def as_run(report: Report, machine: Machine, setting: Setting) -> Report:
    """`report` with the rows that run on `machine`, and the kernels that it has for them."""
    return with_kernels(_in_mode(report, setting), machine)


def predictable(report: Report, machine: Machine) -> PreparedRows:
    """The rows of `report`, bounded on `machine` and as they run, that can be predicted there."""
    lacking = _lacking(report.rows, [row.unbound for row in report.rows], machine)
    return _without(op_times.prepare(report.graph, report.rows), lacking)


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


def _predicted(row: Row, ridge: float | None, prediction: Prediction) -> Row:
    return Row(
        op=row.op,
        cost=row.cost,
        prediction=prediction,
        bound=prediction.bound,
        binds=prediction.binds,
        ridge=_ridge(row, ridge, prediction),
    )


def _ridge(row: Row, plain: float | None, prediction: Prediction) -> float | None:
    """The ridge at the rates that the row attains, at the level that takes longest: as `bound` compares them.

    At theoretical rates, as it is `plain`, where nothing is computed or moved.
    """
    moving_s = max(prediction.memory_s.values(), default=0.0)
    intensity = row.intensity if moving_s and prediction.compute_s else None
    return intensity * moving_s / prediction.compute_s if intensity else plain


def _lacking(rows: Sequence[Row], unbound: Sequence[str | None], machine: Machine) -> dict[int, str]:
    """By row, why it cannot be predicted: its number format has no peak there, or a collective no link."""
    reasons: dict[int, str] = {}
    for number, (row, why) in enumerate(zip(rows, unbound, strict=True)):
        reason = warnings.why_unpredicted(row, machine) if why or row.op.kind == "collective" else None
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
