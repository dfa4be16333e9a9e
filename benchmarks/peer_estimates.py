"""What peers estimate for the same work: PyTorch's roofline cost model with this GPU's datasheet numbers."""

from __future__ import annotations

import math
from typing import Any

import torch
from measured import Case

# torch.utils._runtime_estimation asks the driver for peak and bandwidth: without a GPU they are given here.
from torch.utils import _runtime_estimation as peer
from torch.utils._python_dispatch import TorchDispatchMode


class _Recorder(TorchDispatchMode):
    """Adds up what PyTorch's own functions say each operation takes."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func._overloadpacket in peer._VIEW_OPS:
            return out
        flat, _ = torch.utils._pytree.tree_flatten((args, kwargs))
        results, _ = torch.utils._pytree.tree_flatten(out)
        transfer = peer.get_transfer_time(flat, results) / 1e9
        compute = peer.get_compute_time(func._overloadpacket, args, kwargs or {}, out, _dtypes(results)) / 1e9
        self.seconds += max(transfer, compute)
        return out


def _dtypes(results: list[Any]) -> set[torch.dtype]:
    return {each.dtype for each in results if isinstance(each, torch.Tensor)}


def runtime_estimator(case: Case) -> float | None:
    """Seconds by torch.utils._runtime_estimation (what RuntimeEstimator and inductor use); None if it fails."""
    if case.program is None:
        return None
    device = case.machine
    memory = device.level("memory").rate(basis="theoretical")
    peak = device.peak("bf16", engine="matrix")
    if memory is None or peak is None:
        return None
    peer.get_gpu_dram_gbps = lambda: memory.value / 1e9
    peer.get_device_tflops = lambda dtype: _tflops(device, dtype)
    try:
        with _Recorder() as seen, torch.no_grad():
            case.program()
    except (RuntimeError, KeyError, TypeError, AssertionError) as error:
        print(f"RuntimeEstimator cannot: {case.name}: {str(error).splitlines()[0][:80]}")
        return None
    return seen.seconds if math.isfinite(seen.seconds) and seen.seconds > 0 else None


def _tflops(device: Any, dtype: torch.dtype) -> float:
    name = {torch.bfloat16: "bf16", torch.float16: "fp16", torch.float64: "fp64"}.get(dtype, "fp32")
    rate = device.peak(name, engine="matrix") or device.peak(name)
    return rate.value / 1e12
