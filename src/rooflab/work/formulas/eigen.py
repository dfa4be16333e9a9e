"""Eigenvalues and singular values: a reduction whose count is fixed, and iterations whose number the data decides.

Reductions: LAPACK Working Note 41, appendix C. Half of a reduction to tridiagonal or bidiagonal form is products
of matrices with vectors, which stream the matrix from memory again and again (Dongarra, Sorensen, Hammarling:
"Block reduction of matrices to condensed forms", J. Comput. Appl. Math. 27, 1989), a fifth of that to Hessenberg
form. The iterations are counted as they usually go (Golub and Van Loan: "Matrix Computations", 4th edition,
sections 7.5, 8.3 and 8.6; Tisseur and Dongarra, SIAM J. Sci. Comput. 20, 1999), and run on the vector engine: the
note says "typical".
"""

from __future__ import annotations

import math

import msgspec

from rooflab.types.work import Cost
from rooflab.work.formulas.cost_terms import cost_of, item_bytes, total_bytes
from rooflab.work.formulas.linalg import Count, flop, product
from rooflab.work.formulas.registry import Attrs, Specs, formula


def sytrd(n: int) -> Count:
    """A symmetric matrix to tridiagonal form: 4n³/3."""
    return Count(n * (n * (2 * n / 3 + 2.5) - 1 / 6) - 15, n * (n * (2 * n / 3 + 1) - 8 / 3) - 4)


def gebrd(m: int, n: int) -> Count:
    """A matrix to bidiagonal form: 4mn² − 4n³/3 where m ≥ n."""
    m, n = max(m, n), min(m, n)
    both = n * n * (2 * m - 2 * n / 3)
    return Count(both + n * (2 * n + 20 / 3), both + n * (n - m + 5 / 3))


def gehrd(n: int) -> Count:
    """A square matrix to Hessenberg form: 10n³/3."""
    return Count(n * (n * (5 * n / 3 + 0.5) - 7 / 6) - 13, n * (n * (5 * n / 3 - 1) - 2 / 3) - 8)


@formula("eigh")
def eigh(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of eigenvalues of a symmetric or Hermitian matrix, and of its eigenvectors.

    Tridiagonal form 4n³/3; eigenvalues of that are O(n²). Eigenvectors by divide and conquer (syevd): 4n³/3
    where nothing deflates, and 2n³ to turn them back.

    Args:
        inputs: a (…, n, n). outputs: values[, vectors].
        attrs: vectors (whether they are computed; by default, whether there is a second output).
    """
    n = inputs[0].shape[-1]
    vectors = attrs.get("vectors", len(outputs) > 1)
    iterated = Count(2 * n**3 / 3, 2 * n**3 / 3) if vectors else Count(0, 0)
    turned = Count(n**3, n**3) if vectors else Count(0, 0)
    note = "sytrd: 4n³/3; O(n²) for its eigenvalues is not counted"
    if vectors:
        note = "sytrd: 4n³/3, divide and conquer 4n³/3 without deflation, 2n³ back: typical"
    return _cost(inputs, outputs, _some(n, sytrd(n)), 0.5, iterated, turned, note)


@formula("eig")
def eig(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of eigenvalues of a general matrix, and of its (right) eigenvectors.

    Hessenberg form 10n³/3, then QR iterations: 10n³ in all for eigenvalues, 25n³ with Schur vectors; from
    these the eigenvectors, 4n³/3.

    Args:
        inputs: a (…, n, n). outputs: values[, vectors …].
        attrs: vectors (by default, whether there is a second output).
    """
    n = inputs[0].shape[-1]
    vectors = attrs.get("vectors", len(outputs) > 1)
    whole = (25 + 4 / 3 if vectors else 10) * n**3 / 2
    reduced = _some(n, gehrd(n))
    iterated = Count(whole - 5 * n**3 / 3, whole - 5 * n**3 / 3)
    note = f"gehrd and QR iterations: {'26⅓' if vectors else '10'} n³, typical"
    return _cost(inputs, outputs, reduced, 0.2, iterated, Count(0, 0), note)


# FLOP as multiples of (m²n, mn², n³), m ≥ n, of bidiagonal form at once, and of R after a QR: Golub and Van Loan,
# figure 8.6.1, rows Σ; Σ, U₁, V; Σ, U, V.
_SVD: dict[str, tuple[tuple[float, float, float], tuple[float, float, float]]] = {
    "values": ((0, 4, -4 / 3), (0, 2, 2)),
    "thin": ((0, 14, 8), (0, 6, 20)),
    "full": ((4, 8, 9), (4, 0, 22)),
}


@formula("svd")
def svd(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of singular values, and of singular vectors: the quicker of the two ways of `_SVD`.

    Args:
        inputs: a (…, m, n). outputs: [u,] s[, vᵀ].
        attrs: vectors (by default, whether there is more than one output); full: u and vᵀ are square.
    """
    m, n = sorted(inputs[0].shape[-2:], reverse=True)
    vectors = attrs.get("vectors", len(outputs) > 1)
    wanted = ("full" if attrs.get("full") and m > n else "thin") if vectors else "values"
    at_once, after_qr = (a * m * m * n + b * m * n * n + c * n**3 for a, b, c in _SVD[wanted])
    whole = min(at_once, after_qr)
    reduced = _some(n, gebrd(m if whole == at_once else n, n))
    left = max(0.0, (whole - reduced.multiplies - reduced.adds) / 2)
    way = "gebrd" if whole == at_once else "geqrf, gebrd of R"
    note = f"{way} and iterations: {whole / max(1, m * n * n):.3g} mn², typical ({wanted})"
    return _cost(inputs, outputs, reduced, 0.5, Count(left, left), Count(0, 0), note)


@formula("pinv")
def pinv(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of a pseudo-inverse: thin singular vectors, and one product of them.

    Args:
        inputs: a (…, m, n). outputs: the pseudo-inverse (…, n, m).
        attrs: hermitian: by eigenvectors of a symmetric matrix instead.
    """
    a = inputs[0]
    m, n = a.shape[-2:]
    of = (
        eigh(inputs, outputs, {"vectors": True})
        if attrs.get("hermitian")
        else svd(inputs, outputs, {"vectors": True})
    )
    joined = flop(product(n, m, min(m, n)), a, "matrix", math.prod(a.shape[:-2]))
    return msgspec.structs.replace(of, flop=(*of.flop, *joined), note=f"{of.note}; one product")


def _some(n: int, count: Count) -> Count:
    """`count`, whose lower terms fit no matrix of a few rows: at least nothing."""
    return Count(max(0.0, count.multiplies), max(0.0, count.adds)) if n > 1 else Count(0, 0)


def _cost(
    inputs: Specs, outputs: Specs, reduced: Count, vector_share: float, iterated: Count, turned: Count, note: str
) -> Cost:
    """The cost of a reduction, a share of it on vectors, of iterations on vectors and of products after them."""
    a = inputs[0]
    matrices = math.prod(a.shape[:-2])
    slow = Count(reduced.multiplies * vector_share, reduced.adds * vector_share)
    quick = Count(reduced.multiplies - slow.multiplies, reduced.adds - slow.adds)
    vector, products = slow.plus(iterated), quick.plus(turned)
    return cost_of(
        flop(products, a, "matrix", matrices) + flop(vector, a, "vector", matrices),
        read=total_bytes(inputs),
        write=total_bytes(outputs),
        loaded=2 * (vector.multiplies + products.multiplies) * matrices * item_bytes(a),
        note=note,
    )
