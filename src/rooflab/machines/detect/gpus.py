"""NVIDIA GPUs through NVML: no library, no driver or no GPU means none known, with the reason.

Functions and units: NVML API reference, https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceQueries.html
(clocks in MHz, power in mW, memory in bytes).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from rooflab.machines.detect.host import Gpu

T = TypeVar("T")

# FP32 cores of one SM by compute capability: CUDA C++ Programming Guide, "Compute Capabilities", and for
# 5.x to 6.x its table of arithmetic throughput.
_CORES_OF_SM = {
    (5, 0): 128,
    (5, 2): 128,
    (5, 3): 128,
    (6, 0): 64,
    (6, 1): 128,
    (6, 2): 128,
    (7, 0): 64,
    (7, 2): 64,
    (7, 5): 64,
    (8, 0): 64,
    (8, 6): 128,
    (8, 7): 128,
    (8, 9): 128,
    (9, 0): 128,
    (10, 0): 128,
    (10, 3): 128,
    (12, 0): 128,
    (12, 1): 128,
}
_MHZ = 1e6


def read_gpus() -> tuple[tuple[Gpu, ...], str | None]:
    """The GPUs that the driver shows, and a sentence where there are none or some cannot be read."""
    try:
        import pynvml as nvml  # pyright: ignore[reportMissingImports]
    except ImportError:
        return (), "no NVIDIA GPUs known: the library nvidia-ml-py is not installed (extra 'cuda')"
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return (), f"no NVIDIA GPUs known: {error}"
    try:
        return _read_all(nvml)
    finally:
        nvml.nvmlShutdown()


def _read_all(nvml: Any) -> tuple[tuple[Gpu, ...], str | None]:
    try:
        count = nvml.nvmlDeviceGetCount()
    except nvml.NVMLError as error:
        return (), f"no NVIDIA GPUs known: {error}"
    driver = _text(_ask(nvml, nvml.nvmlSystemGetDriverVersion))
    gpus, failed = [], []
    for index in range(count):
        try:
            gpus.append(_read_one(nvml, index, driver))
        except nvml.NVMLError as error:
            failed.append(f"GPU {index} cannot be read: {error}")
    if failed:
        return tuple(gpus), "; ".join(failed)
    return tuple(gpus), None if gpus else "no NVIDIA GPUs: the driver shows none"


def _read_one(nvml: Any, index: int, driver: str | None) -> Gpu:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    capability = _ask(nvml, nvml.nvmlDeviceGetCudaComputeCapability, handle)
    memory = _ask(nvml, nvml.nvmlDeviceGetMemoryInfo, handle)
    sm_mhz = _ask(nvml, nvml.nvmlDeviceGetMaxClockInfo, handle, nvml.NVML_CLOCK_SM)
    memory_mhz = _ask(nvml, nvml.nvmlDeviceGetMaxClockInfo, handle, nvml.NVML_CLOCK_MEM)
    power_mw = _ask(nvml, nvml.nvmlDeviceGetEnforcedPowerLimit, handle)
    mig = _ask(nvml, nvml.nvmlDeviceGetMigMode, handle)
    compute_capability = (int(capability[0]), int(capability[1])) if capability else None
    return Gpu(
        index=index,
        name=_text(nvml.nvmlDeviceGetName(handle)) or f"GPU {index}",
        memory_bytes=int(memory.total) if memory is not None else None,
        sm_count=_sm_count(_ask(nvml, nvml.nvmlDeviceGetNumGpuCores, handle), compute_capability),
        compute_capability=compute_capability,
        max_sm_hz=sm_mhz * _MHZ if sm_mhz else None,
        max_memory_hz=memory_mhz * _MHZ if memory_mhz else None,
        memory_bus_bits=_ask(nvml, nvml.nvmlDeviceGetMemoryBusWidth, handle) or None,
        pcie_generation=_ask(nvml, nvml.nvmlDeviceGetMaxPcieLinkGeneration, handle) or None,
        pcie_width=_ask(nvml, nvml.nvmlDeviceGetMaxPcieLinkWidth, handle) or None,
        power_limit_w=power_mw / 1e3 if power_mw else None,
        driver=driver,
        mig=bool(mig[0]) if mig else None,
    )


def _ask(nvml: Any, question: Callable[..., T], *arguments: Any) -> T | None:
    """The answer, None where this card or driver doesn't know it ("not supported", an older driver)."""
    try:
        return question(*arguments)
    except nvml.NVMLError:
        return None


def _sm_count(cores: int | None, capability: tuple[int, int] | None) -> int | None:
    per_sm = _CORES_OF_SM.get(capability) if capability else None
    return cores // per_sm if cores and per_sm and cores % per_sm == 0 else None


def _text(value: str | bytes | None) -> str | None:
    """NVML's text: bytes from older bindings."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
