"""NVML through a stand-in: what a driver answers, refuses, or is not there to answer."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from rooflab.machines.detect import Gpu
from rooflab.machines.detect.gpus import read_gpus


class NVMLError(Exception):
    """As pynvml's."""


def driver(**changes: object) -> SimpleNamespace:
    """A driver with one H100; `changes` replace functions."""

    def max_clock(_handle: int, kind: int) -> int:
        return {1: 1980, 2: 2619}[kind]

    answers: dict[str, object] = {
        "NVMLError": NVMLError,
        "NVML_CLOCK_SM": 1,
        "NVML_CLOCK_MEM": 2,
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetCount": lambda: 1,
        "nvmlSystemGetDriverVersion": lambda: b"550.54.15",  # older bindings give bytes
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlDeviceGetName": lambda _handle: "NVIDIA H100 80GB HBM3",
        "nvmlDeviceGetMemoryInfo": lambda _handle: SimpleNamespace(total=85_520_809_984),
        "nvmlDeviceGetNumGpuCores": lambda _handle: 16896,
        "nvmlDeviceGetCudaComputeCapability": lambda _handle: (9, 0),
        "nvmlDeviceGetMaxClockInfo": max_clock,
        "nvmlDeviceGetMemoryBusWidth": lambda _handle: 5120,
        "nvmlDeviceGetMaxPcieLinkGeneration": lambda _handle: 5,
        "nvmlDeviceGetMaxPcieLinkWidth": lambda _handle: 16,
        "nvmlDeviceGetEnforcedPowerLimit": lambda _handle: 700_000,
        "nvmlDeviceGetMigMode": lambda _handle: [0, 0],
    }
    return SimpleNamespace(**{**answers, **changes})


def refuse(*_arguments: object) -> None:
    raise NVMLError("Not Supported")


def test_what_the_driver_says_of_a_gpu_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", driver())  # pyright: ignore[reportArgumentType]
    expected = Gpu(
        index=0,
        name="NVIDIA H100 80GB HBM3",
        memory_bytes=85_520_809_984,
        sm_count=132,  # 16,896 cores, 128 to an SM of compute capability 9.0
        compute_capability=(9, 0),
        max_sm_hz=1.98e9,
        max_memory_hz=2.619e9,  # × 2 bits a clock × 5120 bit / 8 = 3.35 TB/s
        memory_bus_bits=5120,
        pcie_generation=5,
        pcie_width=16,
        power_limit_w=700,
        driver="550.54.15",
        mig=False,
    )
    assert read_gpus() == ((expected,), None)


def test_what_the_driver_refuses_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = driver(nvmlDeviceGetMigMode=refuse, nvmlDeviceGetNumGpuCores=refuse, nvmlDeviceGetMaxClockInfo=refuse)
    monkeypatch.setitem(sys.modules, "pynvml", fake)  # pyright: ignore[reportArgumentType]
    (gpu,), note = read_gpus()
    assert (gpu.mig, gpu.sm_count, gpu.max_sm_hz, gpu.max_memory_hz) == (None, None, None, None)
    assert gpu.memory_bytes == 85_520_809_984
    assert note is None


def test_unknown_compute_capability_gives_no_sm_count(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = driver(nvmlDeviceGetCudaComputeCapability=lambda _handle: (99, 0))
    monkeypatch.setitem(sys.modules, "pynvml", fake)  # pyright: ignore[reportArgumentType]
    (gpu,), _ = read_gpus()
    assert gpu.sm_count is None


def test_a_lost_gpu_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def handle(index: int) -> int:
        if index == 1:
            raise NVMLError("GPU is lost")
        return index

    fake = driver(nvmlDeviceGetCount=lambda: 2, nvmlDeviceGetHandleByIndex=handle)
    monkeypatch.setitem(sys.modules, "pynvml", fake)  # pyright: ignore[reportArgumentType]
    found, note = read_gpus()
    assert len(found) == 1
    assert note == "GPU 1 cannot be read: GPU is lost"


@pytest.mark.parametrize(
    ("module", "note"),
    [
        (None, "no NVIDIA GPUs known: the library nvidia-ml-py is not installed (extra 'cuda')"),
        (driver(nvmlInit=refuse), "no NVIDIA GPUs known: Not Supported"),
        (driver(nvmlDeviceGetCount=refuse), "no NVIDIA GPUs known: Not Supported"),
        (driver(nvmlDeviceGetCount=lambda: 0), "no NVIDIA GPUs: the driver shows none"),
    ],
)
def test_without_a_driver_the_reason_is_given(
    monkeypatch: pytest.MonkeyPatch, module: SimpleNamespace | None, note: str
) -> None:
    # None in sys.modules makes the import fail, as where the library is not installed.
    monkeypatch.setitem(sys.modules, "pynvml", module)  # pyright: ignore[reportArgumentType]
    assert read_gpus() == ((), note)
