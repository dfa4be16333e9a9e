"""A kernel that several operations were fused into: their FLOP, and the bytes that enter and leave it."""

from __future__ import annotations

from rooflab.types.work import Cost, Flop
from rooflab.work.formulas.cost_terms import cost_of
from rooflab.work.formulas.registry import Attrs, Specs, formula

FUSED = "fused"


@formula(FUSED)
def fused(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of a fused kernel, which whoever fused it has added up: results between members stay inside.

    An operation of any other kind that has `members` among its attributes is counted here too: its kind
    says how the kernel behaves (a "norm" with what was fused into it still is one).

    Args:
        inputs: what it reads from outside. outputs: what it hands on.
        attrs: members: names of the operations inside; flop: (engine, dtype, count, accumulate) of each kind
            of arithmetic; read_bytes, write_bytes: to and from outside; access; rows: sums side by side, if any.
    """
    return cost_of(
        tuple(Flop(*one) for one in attrs["flop"]),
        read=attrs["read_bytes"],
        write=attrs["write_bytes"],
        loaded=attrs["read_bytes"],
        access=attrs.get("access", "stream"),
        note=f"{len(attrs['members'])} operations in one kernel: what they hand to each other stays inside",
    )
