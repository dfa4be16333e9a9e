"""Recurrent networks: LSTM, GRU and simple cells over layers, directions and steps."""

from __future__ import annotations

from rooflab.errors import UnknownNameError
from rooflab.types.work import Cost
from rooflab.work.formulas.cost_terms import compute_dtype, cost_of, item_bytes, matrix, scalar_flop, total_bytes
from rooflab.work.formulas.registry import Attrs, Specs, formula

# cell: gates; vector operations per hidden unit and step, without and for biases; special ones.
CELLS: dict[str, tuple[int, int, int, int]] = {
    # 4 sums of two products; three sigmoids (2 + 2 special), two tanh; f·c + i·g 3; o·tanh(c) 1
    "lstm": (4, 14, 8, 8),
    # 2 sums, n: r·(…) + …: 2; two sigmoids, one tanh; (1 − z)·n + z·h 4
    "gru": (3, 12, 6, 5),
    "rnn_tanh": (1, 1, 2, 1),
    "rnn_relu": (1, 2, 2, 0),
}
# Per hidden unit and step, backward: from the gates that were kept (vector, special).
BACKWARD: dict[str, tuple[int, int]] = {
    # do 4, dc 5 with tanh(c) again, di 4, dg 4, df 4, dc of the step before 1
    "lstm": (22, 1),
    # dn 4, dz 5, dr 4, dh 3
    "gru": (16, 0),
    "rnn_tanh": (3, 0),
    "rnn_relu": (1, 0),
}


@formula("rnn")
def rnn(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of a recurrent network over a whole sequence: the same as a loop over its cells.

    Multiply-adds per layer and direction: steps × batch × gates × hidden × (input + recurrent), and hidden ×
    projection for an LSTM with a projection, which then is the recurrent size. Hochreiter and Schmidhuber,
    Neural Computation 9(8), 1997; Cho et al., arXiv:1406.1078. Per hidden unit the table `CELLS`.
    Compulsory bytes: inputs and weights once, outputs once: weights stay on chip from step to step and
    layers hand over on chip. Accessed: two operands per multiply-add, states stored at each step.

    Args:
        inputs: x[, h0, c0], weights …. outputs: y, states ….
        attrs: cell; hidden, input, steps, batch; layers (1), bidirectional (False), projection (0: none),
            bias (True); rows (of packed sequences: steps of all of them; overrides steps × batch); compute
            (number format of the products, where not x's).

    Raises:
        UnknownNameError: another cell.
    """
    cell = _cell(attrs)
    _, vector, biases, special = CELLS[cell]
    fma, units = _sizes(attrs, cell)
    if attrs.get("bias", True):
        vector += biases
    x = inputs[0]
    flop = matrix(fma, attrs.get("compute") or x.dtype) + scalar_flop(
        compute_dtype((x,)), vector * units, special * units
    )
    weight = item_bytes(inputs[-1])
    states = units * (2 if cell == "lstm" else 1) * item_bytes(x)
    return cost_of(
        flop,
        read=total_bytes(inputs),
        write=total_bytes(outputs),
        loaded=max(fma * (item_bytes(x) + weight) + states, total_bytes(inputs)),
        stored=max(states, total_bytes(outputs)),
        note="weights read once for all steps",
    )


@formula("rnn_backward")
def rnn_backward(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of a recurrent network's gradients: twice the forward products, and the table `BACKWARD`.

    Args:
        inputs: what was saved, weights and gradients: each read once. outputs: gradients.
        attrs: as `rnn`.
    """
    cell = _cell(attrs)
    vector, special = BACKWARD[cell]
    fma, units = _sizes(attrs, cell)
    x = inputs[0]
    flop = matrix(2 * fma, attrs.get("compute") or x.dtype) + scalar_flop(
        compute_dtype((x,)), vector * units, special * units
    )
    return cost_of(
        flop,
        read=total_bytes(inputs),
        write=total_bytes(outputs),
        loaded=max(4 * fma * item_bytes(x), total_bytes(inputs)),
        note="products for the input and the weights; gates kept from forward",
    )


def _cell(attrs: Attrs) -> str:
    if attrs["cell"] not in CELLS:
        raise UnknownNameError("recurrent cell", attrs["cell"], CELLS)
    return attrs["cell"]


def _sizes(attrs: Attrs, cell: str) -> tuple[int, int]:
    """(multiply-adds, hidden units × steps × batch) of all layers and directions."""
    gates = CELLS[cell][0]
    hidden, projection = attrs["hidden"], attrs.get("projection") or 0
    directions = 2 if attrs.get("bidirectional") else 1
    layers = attrs.get("layers", 1)
    recurrent = projection or hidden
    per_step = 0
    for layer in range(layers):
        wide = attrs["input"] if layer == 0 else recurrent * directions
        per_step += directions * (gates * hidden * (wide + recurrent) + hidden * projection)
    rows = attrs.get("rows", attrs["steps"] * attrs["batch"])
    return per_step * rows, rows * hidden * directions * layers
