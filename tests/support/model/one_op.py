"""One operation from shapes, and its predicted time on a device: what the tests of kernel models share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import rooflab
from rooflab.dtypes import dtype
from rooflab.model.device.device import Device, device_of
from rooflab.model.program import op_times
from rooflab.model.program.op_times import OpTimes
from rooflab.types.report import Row
from rooflab.types.work import Graph, Op, TensorSpec
from rooflab.work.formulas import cost

H200 = rooflab.machine("h200")
WARM = device_of(H200)
COLD = device_of(H200, cache="cold")


def tensor(*shape: int, of: str = "fp32", strides: tuple[int, ...] | None = None, storage: int = -1) -> TensorSpec:
    """A tensor, its bytes those of its elements; an expanded dimension (stride 0) counts once."""
    sizes = [size for size, step in zip(shape, strides or (1,) * len(shape), strict=True) if step]
    return TensorSpec(shape, of, math.prod(sizes) * dtype(of).nbytes, storage, strides)


def timed(
    kind: str,
    inputs: tuple[TensorSpec, ...],
    outputs: tuple[TensorSpec, ...],
    attrs: Mapping[str, Any] | None = None,
    device: Device = WARM,
) -> OpTimes:
    """All that is predicted of one operation run again and again."""
    tensors = (*inputs, *outputs)
    places = tuple(range(len(tensors)))
    op = Op(
        name=kind, kind=kind, inputs=places[: len(inputs)], outputs=places[len(inputs) :], attrs=dict(attrs or {})
    )
    row = Row(op=op, cost=cost(kind, inputs, outputs, attrs))
    work = op_times.prepare(Graph(framework="hand", tensors=tensors, ops=(op,)), (row,))
    return op_times.predict_times(work, device)


def seconds(
    kind: str,
    inputs: tuple[TensorSpec, ...],
    outputs: tuple[TensorSpec, ...],
    attrs: Mapping[str, Any] | None = None,
    device: Device = WARM,
) -> float:
    """Its time."""
    return float(timed(kind, inputs, outputs, attrs, device).kernels.time_s[0, 0])
