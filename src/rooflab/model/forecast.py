"""A report with its predictions on a machine: rows, whole program, error bars, what binds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from rooflab.model import device as devices
from rooflab.model import overhead, plain, predict
from rooflab.model.device import Device
from rooflab.model.predict import Times, Work
from rooflab.model.roofline import BALANCED
from rooflab.types.machine import Machine
from rooflab.types.prediction import Bound, Prediction, Setting
from rooflab.types.report import Report

# Four of five measured times shall lie within the bars: 1.28 standard deviations each way of ln(time).
BAR_SIGMAS = 1.28
# How much the errors of the rows of one program agree: the square of the total's spread lies this far
# between that of independent rows and that of rows that are all wrong the same way.
SHARED = 0.5


def on(report: Report, machine: Machine, setting: Setting) -> Report:
    """`report` with every row predicted on `machine` as `setting` says, and the whole program."""
    device = devices.of(machine, cache=setting.cache, power=setting.power, knobs=setting.what_if)
    bounded = plain.on(report, machine)
    work = predict.prepare(report.graph, report.rows)
    found = predict.times(work, device)
    counts = np.array([row.op.count for row in work.rows], float)
    waits, host = np.zeros(len(work.rows)), np.zeros(len(work.rows))
    if setting.mode == "eager":
        waits, host = _eager(report, work, found, device, setting, counts)
    each = _predictions(work, found, device, counts, waits, host)
    rows = list(bounded.rows)
    for number, prediction in zip(work.index, each, strict=True):
        rows[number] = msgspec.structs.replace(
            rows[number], prediction=prediction, bound=prediction.bound, binds=prediction.binds
        )
    spreads = found.kernels.spread[:, 0] * device.constants.wider
    return msgspec.structs.replace(
        bounded, rows=tuple(rows), setting=setting, prediction=_whole(each, spreads, report)
    )


def _eager(
    report: Report, work: Work, found: Times, device: Device, setting: Setting, counts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """How long the device waits for the host before each row, and the host's time for each row."""
    host_s = _dispatch_s(device.machine, setting) * device.factor["dispatch"]
    host = host_s * counts
    queues = overhead.queues(host, found.kernels.time_s[:, :1] * counts[:, None])
    return queues.wait_s[:, 0], host


def _dispatch_s(machine: Machine, setting: Setting) -> Any:
    if setting.dispatch_s is not None:
        return setting.dispatch_s
    known = [each.dispatch_s for each in machine.runtimes if each.dispatch_s is not None]
    return known[0] if known else 10e-6


def _predictions(
    work: Work, found: Times, device: Device, counts: np.ndarray, waits: np.ndarray, host: np.ndarray
) -> list[Prediction]:
    k = found.kernels
    made = []
    for n in range(len(work.rows)):
        times = float(counts[n])
        spread = float(k.spread[n, 0]) * device.constants.wider
        device_s, floor_s = float(k.time_s[n, 0]) * times, float(found.floor_s[n, 0]) * times
        factor = float(np.exp(BAR_SIGMAS * spread))
        wait = float(waits[n])
        memory = {
            device.near_name: float(k.near_s[n, 0]) * times,
            device.cache_name: float(k.cache_s[n, 0]) * times,
            device.memory_name: float(k.memory_s[n, 0]) * times,
        }
        compute, over = float(k.compute_s[n, 0]) * times, float(k.overhead_s[n, 0]) * times + wait
        bound, binds = _bound(compute, found.engines[n], memory, over, "host" if wait > over / 2 else "launch")
        made.append(
            Prediction(
                time_s=device_s + wait,
                low_s=max(floor_s, device_s / factor + wait),
                high_s=device_s * factor + wait,
                floor_s=floor_s,
                compute_s=compute,
                memory_s=memory,
                overhead_s=over,
                bound=bound,
                binds=binds,
                host_s=float(host[n]),
                kernels=float(k.kernels[n, 0]) * times,
            )
        )
    return made


def _bound(
    compute: float, engine: str, memory: Mapping[str, float], overhead_s: float, overhead_name: str
) -> tuple[Bound, str]:
    """What binds by three terms: compute, the slowest level, overhead; balanced where two are close."""
    level = max(memory, key=lambda name: memory[name])
    terms: list[tuple[float, Bound, str]] = [
        (memory[level], "memory-bound", level),
        (compute, "compute-bound", engine),
        (overhead_s, "overhead-bound", overhead_name),
    ]
    terms.sort(key=lambda term: -term[0])
    if terms[1][0] >= BALANCED * terms[0][0]:
        return "balanced", terms[0][2]
    return terms[0][1], terms[0][2]


def _whole(rows: list[Prediction], spreads: np.ndarray, report: Report) -> Prediction | None:
    """The program: its rows one after the other."""
    if not rows:
        return None
    levels = list(rows[0].memory_s)
    memory = {name: sum(row.memory_s[name] for row in rows) for name in levels}
    compute, over = sum(row.compute_s for row in rows), sum(row.overhead_s for row in rows)
    time_s, floor_s = sum(row.time_s for row in rows), sum(row.floor_s for row in rows)
    errors = spreads * np.array([row.time_s for row in rows])
    together, apart = float(errors.sum()) ** 2, float((errors**2).sum())
    spread = float(np.sqrt(SHARED * together + (1 - SHARED) * apart)) / time_s if time_s else 0.0
    factor = float(np.exp(BAR_SIGMAS * spread))
    slowest = max(rows, key=lambda row: row.compute_s)
    host = max(rows, key=lambda row: row.overhead_s)
    engine = slowest.binds if slowest.bound == "compute-bound" else "compute"
    bound, binds = _bound(compute, engine, memory, over, host.binds if host.bound == "overhead-bound" else "launch")
    return Prediction(
        time_s=time_s,
        low_s=max(floor_s, time_s / factor),
        high_s=time_s * factor,
        floor_s=floor_s,
        compute_s=compute,
        memory_s=memory,
        overhead_s=over,
        bound=bound,
        binds=binds,
        host_s=sum(row.host_s for row in rows),
        kernels=sum(row.kernels for row in rows),
    )
