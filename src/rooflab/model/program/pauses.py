"""The pause between two kernels of a replayed graph: part of a program's time, of no kernel's own."""

from __future__ import annotations

from rooflab.model.device.device import device_of
from rooflab.types.machine import Machine
from rooflab.types.prediction import Prediction
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
