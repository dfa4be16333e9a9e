"""Predictions of a program's rows and of the whole: terms, floor, bars, what binds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rooflab.model import collectives
from rooflab.model.device.device import Device
from rooflab.model.program import error_bars
from rooflab.model.program.error_bars import Parts
from rooflab.model.program.op_times import OpTimes
from rooflab.model.roofline import roofline
from rooflab.types.prediction import Prediction


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


def row_columns(
    times: OpTimes, counts: np.ndarray, wait_s: np.ndarray, host_s: np.ndarray, parts: Parts
) -> RowColumns:
    """What is predicted of every row that executes `counts` times.

    `wait_s` is how long the device waits for the host before each, `host_s` the host's own time.
    """
    k = times.kernels
    floor_s = times.floor_s[:, 0] * counts
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
        host_s=host_s,
        kernels=k.kernels[:, 0] * counts,
    )


def level_names(device: Device) -> tuple[str, str, str]:
    """What the levels behind `near_s`, `cache_s` and `memory_s` are called: two may have one name."""
    return device.near_name, device.cache_name, device.memory_name


def of_rows(device: Device, times: OpTimes, columns: RowColumns) -> list[Prediction]:
    """The prediction of every row."""
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


def of_program(rows: list[Prediction], parts: Parts, floor_s: float) -> Prediction | None:
    """The program: its rows one after the other, and no faster than `floor_s`."""
    if not rows:
        return None
    levels = dict.fromkeys(name for row in rows for name in row.memory_s)
    memory = {name: sum(row.memory_s.get(name, 0.0) for row in rows) for name in levels}
    time_s = max(sum(row.time_s for row in rows), floor_s)
    bars = error_bars.bars_of_program(parts)
    bound, binds = _binding(rows)
    return Prediction(
        time_s=time_s,
        low_s=min(time_s, max(floor_s, float(bars.low_s[0]))),
        high_s=max(time_s, float(bars.high_s[0])),
        floor_s=floor_s,
        compute_s=sum(row.compute_s for row in rows),
        memory_s=memory,
        overhead_s=sum(row.overhead_s for row in rows),
        bound=bound,
        binds=binds,
        host_s=sum(row.host_s for row in rows),
        kernels=sum(row.kernels for row in rows),
    )


def _binding(rows: list[Prediction]) -> roofline.Verdict:
    """What binds the operations that take most of the program's time.

    Not the largest sum of one term over all rows: most of that may be hidden behind other terms, and making it
    smaller would gain nothing. Balanced, too, where most of the time is that of balanced operations.
    """
    levels = dict.fromkeys((name for row in rows for name in row.memory_s), 0.0)
    over = {"launch": 0.0, "host": 0.0}
    engines: dict[str, float] = {}
    for row in rows:
        kind = levels if row.binds in levels else over if row.binds in over else engines
        kind[row.binds] = kind.get(row.binds, 0.0) + row.time_s
    (level, engine, start) = (max(kind, key=kind.__getitem__, default="") for kind in (levels, engines, over))
    sums = (sum(kind.values()) for kind in (engines, levels, over))
    compute_s, memory_s, overhead_s = sums
    found = roofline.verdict(compute_s, engine, {level: memory_s}, overhead_s, start)
    balanced_s = sum(row.time_s for row in rows if row.bound == "balanced")
    whole_s = compute_s + memory_s + overhead_s
    return roofline.Verdict("balanced", found.binds) if 2 * balanced_s > whole_s else found
