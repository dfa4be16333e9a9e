"""Products of matrices: dense, grouped, sparse, quantised, complex."""

from __future__ import annotations

from rooflab.types.work import Cost
from rooflab.work.formulas.cost_terms import (
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


@formula("grouped_matmul")
def grouped_matmul(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of products of groups of rows with a matrix each (mixture of experts).

    Each row meets one matrix: multiply-adds = a.elements × out.shape[-1], whatever the groups' sizes.
    Bytes of b: of the groups that can be touched, at most one per row.

    Args:
        inputs: a (rows, k), b (groups, k, n), group sizes …. outputs: out (rows, n).
        attrs: fma (overrides); active (groups touched; default: all, or as many as rows where fewer);
            weight_bits, compute as `matmul`.
    """
    a, b, out = inputs[0], inputs[1], outputs[0]
    fma = attrs.get("fma", a.elements * out.shape[-1])
    groups = b.shape[0] if len(b.shape) > 2 else 1
    rows = a.elements // a.shape[-1] if a.shape[-1] else 0
    active = min(attrs.get("active", rows if groups > 1 else 1), groups)
    bits = attrs.get("weight_bits")
    weight = bits / 8 if bits else item_bytes(b)
    read = a.nbytes + b.nbytes * active / groups + total_bytes(inputs[2:])
    return cost_of(
        matrix(fma, attrs.get("compute") or a.dtype),
        read=read,
        write=out.nbytes,
        loaded=fma * (item_bytes(a) + weight) + total_bytes(inputs[2:]),
        note=f"each row meets one of {groups} matrices; {active} of them read",
    )


@formula("sparse_matmul")
def sparse_matmul(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of a sparse matrix (CSR, CSC, COO, BSR) times a dense one: nnz × n multiply-adds.

    Compulsory bytes: values, indices and the dense operand once, the output once: 2 FLOP per 12 bytes for
    fp64 values with 32-bit columns (Williams et al., CACM 52(4), 2009). Accessed: value, index and dense
    element per multiply-add. An addend costs an addition per output. The products run on the vector engine,
    as gathered operands feed no matrix unit.

    Args:
        inputs: values, indices …, dense[, addend]. outputs: out.
        attrs: nnz: stored elements; n: columns of the dense operand; bias (bool): an addend is the last.
    """
    values, out = inputs[0], outputs[0]
    fma = attrs["nnz"] * attrs["n"]
    bias = bool(attrs.get("bias"))
    dense = inputs[-2] if bias else inputs[-1]
    indices = inputs[1 : -2 if bias else -1]
    per_fma = number_format(values.dtype).flop_per_fma
    flop = scalar_flop(compute_dtype((values, dense)), vector=per_fma * fma)
    loaded = fma * (item_bytes(values) + item_bytes(dense) + (item_bytes(indices[-1]) if indices else 0))
    loaded += total_bytes(indices[:-1])
    if bias:
        flop += _bias(inputs[-1], out.elements, outputs)
        loaded += out.elements * item_bytes(inputs[-1])
    return cost_of(
        flop,
        read=total_bytes(inputs),
        write=out.nbytes,
        loaded=loaded,
        access="gather",
        note="the dense operand crosses once; its rows are gathered",
    )
