"""Windows of elements to one and back: pooling and resampling; transforms that cross memory a few times."""

from __future__ import annotations

import math

from rooflab.model.kernels.common import Features, Mechanism, Specs
from rooflab.model.kernels.gpu import passes
from rooflab.model.kernels.gpu.passes import CODE, Pass
from rooflab.types.work import Cost, Op, TensorSpec

KINDS = ("pool", "pool_backward", "interpolate", "interpolate_backward", "fft")
_TAP_INSTRUCTIONS = 23.0  # of one element of a window: its 64-bit address, its bounds, the comparison
_TAPS = {"nearest": 1, "linear": 2, "bilinear": 4, "trilinear": 8, "bicubic": 16}
_CROSSING = 12.0  # stages of a transform that one pass through shared memory takes: 4096 points


def features(op: Op, inputs: Specs, outputs: Specs, cost: Cost) -> Features | None:
    """One pass with a thread per result; transforms: one per factor that fits in shared memory."""
    if not inputs or not outputs:
        return None
    traffic = cost.compulsory
    moved = {"read_bytes": traffic.read_bytes, "write_bytes": traffic.write_bytes}
    out = outputs[0]
    if op.kind == "fft":
        lengths = op.attrs["n"] if isinstance(op.attrs["n"], tuple) else (op.attrs["n"],)
        crossings = sum(max(1, math.ceil(math.log2(max(n, 2)) / _CROSSING)) for n in lengths)
        size = max(inputs[0].nbytes, out.nbytes)
        return passes.flat(
            1,
            Pass(
                code=CODE["transform"],
                elements=float(max(inputs[0].elements, out.elements)) * crossings,
                inner_bytes=2.0 * size * (crossings - 1),
                inner_size_bytes=size,
                starts=float(crossings),
                **moved,
            ),
        )
    if op.kind == "interpolate" and op.attrs.get("mode") == "bilinear" and len(inputs[0].shape) == 4:
        bilinear = _bilinear(inputs[0], out)
        if bilinear is not None:
            return passes.flat(1, bilinear._replace(**moved))
    if op.kind == "pool" and str(op.attrs.get("function", "")).startswith("adaptive"):
        window = inputs[0].elements / max(out.elements, 1)
    else:
        window = float(op.attrs.get("window") or _TAPS.get(op.attrs.get("mode", ""), 1))
    backward = op.kind in ("pool_backward", "interpolate_backward")
    return passes.flat(
        1,
        Pass(
            code=CODE["pool_gradient" if backward else "pool"],
            elements=float(out.elements),
            instructions=0.0 if backward else _TAP_INSTRUCTIONS * window,
            blocks=out.elements / 2048.0,
            **moved,
        ),
    )


def _bilinear(x: TensorSpec, out: TensorSpec) -> Pass | None:
    """PyTorch's copy of an image that keeps its size, or its kernel for channels last; None for others."""
    if x.shape[2:] == out.shape[2:]:
        return Pass(code=CODE["vectorized"], elements=float(out.elements), blocks=out.elements / 16384.0)
    if out.strides is not None and out.strides[1] == 1:
        return Pass(code=CODE["resample_last"], elements=float(out.elements), blocks=out.elements / 2048.0)
    return None


MECHANISM = Mechanism("window", ("gpu",), KINDS, passes.columns(1), features, passes.timer(1, "window"))
