"""Normalisations: layer, RMS, batch, group and instance, and their gradients; dropout."""

from __future__ import annotations

import math

from rooflab.errors import UnknownNameError
from rooflab.types.work import Cost
from rooflab.work.formulas.cost_terms import compute_dtype, cost_of, item_bytes, scalar_flop, total_bytes
from rooflab.work.formulas.registry import Attrs, Specs, formula

FUNCTIONS = ("layer", "rms", "batch", "group", "instance")


@formula("norm")
def norm(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of (x − mean)·rsqrt(var + eps)·weight + bias, fused: x read once, y written once.

    Per element: sum; subtract, square, add for the variance; subtract, multiply, and one each for weight
    and bias. RMS: square, add; multiply; weight. Per row (what shares a mean): a multiplication for each
    mean, eps added, one rsqrt. Batch norm that does not train: subtract, multiply, weight and bias only; in
    training 6 more per channel for the running statistics. Ba et al., arXiv:1607.06450; Zhang and Sennrich,
    arXiv:1910.07467; Ioffe and Szegedy, arXiv:1502.03167. Accessed bytes: three passes over x (mean,
    variance, result), two for RMS, one for given statistics; weight and bias per element.

    Args:
        inputs: x[, weight, bias, running mean, running variance]. outputs: y[, mean, rstd].
        attrs: function; training (batch: True); weight, bias (bool; default: whether inputs 1 and 2 are
            there); groups (group norm); rows (default: from the shapes).

    Raises:
        UnknownNameError: another function.
    """
    name = _function(attrs)
    x = inputs[0]
    affine = _affine(inputs[1:], attrs, name)
    rows = _rows(x.shape, inputs[1:], attrs, name)
    updates = 0
    if name == "rms":
        vector, passes, per_row = 3 + affine, 2, 2
    elif name == "batch" and not attrs.get("training", True):
        vector, passes, per_row = 2 + affine, 1, 1
    else:
        vector, passes, per_row = 6 + affine, 3, 3
        if name == "batch":
            updates = 6 * rows
    flop = scalar_flop(compute_dtype((x,), outputs), vector * x.elements + per_row * rows + updates, rows)
    write = total_bytes(outputs)
    if updates and len(inputs) - 1 - affine >= 2 and len(outputs) < 4:
        write += total_bytes(inputs[-2:])  # the running statistics, updated in place
    often = inputs[1:] if passes == 1 else inputs[1 : 1 + affine]  # loaded for each element
    loaded = x.elements * (passes * item_bytes(x) + sum(item_bytes(spec) for spec in often))
    loaded += total_bytes(inputs[1 + len(often) :])
    return cost_of(
        flop, read=total_bytes(inputs), write=write, loaded=loaded, stored=write, note="fused: x crosses once"
    )


@formula("norm_backward")
def norm_backward(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of a normalisation's gradients, fused: grad and x read once.

    Layer, group, instance and batch in training, per element: x̂ 2; grad_weight 2 and grad_bias 1 (those
    asked for); g·weight 1; the two sums 3; g − mean − x̂·mean', times rstd 4. Batch shares the sums with
    grad_weight and grad_bias. RMS: x̂ 1, grad_weight 2, g·weight 1, the sum 2, result 3. Per row: two
    multiplications (RMS one). Given statistics: x̂ 2, grad_weight 2, grad_bias 1, result 1.
    Accessed bytes: two passes over grad and x.

    Args:
        inputs: grad, x[, mean, rstd, weight …]. outputs: grad_x[, grad_weight, grad_bias].
        attrs: function; training (batch: True); weight (bool; default: more than one output), bias (bool;
            default: more than two outputs); groups, rows as `norm`.
    """
    name = _function(attrs)
    grad, x = inputs[:2]
    weight = bool(attrs.get("weight", len(outputs) > 1))
    bias = bool(attrs.get("bias", len(outputs) > 2)) and name != "rms"
    rows = _rows(x.shape, inputs[4:] if len(inputs) > 4 else inputs[2:], attrs, name)
    per_row = 2
    if name == "batch":
        training = attrs.get("training", True)
        vector = 9 if training else (2 + 2) * weight + bias + 1
        per_row = 2 if training else 1
    elif name == "rms":
        vector, per_row = 6 + 3 * weight, 1
    else:
        vector = 9 + 3 * weight + bias
    flop = scalar_flop(compute_dtype((grad, x)), vector * x.elements + per_row * rows)
    loaded = 2 * x.elements * (item_bytes(grad) + item_bytes(x)) + total_bytes(inputs[2:])
    return cost_of(
        flop,
        read=total_bytes(inputs),
        write=total_bytes(outputs),
        loaded=loaded,
        note="fused: grad and x cross once",
    )


@formula("dropout")
def dropout(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of y = x·mask·scale: 2 multiplications per element; the random numbers are integer work.

    Args:
        inputs: x. outputs: y[, mask].
        attrs: p is not needed: dropped elements are computed too.
    """
    x, y = inputs[0], outputs[0]
    return cost_of(
        scalar_flop(compute_dtype((x,), outputs), 2 * y.elements),
        read=total_bytes(inputs),
        write=total_bytes(outputs),
        loaded=sum(spec.elements * item_bytes(spec) for spec in inputs),
        note="mask drawn in the same pass",
    )


def _function(attrs: Attrs) -> str:
    name = attrs["function"]
    if name not in FUNCTIONS:
        raise UnknownNameError("normalisation", name, FUNCTIONS)
    return name


def _affine(rest: Specs, attrs: Attrs, name: str) -> int:
    """How many of weight and bias are applied."""
    weight = attrs.get("weight", len(rest) > 0)
    bias = attrs.get("bias", len(rest) > 1) and name != "rms"
    return int(bool(weight)) + int(bool(bias))


def _rows(shape: tuple[int, ...], rest: Specs, attrs: Attrs, name: str) -> int:
    """How many means are taken."""
    if "rows" in attrs:
        return attrs["rows"]
    elements = math.prod(shape)
    if name == "batch":
        return shape[1]
    if name == "instance":
        return shape[0] * shape[1]
    if name == "group":
        return shape[0] * attrs["groups"]
    width = rest[0].elements if rest else shape[-1]  # weight has the normalised shape
    return elements // width if width else 0
