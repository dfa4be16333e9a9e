"""Optimiser steps that run as one pass over parameters, gradients and states."""

from __future__ import annotations

from rooflab.errors import UnknownNameError
from rooflab.types.work import Cost
from rooflab.work.formulas.cost_terms import compute_dtype, cost_of, scalar_flop, total_bytes
from rooflab.work.formulas.registry import Attrs, Specs, formula

# function: (vector, special) per parameter, without options.
STEPS: dict[str, tuple[int, int]] = {
    "sgd": (2, 0),  # p − lr·g
    # m: 3, v: 4, sqrt(v)/√(1 − β₂ᵗ) + eps: 1 and 2 special, p − step·m/that: 2 and 1 special
    "adam": (10, 3),
    "adamw": (11, 3),  # and p·(1 − lr·decay)
    "adagrad": (5, 2),  # s + g·g; p − lr·g/(sqrt(s) + eps)
    "rmsprop": (7, 2),  # v: 4; p − lr·g/(sqrt(v) + eps): 3 and 2 special
    "adamax": (9, 1),  # m: 3; max(β₂·u, |g| + eps): 4; p − lr·m/u: 2 and 1 special
    "lion": (10, 0),  # β₁·m + (1 − β₁)·g 3, sign 1, p·(1 − lr·decay) − lr·…: 3, m: 3
}


@formula("optimizer")
def optimizer(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of one fused optimiser step: everything read once, parameters and states written once.

    FLOP per parameter from the table `STEPS`: Kingma and Ba, arXiv:1412.6980; Loshchilov and Hutter,
    arXiv:1711.05101; the arithmetic as PyTorch's fused kernels write it. Momentum (SGD) 2 more (3 with
    dampening), Nesterov 2, weight decay added to the gradient 2 (AdamW: counted), AMSGrad 1, maximize 1.
    An unfused step (foreach) is many element-wise passes and is captured as these.

    Args:
        inputs: parameters, gradients, states …. outputs: parameters, states ….
        attrs: function; elements: parameters in total (default: the first input's); momentum, dampening,
            nesterov, weight_decay, amsgrad, maximize (False or 0).

    Raises:
        UnknownNameError: another function.
    """
    name = attrs["function"]
    if name not in STEPS:
        raise UnknownNameError("optimiser", name, STEPS)
    vector, special = STEPS[name]
    if attrs.get("momentum"):
        vector += 3 if attrs.get("dampening") else 2
    if attrs.get("nesterov"):
        vector += 2
    if attrs.get("weight_decay") and name not in ("adamw", "lion"):
        vector += 2
    vector += bool(attrs.get("amsgrad")) + bool(attrs.get("maximize"))
    elements = attrs.get("elements", inputs[0].elements)
    read, write = total_bytes(inputs), total_bytes(outputs)
    return cost_of(
        scalar_flop(compute_dtype(inputs), vector * elements, special * elements),
        read=read,
        write=write,
        loaded=read,
        note="one fused pass",
    )
