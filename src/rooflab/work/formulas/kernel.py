"""A fused kernel that its framework has counted already (tinygrad)."""

from __future__ import annotations

from rooflab.types.work import Cost
from rooflab.work.formulas.cost_terms import cost_of, matrix, scalar_flop, total_bytes
from rooflab.work.formulas.registry import Attrs, Specs, formula


@formula("kernel")
def kernel(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of a kernel from its own loops: operations and accesses counted by whoever wrote it.

    Args:
        inputs, outputs: with `nbytes` the distinct bytes that it touches of each.
        attrs: dtype: number format of the arithmetic; fma (0): multiply-adds of products of matrices;
            vector (0), special (0): other operations, in all; loaded, stored: bytes of all loads and stores.
    """
    name = attrs.get("dtype")
    flop = () if name is None else matrix(attrs.get("fma", 0), name)
    flop += scalar_flop(name, attrs.get("vector", 0), attrs.get("special", 0))
    return cost_of(
        flop,
        read=total_bytes(inputs),
        write=total_bytes(outputs),
        loaded=attrs.get("loaded"),
        stored=attrs.get("stored"),
        note="counted over the kernel's loops",
    )
