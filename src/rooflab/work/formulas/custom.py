"""An operation of your own, counted by a formula that its author gave: see `rooflab.work.own_formulas`."""

from __future__ import annotations

from rooflab.errors import RooflabError
from rooflab.types.work import Cost
from rooflab.work.formulas.cost_terms import compute_dtype, cost_of, matrix, real_name, scalar_flop, total_bytes
from rooflab.work.formulas.registry import Attrs, Specs, formula


@formula("custom")
def custom(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of an operation by the formula that its author gave; bytes are those of its operands by default.

    Args:
        inputs, outputs: each crosses memory once.
        attrs: flop (0); kind ("matrix"): the units that do them; dtype: their number format, by default that of
            the widest floating operand; read_bytes, write_bytes: instead of the operands' own; by: whose formula
            it is; refused: why the formula gave no number.

    Raises:
        RooflabError: the formula gave no number, or FLOP in no number format that is known.
    """
    if "refused" in attrs:
        raise RooflabError(attrs["refused"])
    flop, kind = attrs.get("flop", 0), attrs.get("kind", "matrix")
    name = attrs.get("dtype") or compute_dtype(inputs, outputs)
    if kind == "matrix":  # complex numbers too: their FLOP are given as real ones
        counted = () if name is None else matrix(flop / 2, real_name(name))
    else:
        counted = scalar_flop(name, **{kind: flop})
    if flop and not counted:
        raise RooflabError(
            f"{attrs.get('by', 'the formula')}: gave {flop:g} FLOP on {kind} units, in"
            f" {name or 'no number format'},"
            ' which they do not count; add "dtype", such as "fp32" (or "int8" on matrix units)'
        )
    bytes_are = "its own" if "read_bytes" in attrs or "write_bytes" in attrs else "those of its operands"
    return cost_of(
        counted,
        read=attrs.get("read_bytes", total_bytes(inputs)),
        write=attrs.get("write_bytes", total_bytes(outputs)),
        loaded=None,
        note=f"FLOP by {attrs.get('by', 'its formula')}, on {kind} units; bytes are {bytes_are}",
    )
