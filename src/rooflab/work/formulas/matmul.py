"""Products of matrices: dense, grouped, sparse, quantised, complex."""

from __future__ import annotations

from rooflab.types.work import Cost
from rooflab.work.formulas.parts import (
    compute_dtype,
    cost_of,
    item_bytes,
    matrix,
    number_format,
    scalar_flop,
    total_bytes,
)
from rooflab.work.formulas.registry import Attrs, Specs, formula


@formula("matmul")
def matmul(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of out = a · b (+ bias): mm, mv, dot, bmm, einsum of two operands, quantised variants.

    FLOP = 2 × out.elements × k (8 × for complex numbers: 4 multiplications and 4 additions), plus one
    addition per output for a bias. Compulsory bytes: all operands and the output, once. Accessed bytes: k
    elements of a and k of b for each output, its bias and its store. Williams et al., CACM 52(4), 2009, for
    the intensity: n/6 FLOP/byte of square fp32 matrices (2n³ / 3·4n²).

    Args:
        inputs: a, b[, bias or addend][, scales, zero points …].
        outputs: out.
        attrs: k (the contracted size, a product where several are); or fma (multiply-adds, overrides);
            bias (bool); weight_bits (of b's packed elements; b.nbytes is the packed size already);
            compute (number format of the products, where not a's).
    """
    a, b, out = inputs[0], inputs[1], outputs[0]
    fma = attrs["fma"] if "fma" in attrs else out.elements * attrs["k"]
    name = attrs.get("compute") or a.dtype
    bits = attrs.get("weight_bits")
    weight = bits / 8 if bits else item_bytes(b)
    flop = matrix(fma, name)
    loaded = fma * (item_bytes(a) + weight)
    note = "products and sums on the matrix engine"
    if bits:
        note = f"weights of {bits} bits multiplied in {name}; unpacking and scaling them is not counted as FLOP"
    extra = inputs[2:]
    if attrs.get("bias"):
        flop += _bias(inputs[2], out.elements, outputs)
        loaded += out.elements * item_bytes(inputs[2])
        extra = inputs[3:]
    loaded += total_bytes(extra)
    return cost_of(flop, read=total_bytes(inputs), write=out.nbytes, loaded=loaded, note=note)


def _bias(bias, elements: int, outputs: Specs):
    """FLOP of one addition per output element (two for complex numbers)."""
    per_element = number_format(bias.dtype).flop_per_fma // 4 or 1
    return scalar_flop(compute_dtype((bias,), outputs), vector=elements * per_element)
