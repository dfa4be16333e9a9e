"""Collectives: bytes on the wire per rank, and in its memory."""

from __future__ import annotations

from rooflab.errors import UnknownNameError
from rooflab.types.work import Cost
from rooflab.work.formulas.cost_terms import compute_dtype, cost_of, scalar_flop, total_bytes
from rooflab.work.formulas.registry import Attrs, Specs, formula

FUNCTIONS = (
    *("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", "gather", "scatter"),
    *("send", "recv", "permute", "barrier"),
)


@formula("collective")
def collective(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of a collective for one of n ranks: bytes it sends, and its memory read and written once.

    Sent by ring algorithms, per rank: all_reduce 2(n − 1)/n × bytes; all_gather and reduce_scatter
    (n − 1)/n × the full bytes (the gathered output, the input to scatter); all_to_all (n − 1)/n × bytes;
    broadcast and reduce bytes (pipelined along the ring); send and permute bytes; recv none. The factors of
    NCCL's PERFORMANCE.md (github.com/NVIDIA/nccl-tests); Patarasuk and Yuan, J. Parallel Distrib. Comput.
    69(2), 2009. A reduction adds (n − 1)/n × elements on each rank.

    Args:
        inputs: what this rank gives. outputs: what it gets.
        attrs: function; ranks.

    Raises:
        UnknownNameError: another function.
    """
    name, ranks = attrs["function"], attrs["ranks"]
    if name not in FUNCTIONS:
        raise UnknownNameError("collective", name, FUNCTIONS)
    given, got = total_bytes(inputs), total_bytes(outputs)
    others = (ranks - 1) / ranks if ranks else 0.0
    sent = {
        "all_reduce": 2 * others * given,
        "all_gather": others * got,
        "reduce_scatter": others * given,
        "all_to_all": others * given,
        "gather": others and given,
        "scatter": others * given,
        "recv": 0.0,
        "barrier": 0.0,
    }.get(name, given if ranks > 1 else 0.0)
    elements = sum(spec.elements for spec in inputs)
    added = others * elements if name in ("all_reduce", "reduce_scatter", "reduce") else 0
    return cost_of(
        scalar_flop(compute_dtype(inputs), added),
        read=given,
        write=got,
        loaded=given,
        wire_bytes=float(sent),
        note=f"ring algorithm over {ranks} ranks; buffers of the ring not counted",
    )
