"""Losses and their gradients."""

from __future__ import annotations

from rooflab.errors import UnknownNameError
from rooflab.types.work import Cost
from rooflab.work.formulas.cost_terms import compute_dtype, cost_of, item_bytes, scalar_flop, total_bytes
from rooflab.work.formulas.registry import Attrs, Specs, formula

# function: (vector, special) per element of the input, forward without the final sum, and backward.
ELEMENTWISE: dict[str, tuple[int, int, int, int]] = {
    "mse": (2, 0, 3, 0),  # (x − t)²; 2·(x − t)·g
    "l1": (2, 0, 3, 0),  # |x − t|; sign(x − t)·g
    "smooth_l1": (6, 0, 5, 0),  # d = |x − t|; d < β ? c·d·d : d − β/2
    "huber": (7, 0, 5, 0),  # d < δ ? ½·d·d : δ·(d − δ/2)
    "bce": (6, 2, 4, 1),  # −(t·log(x) + (1 − t)·log(1 − x)); g·(x − t)/(x·(1 − x))
    "bce_with_logits": (7, 2, 4, 2),  # max(x, 0) − x·t + log(1 + exp(−|x|)); (sigmoid(x) − t)·g
    "kl_div": (2, 1, 2, 0),  # t·(log(t) − x); −t·g
    "soft_margin": (3, 2, 5, 2),  # log(1 + exp(−t·x)); z = exp(−t·x), −t·z/(1 + z)·g
    "hinge_embedding": (3, 0, 4, 0),  # t = 1 ? x : max(0, margin − x)
    "poisson_nll": (2, 1, 2, 1),  # exp(x) − t·x; (exp(x) − t)·g
}


@formula("loss")
def loss(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of a loss, fused, or with backward=True of its gradient for the input.

    cross_entropy, per logit: max, subtract, add (vector), exp (special); per row log, and 3 to pick, negate
    and sum. Backward: exp(x − lse) − target, times g. nll reads only the picked element of each row (a
    gather) and, backward, writes a whole gradient of zeros but for these. Element-wise ones: the table
    `ELEMENTWISE`, and one addition per element for the sum unless reduction is "none", and a multiplication
    for the mean.

    Args:
        inputs: input, target[, weight]; backward: grad first. outputs: loss, or the input's gradient.
        attrs: function; backward (False); reduction "mean" (default), "sum" or "none".

    Raises:
        UnknownNameError: another function.
    """
    name, backward = attrs["function"], bool(attrs.get("backward"))
    operands = inputs[1:] if backward else inputs
    x, target = operands[0], operands[1]
    summed = attrs.get("reduction", "mean") != "none"
    if name == "nll":
        return _nll(inputs, operands, outputs, backward)
    if name == "cross_entropy":
        rows = target.elements if target.shape != x.shape else x.elements // x.shape[min(1, len(x.shape) - 1)]
        if backward:
            vector, special = 2 * x.elements + rows, x.elements
        else:
            vector, special = 3 * x.elements + 3 * rows, x.elements + rows
    elif name in ELEMENTWISE:
        per_vector, per_special, back_vector, back_special = ELEMENTWISE[name]
        if backward:
            vector, special = back_vector * x.elements, back_special * x.elements
        else:
            vector, special = (per_vector + summed) * x.elements, per_special * x.elements
            vector += attrs.get("reduction", "mean") == "mean"
    else:
        raise UnknownNameError("loss", name, ("nll", "cross_entropy", *ELEMENTWISE))
    passes = 3 if name == "cross_entropy" and not backward else 1
    loaded = total_bytes(inputs) + (passes - 1) * x.elements * item_bytes(x)
    return cost_of(
        scalar_flop(compute_dtype((x,)), vector, special),
        read=total_bytes(inputs),
        write=total_bytes(outputs),
        loaded=loaded,
        note="fused: input crosses once",
    )


def _nll(inputs: Specs, operands: Specs, outputs: Specs, backward: bool) -> Cost:
    """−x[row, target[row]], summed: one element of each row is touched."""
    x, target = operands[0], operands[1]
    rows = target.elements
    if backward:  # grad, (input: its shape only), target
        read = total_bytes((inputs[0], *operands[1:]))
        return cost_of(
            scalar_flop(compute_dtype((x,)), rows),
            read=read,
            write=total_bytes(outputs),
            loaded=read,
            access="gather",
            note="zeros written, one element per row set",
        )
    read = rows * item_bytes(x) + total_bytes(operands[1:])
    return cost_of(
        scalar_flop(compute_dtype((x,)), 2 * rows),
        read=read,
        write=total_bytes(outputs),
        loaded=read,
        access="gather",
        note="one element per row read",
    )
