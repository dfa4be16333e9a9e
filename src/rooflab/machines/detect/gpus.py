"""NVIDIA GPUs through NVML: no library, no driver or no GPU means none known, with the reason."""

from __future__ import annotations

from rooflab.machines.detect.host import Gpu


def read_gpus() -> tuple[tuple[Gpu, ...], str | None]:
    """The GPUs that the driver shows, and a sentence where there are none or some are left out."""
    return (), "not looked for yet"
