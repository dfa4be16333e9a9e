"""What of a program's predicted time a kernel's own may leave out: pauses between kernels, programs fetched."""

from __future__ import annotations

from rooflab.model.device import cache_residency
from rooflab.model.device.device import device_of
from rooflab.model.program import op_times
from rooflab.types.machine import Machine
from rooflab.types.prediction import Prediction
from rooflab.types.report import Report
from rooflab.types.setting import Setting


def between_kernels_s(machine: Machine, setting: Setting) -> float:
    """Seconds from the end of a kernel to the start of the next on `machine`; 0 where no device is launched on."""
    if machine.kind != "gpu":
        return 0.0
    device = device_of(machine, cache=setting.cache, power=setting.power, constants=setting.constants)
    return float(device.constants("passes.pause_s"))


def within(prediction: Prediction, pause_s: float) -> float:
    """The seconds of `prediction` that are pauses of `pause_s`: no more than its overhead, none of its floor."""
    pauses = pause_s * prediction.kernels
    return max(0.0, min(pauses, prediction.overhead_s, prediction.time_s - prediction.floor_s))


def fetching_s(report: Report, machine: Machine, setting: Setting, pause_s: float) -> list[float]:
    """By row of a predicted report, seconds in which its kernels fetch their programs, another having run before.

    Predictions are fitted to replayed graphs, from start to start. Whether a kernel's own time has begun by
    then is not known: it may show all of this, a part, or none.
    """
    found = [0.0] * len(report.rows)
    if machine.kind != "gpu":
        return found
    device = device_of(machine, cache=setting.cache, power=setting.power, constants=setting.constants)
    work = op_times.prepare(report.graph, report.rows)
    each = cache_residency.program_fetch_s(work.switches, device)[:, 0]
    for number, row, seconds in zip(work.index.tolist(), work.rows, each.tolist(), strict=True):
        one = row.prediction
        if one is not None:
            left_s = min(one.overhead_s, one.time_s - one.floor_s) - within(one, pause_s)
            found[number] = max(0.0, min(seconds * one.kernels, left_s))
    return found
