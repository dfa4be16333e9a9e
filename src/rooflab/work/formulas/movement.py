"""Operations that only move bytes, and those that move none: copies, casts, views, fills."""

from __future__ import annotations

from rooflab.types.work import Cost
from rooflab.work.formulas.cost_terms import (
    compute_dtype,
    cost_of,
    is_complex,
    load_bytes,
    scalar_flop,
    total_bytes,
)
from rooflab.work.formulas.registry import Attrs, Specs, formula


@formula("copy", "cast")
def copy(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of writing a tensor anew, in the same or another number format; also of concatenation.

    Read once (an expanded tensor: its storage), written once; no FLOP, as a conversion is none.
    Accessed: a load and a store per output element.

    Args:
        inputs: what is copied. outputs: the copies.
        attrs: whole (False): all of the input is looked at, however little of it arrives (nonzero).
    """
    if attrs.get("whole"):
        read = total_bytes(inputs)
        return cost_of(
            read=read, write=total_bytes(outputs), loaded=read, note="all of it read, what is found written"
        )
    return _moved(inputs, outputs, "stream", "copy: read once, written once")


@formula("fold")
def fold(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of adding each element to its place (col2im, the gradient of unfold and of padding).

    Every input element is read and added once: one addition for each, as a sum begins at 0.
    """
    elements = inputs[0].elements * (2 if is_complex(inputs[0]) else 1)
    return cost_of(
        scalar_flop(compute_dtype(inputs, outputs), elements),
        read=total_bytes(inputs),
        write=total_bytes(outputs),
        loaded=sum(load_bytes(spec, spec.elements) for spec in inputs),
        access="strided",
        note="one addition per input element: places overlap",
    )


@formula("layout")
def layout(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of a copy whose read and write order differ (transposed, permuted, strided).

    The bytes are those of a copy; whole cache lines that a stride reads in vain are a model's to add.
    """
    return _moved(inputs, outputs, "strided", "strided copy: useful bytes only, not the lines they lie in")


@formula("view")
def view(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of another look at the same memory: nothing."""
    return cost_of(read=0.0, write=0.0, loaded=0.0, note="no bytes: a view")


@formula("create")
def create(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of a new tensor of constants: its bytes written; "empty" (attrs' function) writes none."""
    if attrs.get("function") == "empty":
        return cost_of(read=0.0, write=0.0, loaded=0.0, note="memory reserved, not written")
    write = total_bytes(outputs)
    return cost_of(read=0.0, write=write, loaded=0.0, note="written once")


@formula("random")
def random(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of random numbers: written once; the generator's integer arithmetic is not FLOP."""
    write = total_bytes(outputs)
    read = total_bytes(inputs)
    return cost_of(read=read, write=write, loaded=read, note="written once; the generator's integers are not FLOP")


def _moved(inputs: Specs, outputs: Specs, access, note: str) -> Cost:
    if len(inputs) == 1:  # a slice reads what arrives, an expansion what there is
        loaded = load_bytes(inputs[0], sum(spec.elements for spec in outputs))
        read = min(inputs[0].nbytes, loaded)
    else:
        loaded = sum(load_bytes(spec, spec.elements) for spec in inputs)
        read = total_bytes(inputs)
    stored = sum(load_bytes(spec, spec.elements) for spec in outputs)
    return cost_of(
        read=read,
        write=total_bytes(outputs),
        loaded=loaded,
        stored=stored,
        access=access,
        note=note,
    )
