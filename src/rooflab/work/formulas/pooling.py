"""Pooling and interpolation: windows of elements to one."""

from __future__ import annotations

import math

from rooflab.errors import UnknownNameError
from rooflab.types.work import Cost
from rooflab.work.formulas.cost_terms import compute_dtype, cost_of, item_bytes, scalar_flop, total_bytes
from rooflab.work.formulas.registry import Attrs, Specs, formula

# (multiplications, taps): arithmetic per output element and the inputs it combines; coordinates are not FLOP.
MODES: dict[str, tuple[int, int]] = {
    "nearest": (0, 1),
    "linear": (3, 2),  # a + w·(b − a)
    "bilinear": (9, 4),  # three of these
    "trilinear": (21, 8),  # seven
    "bicubic": (35, 16),  # five sums of four products
}
POOLS = ("max", "avg", "adaptive_max", "adaptive_avg", "lp")


@formula("pool")
def pool(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of pooling: one comparison (max) or addition (avg) per window element.

    The maximum begins at −∞: a 3 × 3 window of fp16 with stride 1 has 9 FLOP / 4 bytes = 2.25 (NVIDIA: "GPU
    performance background"). Averages: one multiplication more per output; lp: square and root.
    Accessed bytes: the window per output element.

    Args:
        inputs: x. outputs: y[, indices].
        attrs: function; window: elements per output (default: x.elements / y.elements, rounded up, which is
            right for adaptive and unstrided windows without overlap).
    """
    name = _pool(attrs)
    x, y = inputs[0], outputs[0]
    window = attrs["window"] if not name.startswith("adaptive") or "window" in attrs else _ratio(x, y)
    per_output, special = {"max": (window, 0), "avg": (window + 1, 0), "lp": (2 * window, 1)}[_base(name)]
    return cost_of(
        scalar_flop(compute_dtype((x,), (y,)), per_output * y.elements, special * y.elements),
        read=total_bytes(inputs),
        write=total_bytes(outputs),
        loaded=window * y.elements * item_bytes(x),
        note="padding counted as elements of the window",
    )


@formula("pool_backward")
def pool_backward(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of pooling's gradient: max adds each grad at its index; avg adds grad/window over the window.

    Args:
        inputs: grad[, x …][, indices]: max reads grad and the last, avg grad alone. outputs: grad_x.
        attrs: as `pool`.
    """
    name = _pool(attrs)
    grad, grad_x = inputs[0], outputs[0]
    if _base(name) == "max":
        read = (grad, *inputs[-1:]) if len(inputs) > 1 else (grad,)
        per_grad, window = 1, 1
    else:
        read = (grad,)
        window = attrs["window"] if not name.startswith("adaptive") or "window" in attrs else _ratio(grad_x, grad)
        per_grad = window + 1
    return cost_of(
        scalar_flop(compute_dtype((grad,)), per_grad * grad.elements),
        read=total_bytes(read),
        write=grad_x.nbytes,
        loaded=sum(spec.elements * item_bytes(spec) for spec in read)
        + window * grad.elements * item_bytes(grad_x),
        stored=grad_x.nbytes + window * grad.elements * item_bytes(grad_x),
        access="gather" if _base(name) == "max" else "stream",
        note="zeros written, then added to",
    )


@formula("interpolate")
def interpolate(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of resampling: taps combined per output element as in the table `MODES`.

    Against aliasing a result weighs all the input that it stands for: rows of taps are summed, then their sums,
    a multiply-add each.

    Args:
        inputs: x[, grid: read once]. outputs: y.
        attrs: mode; taps: by dimension, against aliasing.
    """
    arithmetic, taps = _mode(attrs)
    x, y = inputs[0], outputs[0]
    return cost_of(
        scalar_flop(compute_dtype((x,), (y,)), arithmetic * y.elements),
        read=min(x.nbytes, taps * y.elements * item_bytes(x)) + total_bytes(inputs[1:]),
        write=total_bytes(outputs),
        loaded=taps * y.elements * item_bytes(x) + total_bytes(inputs[1:]),
        access="strided",
        note="coordinates and weights of taps are not counted",
    )


@formula("interpolate_backward")
def interpolate_backward(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of resampling's gradient: each grad multiplied by its weight and added at each tap."""
    _, taps = _mode(attrs)
    grad, grad_x = inputs[0], outputs[0]
    per_grad = 1 if taps == 1 else 2 * taps
    return cost_of(
        scalar_flop(compute_dtype((grad,)), per_grad * grad.elements),
        read=total_bytes(inputs),
        write=grad_x.nbytes,
        loaded=total_bytes(inputs) + taps * grad.elements * item_bytes(grad_x),
        stored=grad_x.nbytes + taps * grad.elements * item_bytes(grad_x),
        access="strided",
        note="coordinates and weights of taps are not counted",
    )


def _pool(attrs: Attrs) -> str:
    if attrs["function"] not in POOLS:
        raise UnknownNameError("pooling", attrs["function"], POOLS)
    return attrs["function"]


def _base(name: str) -> str:
    return name.removeprefix("adaptive_")


def _ratio(large, small) -> int:
    return -(-large.elements // small.elements) if small.elements else 0


def _mode(attrs: Attrs) -> tuple[int, int]:
    if attrs["mode"] not in MODES:
        raise UnknownNameError("interpolation", attrs["mode"], MODES)
    if "taps" in attrs:
        rows, taps = math.prod(attrs["taps"][:-1]), math.prod(attrs["taps"])
        return 2 * (taps + rows), taps
    return MODES[attrs["mode"]]
