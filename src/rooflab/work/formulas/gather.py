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

    Bags: the rows of each bag are added up, or their largest kept: one operation per element looked up, a
    multiplication more where it has a weight; a mean also multiplies each result.

    Args:
        inputs: table, indices …. outputs: out.
        attrs: reduce: "sum", "mean" or "max" of the rows in a bag, and weighted (False).
    """
    table = inputs[0]
    found = looked_up(inputs, outputs, attrs)
    touched = found * item_bytes(table)
    indices = total_bytes(inputs[1:])
    flop = 0
    if "reduce" in attrs:
        flop = found * (2 if attrs.get("weighted") else 1) + (
            outputs[0].elements if attrs["reduce"] == "mean" else 0
        )
    return cost_of(
        scalar_flop(compute_dtype((table,)), flop),
        read=touched + indices,
        write=total_bytes(outputs),
        loaded=touched + indices,
        access="gather",
        note="rows touched, not the table; a row looked up twice is read twice",
    )


def looked_up(inputs: Specs, outputs: Specs, attrs: Attrs) -> int:
    """Elements of the table that a gather reads: those that arrive, or all that go into bags."""
    if "reduce" in attrs:
        return inputs[1].elements * outputs[0].shape[-1]
    return sum(spec.elements for spec in outputs)


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
