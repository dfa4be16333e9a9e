"""What a floor counts arithmetic at: the theoretical peak of the device's matrix engine."""

from __future__ import annotations

from rooflab.model.device.device import Device
from rooflab.model.serving.kernels import Number


def states_peak(dtype: str, device: Device) -> bool:
    """Whether a floor may count arithmetic in `dtype`: of a CPU whose rate in it nobody states none is known.

    Its cores have products of narrow numbers that are two to eight times as quick as those of fp32.
    """
    return device.machine.kind != "cpu" or dtype == "fp32" or device.peak("matrix", dtype)[0] is not None


def peak_s(flop: Number, dtype: str, device: Device) -> tuple[Number, str]:
    """Seconds of `flop` at the theoretical peak of the device's matrix engine in `dtype`, and that engine's name.

    A format without a peak of its own is widened to bf16, then fp16 and fp32, as engines do.
    """
    for each in (dtype, "bf16", "fp16", "fp32"):
        peak, name = device.peak("matrix", each)
        if peak is not None:
            return flop / peak, name
    return 0.0 * flop, f"{dtype} matrix"
