"""Small traces of PyTorch's profiler, written event by event."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

BASE_US = 4956303848445.5


def kernel(
    start_us: float, long_us: float, *, name: str = "k", correlation: int = 1, **args: Any
) -> dict[str, Any]:
    """A kernel on stream 7 of device 0."""
    more = {"device": 0, "stream": 7, "correlation": correlation, "grid": [8, 1, 1], "block": [128, 1, 1], **args}
    times = {"ts": BASE_US + start_us, "dur": long_us}
    return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, **times, "args": more}


def call(start_us: float, long_us: float, name: str, *, cat: str = "cpu_op", **args: Any) -> dict[str, Any]:
    """A call on the one thread of the host."""
    times = {"ts": BASE_US + start_us, "dur": long_us}
    return {"ph": "X", "cat": cat, "name": name, "pid": 411, "tid": 411, **times, "args": args}


def launch(
    start_us: float, *, correlation: int = 1, name: str = "cudaLaunchKernel", long_us: float = 2.0
) -> dict[str, Any]:
    """A call of CUDA's runtime on that thread."""
    return call(start_us, long_us, name, cat="cuda_runtime", correlation=correlation)


def text(*events: dict[str, Any], **others: Any) -> str:
    """The document of `events`."""
    return json.dumps({"schemaVersion": 1, **others, "traceEvents": list(events)})


def file(folder: Path, *events: dict[str, Any], **others: Any) -> Path:
    """A file of `events`."""
    path = folder / "trace.json"
    path.write_text(text(*events, **others), encoding="utf-8")
    return path
