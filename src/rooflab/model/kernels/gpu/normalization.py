"""Kernels that go over each row more than once: softmax, normalisations, and their gradients."""

from __future__ import annotations

import math

from rooflab.model.kernels.common import Features, Mechanism, Specs
from rooflab.model.kernels.gpu import passes, stream
from rooflab.model.kernels.gpu.passes import CODE, Pass
from rooflab.types.work import Cost, Op, TensorSpec

KINDS = ("softmax", "softmax_backward", "norm", "norm_backward")
_PASSES = 3
_WARP_ROW = 2048  # longest row that one warp keeps in registers (PyTorch's softmax_warp_forward)
_REGISTER_ROW = 9216  # longest that a block of 1024 threads does, at least 8 of its elements a thread
_NORM_STEP = 512.0  # elements that a block of 128 threads of a norm takes at once, 4 each
_NORM_WARP = 128.0  # of them, those of one warp: warps that have nothing of a row shorter than a step skip it
_NORM_RESIDENT = 16.0


def features(op: Op, inputs: Specs, outputs: Specs, cost: Cost) -> Features | None:
    """The passes of one operation over rows: which kernel PyTorch takes depends on their length."""
    if not inputs or not outputs:
        return None
    backward = op.kind in ("softmax_backward", "norm_backward")
    x = inputs[min(int(backward), len(inputs) - 1)]
    if op.kind in ("softmax", "softmax_backward"):
        return passes.flat(_PASSES, _softmax(op, x, cost))
    name = op.attrs.get("function")
    if name == "batch" or name == "instance":
        steps = _batch_gradient(x, cost) if backward else _batch(op, x, cost)
    elif name == "group":
        steps = _group(op, x, cost, backward)
    elif backward:
        steps = _row_gradient(x, inputs, outputs, cost)
    else:
        steps = (_row_norm(name, x, inputs, cost),)
    return passes.flat(_PASSES, *steps)


def _softmax(op: Op, x: TensorSpec, cost: Cost) -> Pass:
    length = x.shape[-1] if x.shape else 1
    rows = x.elements / length if length else 0.0
    traffic = cost.compulsory
    fits = {"elements": float(x.elements), "read_bytes": traffic.read_bytes, "write_bytes": traffic.write_bytes}
    if length <= _WARP_ROW:
        # 4 warps a block, a warp for one row, two where it is short.
        code = "softmax_warp" if length <= _WARP_ROW / 2 else "softmax_warp_long"
        return Pass(code=CODE[code], blocks=rows / (64 if length > 128 else 128), **fits)
    if length <= _REGISTER_ROW and op.kind == "softmax":
        return Pass(code=CODE["softmax_registers"], rows=rows, blocks=rows / 2, **fits)
    # Three passes over the row: maximum, sum, result; the gradient takes two.
    return Pass(
        code=CODE["softmax_block"],
        rows=rows,
        blocks=rows / 2,
        steps=math.ceil(length / 8192),
        again_bytes=(2.0 if op.kind == "softmax" else 1.0) * traffic.read_bytes,
        held_bytes=2.0 * x.nbytes / max(rows, 1.0),
        **fits,
    )


def _width(x: TensorSpec, inputs: Specs) -> float:
    """Elements of a row of a layer or RMS norm: its weight's."""
    weight = inputs[1].elements if len(inputs) > 1 else 0
    return float(weight if weight and x.elements % weight == 0 and weight > 1 else (x.shape[-1] if x.shape else 1))


def _row_norm(name: str | None, x: TensorSpec, inputs: Specs, cost: Cost) -> Pass:
    width = _width(x, inputs)
    rows = x.elements / width
    steps = math.ceil(width / _NORM_STEP)
    taken = _NORM_STEP if name == "rms" or steps > 1 else _NORM_WARP
    return Pass(
        code=CODE["rms_norm" if name == "rms" else "layer_norm"],
        elements=rows * math.ceil(width / taken) * taken,
        rows=rows,
        blocks=rows / _NORM_RESIDENT,
        steps=steps,
        again_bytes=x.nbytes,
        held_bytes=_NORM_RESIDENT * x.nbytes / max(rows, 1.0),
        read_bytes=cost.compulsory.read_bytes,
        write_bytes=cost.compulsory.write_bytes,
    )


