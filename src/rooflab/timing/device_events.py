"""Calls whose work a GPU does, timed by events in its queue, with its L2 as it is or written over before each."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from rooflab.timing.careful import Blocks, Sample, grouped

_LEAST_FLUSH_BYTES = 256 * 2**20  # what is written where the device does not say how large its L2 is
_TIMES = 4  # what is written over the L2


def on_cuda(values: Any) -> Any:
    """The CUDA (or ROCm) device of the first tensor or module of PyTorch among `values` on one; else None."""
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return None
    for value in values:
        tensors = [value] if isinstance(value, torch.Tensor) else []
        if isinstance(value, torch.nn.Module):
            tensors = [*value.parameters(), *value.buffers()]
        for one in tensors:
            if one.device.type == "cuda":
                return one.device
    return None


def event_sampler(call: Callable[[], object], device: Any) -> Sample:
    """A function that gives the seconds of so many calls in a row, between two events in the device's queue.

    Where the host queues more slowly than the device works, it is the host's time.
    """
    torch: Any = sys.modules["torch"]

    def sample(calls: int) -> float:
        with torch.cuda.device(device):
            start, end = _events(torch)
            torch.cuda.synchronize()
            start.record()
            for _ in range(calls):
                call()
            end.record()
            end.synchronize()
        return start.elapsed_time(end) / 1e3  # of milliseconds

    return sample


def cold_blocks(
    call: Callable[[], object],
    device: Any,
    *,
    span_s: float,
    limit_s: float = 60.0,
    clock: Callable[[], float] = time.perf_counter,
) -> Blocks:
    """Calls one by one between events, the L2 written over before each, for `span_s`; at least 5.

    While the device writes, the host has queued the call, so that the time is the device's alone.

    Args:
        call: what is timed; it returns when its work is queued.
        device: of PyTorch.
        span_s: after which no call begins.
        limit_s: the same, however few there are, the first excepted.
        clock: returns seconds.
    """
    torch: Any = sys.modules["torch"]
    begun, each = clock(), []
    with torch.cuda.device(device):
        size = max(_LEAST_FLUSH_BYTES, _TIMES * (getattr(_properties(torch, device), "L2_cache_size", 0) or 0))
        buffer = torch.empty(size // 4, dtype=torch.int32, device=device)
        while not each or (clock() - begun < limit_s and (len(each) < 5 or clock() - begun < span_s)):
            start, end = _events(torch)
            buffer.zero_()
            start.record()
            call()
            end.record()
            end.synchronize()
            each.append(start.elapsed_time(end) / 1e3)
    return grouped(each)


def wait(device: Any) -> None:
    """Return when the device has done all that was queued."""
    torch: Any = sys.modules["torch"]
    torch.cuda.synchronize(device)


def _events(torch: Any) -> tuple[Any, Any]:
    return torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)


def _properties(torch: Any, device: Any) -> Any:
    return torch.cuda.get_device_properties(device)
