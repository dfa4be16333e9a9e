"""Predictions for all rows of a report, under one setting or thousands: one array implementation for both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from rooflab.model.device import cache_residency
from rooflab.model.device.device import Device
from rooflab.model.kernels import MECHANISMS
from rooflab.model.kernels.common import Columns, KernelTimes, Mechanism
from rooflab.model.roofline.per_operation import Peaks, Term, compute_terms
from rooflab.types.report import Row
from rooflab.types.work import Flop, Graph


@dataclass(frozen=True)
class PreparedRows:
    """Rows of a report made ready to be timed on any device.

    Attributes:
        rows: those that are known: with a cost, and moving a byte or computing something.
        index: where each stands among all rows of the report.
        operands: their operands with reuse distances; `switches`: where another program ran before.
        demands: a column for each of `DEMANDS`.
    """

    graph: Graph
    rows: tuple[Row, ...]
    index: np.ndarray
    operands: cache_residency.OperandAccesses
    switches: cache_residency.ProgramSwitches
    demands: np.ndarray

    @cached_property
    def remembered(self) -> dict[Any, Any]:
        """What was found of these rows that several devices ask for, by what asks."""
        return {}


# What every mechanism is given of a row's cost: compulsory bytes, and FLOP by engine.
DEMANDS = ("read_bytes", "write_bytes", "matrix", "vector", "special")


class OpTimes(NamedTuple):
    """Seconds of one execution of each of `PreparedRows.rows`, arrays of shape (rows, settings).

    Attributes:
        floor_s: what theoretical rates at the highest clock need.
        units: by row, the unit that computes.
        issuing: whether issuing instructions is what takes it `compute_s`, more than its FLOP.
    """

    kernels: KernelTimes
    floor_s: np.ndarray
    units: tuple[str, ...]
    issuing: np.ndarray

    @property
    def engines(self) -> tuple[str, ...]:
        """By row, what is behind `compute_s` at the first setting: its unit, or issuing instructions."""
        return tuple(
            ISSUING if much and may_issue(name) else name
            for name, much in zip(self.units, self.issuing[:, 0].tolist(), strict=True)
        )


ISSUING = "instructions"


def may_issue(unit: str) -> bool:
    """Whether what `unit` computes may wait for other instructions: matrix units have few."""
    return not unit.endswith(" matrix")


def prepare(graph: Graph, rows: Sequence[Row]) -> PreparedRows:
    """`rows` without those that launch nothing (views) or whose cost is unknown."""
    kept = [(number, row) for number, row in enumerate(rows) if launches(row)]
    launching = tuple(row for _, row in kept)
    index = np.array([number for number, _ in kept], int)
    ops = [row.op for row in launching]
    return PreparedRows(
        graph,
        launching,
        index,
        cache_residency.operand_accesses(graph, ops),
        cache_residency.program_switches(graph, ops),
        _demands(launching),
    )


def launches(row: Row) -> bool:
    """Whether the row is known to run a kernel."""
    return row.cost is not None and bool(row.cost.total_flop or row.cost.compulsory.nbytes)


def _demands(rows: tuple[Row, ...]) -> np.ndarray:
    demands = np.zeros((len(rows), len(DEMANDS)))
    for number, row in enumerate(rows):
        if row.cost is not None:
            demands[number, 0], demands[number, 1] = (
                row.cost.compulsory.read_bytes,
                row.cost.compulsory.write_bytes,
            )
            for one in row.cost.flop:
                if one.engine in DEMANDS:
                    demands[number, DEMANDS.index(one.engine)] += one.count
    return demands


def predict_times(work: PreparedRows, device: Device) -> OpTimes:
    """Seconds of every row on `device`, for all its settings."""
    settings = np.broadcast_shapes(*(np.shape(each) for each in device.factor.values()), (1,))[-1]
    shape = (len(work.rows), settings)
    hot_read, hot_write = cache_residency.cached_bytes(work.operands, len(work.rows), device)
    flop_floor, engines = _arithmetic(work, device, settings)
    fields = {name: np.zeros_like(flop_floor, shape=shape) for name in KernelTimes._fields}
    for mechanism, numbers, features in _grouped(work, device):
        x = _columns(work, mechanism, numbers, features, hot_read, hot_write, flop_floor)
        for name, values in mechanism.time(x, device)._asdict().items():
            fields[name][numbers] = values
    start = cache_residency.program_fetch_s(work.switches, device) * fields["kernels"] * device.factor["overhead"]
    fields["time_s"] += start
    fields["overhead_s"] += start
    # What is in no term is waiting: loads and products of a small kernel that follow one from another.
    named = sum(fields[name] for name in _TERMS)
    fields["overhead_s"] += np.maximum(fields["time_s"] - named, 0.0)
    kernels = KernelTimes(**fields)
    floor = np.maximum(_floor(work, device, flop_floor), kernels.floor_s)
    issuing = kernels.compute_s > _ISSUE * flop_floor
    return OpTimes(kernels._replace(time_s=np.maximum(kernels.time_s, floor)), floor, engines, issuing)


_TERMS = ("compute_s", "near_s", "cache_s", "memory_s", "link_s", "overhead_s")
# Arithmetic that takes this many times its theoretical time waits for the other instructions around it:
# addresses, loads, conversions.
_ISSUE = 2.0


def _grouped(work: PreparedRows, device: Device) -> list[tuple[Mechanism, np.ndarray, np.ndarray]]:
    """The rows by mechanism, with the features of each; equal rows are looked at once."""
    groups: dict[int, tuple[list[int], list[Any]]] = {}
    by_cost: dict[tuple, tuple[int, Any]] = {}
    mechanisms: dict[str | None, list[tuple[int, Mechanism]]] = {}
    tensors = work.graph.tensors
    for number, row in enumerate(work.rows):
        op = row.op
        # The cost stands for shapes and attributes; the library's kernel may differ by name and layout.
        key = (id(row.cost), op.name, tuple([tensors[index].strides for index in (*op.inputs, *op.outputs)]))
        choice = by_cost.get(key)
        if choice is None:
            if op.kind not in mechanisms:
                mechanisms[op.kind] = _mechanisms_for(op.kind, device)
            which = mechanisms[op.kind]
            asked = (key, *(each for each, _ in which))
            choice = work.remembered.get(asked)
            if choice is None:
                choice = work.remembered[asked] = _features(row, tensors, which)
            by_cost[key] = choice
        rows, values = groups.setdefault(choice[0], ([], []))
        rows.append(number)
        values.append(choice[1])
    return [
        (MECHANISMS[which], np.array(rows), np.array(values, float).reshape(len(rows), -1))
        for which, (rows, values) in groups.items()
    ]


def _mechanisms_for(kind: str | None, device: Device) -> list[tuple[int, Mechanism]]:
    """The mechanisms for `kind` that model this sort of machine and have constants in its family."""
    return [
        (number, each)
        for number, each in enumerate(MECHANISMS)
        if (not each.kinds or kind in each.kinds)
        and (not each.machines or device.machine.kind in each.machines)
        and device.constants.models(each.name)
    ]


def _features(row: Row, tensors: tuple, mechanisms: list[tuple[int, Mechanism]]) -> tuple[int, Any]:
    op, cost = row.op, row.cost
    assert cost is not None  # `prepare` leaves out rows without a cost
    inputs = tuple([tensors[index] for index in op.inputs])
    outputs = tuple([tensors[index] for index in op.outputs])
    for number, mechanism in mechanisms:
        features = mechanism.features(op, inputs, outputs, cost)
        if features is not None:
            return number, features
    raise AssertionError("the last mechanism models everything")


def _columns(
    work: PreparedRows,
    mechanism: Mechanism,
    numbers: np.ndarray,
    features: np.ndarray,
    hot_read: np.ndarray,
    hot_write: np.ndarray,
    flop_floor: np.ndarray,
) -> Columns:
    read, write, *flop = (work.demands[numbers, place : place + 1] for place in range(len(DEMANDS)))
    return Columns(
        read_bytes=read,
        write_bytes=write,
        # Operands may hold more than is read of them (an embedding's table).
        hot_read_bytes=np.minimum(hot_read[numbers], read),
        hot_write_bytes=np.minimum(hot_write[numbers], write),
        footprint_bytes=read + write,
        flop_floor_s=flop_floor[numbers],
        matrix_flop=flop[0],
        vector_flop=flop[1],
        special_flop=flop[2],
        extra={name: features[:, place : place + 1] for place, name in enumerate(mechanism.columns)},
    )


def _column(values: list[float]) -> np.ndarray:
    return np.array(values, float)[:, None]


def _arithmetic(work: PreparedRows, device: Device, settings: int) -> tuple[np.ndarray, tuple[str, ...]]:
    """Seconds that each row keeps its busiest engine at theoretical peaks, and the name of that engine."""
    base: list[float] = []
    engines: list[str] = []
    by_flop: dict[tuple[Flop, ...], tuple[float, str]] = {}
    peaks = Peaks(device.machine)
    for row in work.rows:
        flop = row.cost.flop if row.cost else ()
        slowest_term = by_flop.get(flop)
        if slowest_term is None:
            terms, _ = compute_terms(flop, peaks)
            slowest = max(terms, key=lambda term: term.seconds, default=Term("compute", 0.0))
            slowest_term = by_flop[flop] = (slowest.seconds, slowest.name)
        base.append(slowest_term[0])
        engines.append(slowest_term[1])
    return _column(base) / device.faster * np.ones((1, settings)), tuple(engines)


def _floor(work: PreparedRows, device: Device, flop_floor: np.ndarray) -> np.ndarray:
    """Theory alone: arithmetic, and the bytes that cannot have been in a cache, through memory."""
    nbytes = work.demands[:, :1] + work.demands[:, 1:2]
    must = np.maximum(nbytes - device.kept_bytes, 0.0) if device.warm else nbytes
    return np.maximum(flop_floor, must / device.memory_bytes_per_s)