def _row_gradient(x: TensorSpec, inputs: Specs, outputs: Specs, cost: Cost) -> tuple[Pass, ...]:
    """The gradient of the input, row by row; then those of weight and bias, column by column."""
    traffic = cost.compulsory
    width = float(x.shape[-1] if x.shape else 1)
    rows = x.elements / width if width else 0.0
    steps = math.ceil(width / _NORM_STEP)
    first = Pass(
        code=CODE["norm_gradient"],
        elements=float(x.elements),
        rows=rows,
        blocks=rows / _NORM_RESIDENT,
        steps=steps,
        again_bytes=2.0 * x.nbytes,
        held_bytes=2.0 * _NORM_RESIDENT * x.nbytes / max(rows, 1.0),
        read_bytes=traffic.read_bytes,
        write_bytes=traffic.write_bytes,
    )
    if len(outputs) < 2:
        return (first,)
    both = 2.0 * x.nbytes
    second = Pass(
        code=CODE["weight_gradient"],
        elements=float(x.elements),
        blocks=1.0,
        steps=rows / 256.0,  # 32 rows of threads take 8 rows each before the next step
        inner_bytes=both,
        inner_size_bytes=both,
    )
    return (first, second)


def _batch(op: Op, x: TensorSpec, cost: Cost) -> tuple[Pass, ...]:
    """Statistics of each channel (in training), then the result element by element."""
    traffic = cost.compulsory
    elements = float(x.elements)
    channels = float(x.shape[1]) if len(x.shape) > 1 else 1.0
    # Channels last: threads take neighbouring channels, 16 bytes at a time.
    last = x.strides is not None and len(x.shape) > 2 and x.strides[1] == 1
    transform = CODE["vectorized" if last else "batch_transform"]
    blocks = elements / 8192
    walked, threads = (elements, 0.0) if last else _plane_threads(x)
    if not op.attrs.get("training", True):
        return (
            Pass(
                code=transform,
                elements=walked,
                rows=threads,
                blocks=blocks,
                read_bytes=traffic.read_bytes,
                write_bytes=traffic.write_bytes,
                starts=3.0 if x.dtype in ("bf16", "fp16") else 2.0,  # variances converted, then inverted
            ),
        )
    statistics = Pass(code=CODE["reduce_columns"], elements=elements, read_bytes=traffic.read_bytes, starts=2.0)
    if not last:
        statistics = Pass(
            code=CODE["batch_statistics"],
            elements=elements,
            blocks=channels / 4.0,
            steps=elements / channels / 512.0,
            read_bytes=traffic.read_bytes,
        )
    return (
        statistics,
        Pass(
            code=transform,
            elements=walked,
            rows=threads,
            blocks=blocks,
            inner_bytes=x.nbytes,
            inner_size_bytes=x.nbytes,
            write_bytes=traffic.write_bytes,
        ),
    )


def _plane_threads(x: TensorSpec) -> tuple[float, float]:
    """Elements that batch norm's transformation walks over, idle threads' too, and the threads it starts.

    A block takes a channel of an image, with a thread for about four of its elements: a power of two, from the
    whole plane or 64 to 512 (`batch_norm_elemt_cuda_template` of ATen/native/cuda/Normalization.cuh).
    """
    plane = math.prod(x.shape[2:])
    planes = x.elements / plane if plane else 0.0
    threads = float(max(_power_of_two(plane / 4), min(_power_of_two(plane), 64)))
    return planes * math.ceil(plane / threads) * threads, planes * threads


def _power_of_two(count: float) -> int:
    """Threads that ATen takes for `count` elements (`getNumThreads`)."""
    return next((threads for threads in (32, 64, 128, 256) if count <= threads), 512)


def _batch_gradient(x: TensorSpec, cost: Cost) -> tuple[Pass, ...]:
    """One block a channel: two sums over it, then its gradient."""
    elements = float(x.elements)
    channels = float(x.shape[1]) if len(x.shape) > 1 else 1.0
    return (
        Pass(
            code=CODE["batch_gradient"],
            elements=elements,
            blocks=channels / 4.0,
            steps=elements / channels / 512.0,
            read_bytes=cost.compulsory.read_bytes,
            inner_bytes=2.0 * x.nbytes,
            inner_size_bytes=2.0 * x.nbytes,
            write_bytes=cost.compulsory.write_bytes,
        ),
    )


def _group(op: Op, x: TensorSpec, cost: Cost, backward: bool) -> tuple[Pass, ...]:
    """Moments of each group, then the result by a kernel whose operands are broadcast."""
    elements = float(x.elements)
    groups = float(op.attrs.get("groups") or 1) * (x.shape[0] if x.shape else 1)
    again = x.nbytes * (2.0 if backward else 1.0)
    return (
        Pass(
            code=CODE["moments"],
            elements=elements * (2.0 if backward else 1.0),
            blocks=groups / 4.0,
            steps=elements / groups / 512.0,
            read_bytes=cost.compulsory.read_bytes,
        ),
        Pass(
            code=CODE["strided"],
            elements=elements,
            instructions=2 * stream.programs()["division"],  # moments lie along two dimensions
            blocks=elements / 8192,
            inner_bytes=again,
            inner_size_bytes=again,
            write_bytes=cost.compulsory.write_bytes,
        ),
    )


MECHANISM = Mechanism(
    "normalization", ("gpu",), KINDS, passes.columns(_PASSES), features, passes.timer(_PASSES, "normalization")
)
