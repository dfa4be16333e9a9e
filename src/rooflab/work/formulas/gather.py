"""Gathers and scatters: the rows that are touched, not the table they lie in."""

from __future__ import annotations

from rooflab.types.work import Cost
from rooflab.work.formulas.cost_terms import (
    compute_dtype,
    cost_of,
    is_complex,
    item_bytes,
    scalar_flop,
    total_bytes,
)
from rooflab.work.formulas.registry import Attrs, Specs, formula


@formula("gather")
def gather(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of looking rows up (embedding, index_select, gather, advanced indexing): no FLOP.

    Read: the elements that arrive in the output, and the indices; a row looked up twice is read twice, as
    indices are not known here. Written: the output.

    Args:
        inputs: table, indices …. outputs: out.
    """
    table = inputs[0]
    touched = sum(spec.elements for spec in outputs) * item_bytes(table)
    indices = total_bytes(inputs[1:])
    return cost_of(
        read=touched + indices,
        write=total_bytes(outputs),
        loaded=touched + indices,
        access="gather",
        note="rows touched, not the table; a row looked up twice is read twice",
    )


@formula("scatter")
def scatter(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of writing or adding values at indices (index_put, scatter_add, embedding's gradient).

    In place: touched elements written, and read first where they accumulate. Out of place: the base, where
    there is one, is copied (otherwise zeros are written), so the whole output is written. One addition per
    value that accumulates.

    Args:
        inputs: [base,] indices …, values. outputs: out.
        attrs: accumulate (False), in_place (False), base (bool; default: three inputs or more); elements:
            touched (default: the values', or the output's where fewer).
    """
    values, out = inputs[-1], outputs[0]
    has_base = attrs.get("base", len(inputs) > 2)
    touched = attrs.get("elements", values.elements)
    touched_bytes = touched * item_bytes(out)
    accumulate = bool(attrs.get("accumulate"))
    read = total_bytes(inputs[1:] if has_base else inputs)
    loaded = read + (touched_bytes if accumulate else 0)
    if attrs.get("in_place"):
        read, write, stored = loaded, touched_bytes, touched_bytes
    else:
        base = inputs[0].nbytes if has_base else 0
        read, loaded = read + base, loaded + base
        write, stored = out.nbytes, out.nbytes + touched_bytes
    factor = 2 if is_complex(out) else 1
    flop = scalar_flop(compute_dtype((out,)), factor * touched) if accumulate else ()
    return cost_of(
        flop,
        read=read,
        write=write,
        loaded=loaded,
        stored=stored,
        access="gather",
        note="an element touched twice is counted twice in place",
    )
