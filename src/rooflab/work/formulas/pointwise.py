"""Element-wise functions: so many operations per element, each operand read once, the result written once."""

from __future__ import annotations

from rooflab.errors import UnknownNameError
from rooflab.types.work import Cost
from rooflab.work.formulas.cost_terms import (
    compute_dtype,
    cost_of,
    is_complex,
    item_bytes,
    scalar_flop,
    total_bytes,
)
from rooflab.work.formulas.functions import COMPLEX, REAL
from rooflab.work.formulas.registry import Attrs, Specs, formula


@formula("pointwise")
def pointwise(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of a function of single elements, operands broadcast to the output's shape.

    FLOP per output element from the table `functions`, or as given. Compulsory bytes: operands once (a
    broadcast or expanded one: its own bytes), output once; in place is an operand and an output alike.
    Accessed bytes: one load of each operand and one store per output element.

    Args:
        inputs: operands. outputs: results.
        attrs: function (a name of the table), or vector and special: operations per output element;
            foreach: the outputs are tensors apart, each with operands of its own size.

    Raises:
        UnknownNameError: a function that the table does not have.
    """
    sizes = [spec.elements for spec in outputs]
    each = bool(attrs.get("foreach"))
    elements = sum(sizes) if each else max(sizes, default=0)
    vector, special = per_element(inputs, outputs, attrs)
    flop = scalar_flop(compute_dtype(inputs, outputs), vector * elements, special * elements)
    loaded = sum((spec.elements if each else max(elements, spec.elements)) * item_bytes(spec) for spec in inputs)
    stored = sum(spec.elements * item_bytes(spec) for spec in outputs)
    note = "one pass: operands read once, result written once"
    if not flop and (vector or special):
        note += "; integers, so no FLOP"
    return cost_of(
        flop, read=total_bytes(inputs), write=total_bytes(outputs), loaded=loaded, stored=stored, note=note
    )


def per_element(inputs: Specs, outputs: Specs, attrs: Attrs) -> tuple[float, float]:
    """Vector and special operations per output element."""
    if "vector" in attrs or "special" in attrs:
        return attrs.get("vector", 0), attrs.get("special", 0)
    name = attrs["function"]
    numbers = "complex" if any(is_complex(spec) for spec in (*inputs, *outputs)) else "real"
    table = COMPLEX if numbers == "complex" else REAL
    if name not in table:
        raise UnknownNameError(f"element-wise function of {numbers} numbers", name, table)
    return table[name]
