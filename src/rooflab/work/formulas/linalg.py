"""Factorisations and solves whose number of operations is fixed: LAPACK's algorithms, lower terms included.

Multiplications and additions of each routine are those of LAPACK Working Note 41 (Blackford and Dongarra:
"Installation Guide for LAPACK", 1999), appendix C; divisions and roots are among the multiplications. A complex
multiplication is 6 real operations, an addition 2: four times the leading term. Blocked routines are products of
matrices but for their panels, so the matrix engine's; what iterates is in `eigen`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from rooflab.errors import UnknownNameError
from rooflab.types.work import Cost, Flop, TensorSpec
from rooflab.work.formulas.cost_terms import cost_of, is_complex, item_bytes, matrix, real_name, total_bytes
from rooflab.work.formulas.registry import Attrs, Specs, formula

_DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


class Count(NamedTuple):
    """Multiplications and additions of a routine, of one matrix."""

    multiplies: float
    adds: float

    def plus(self, other: Count) -> Count:
        """Both."""
        return Count(self.multiplies + other.multiplies, self.adds + other.adds)


# ── routines ─────────────────────────────────────────────────────────────────────────────────────────────


def getrf(m: int, n: int) -> Count:
    """P·A = L·U of m × n: 2n³/3 of a square matrix."""
    k, other = min(m, n), max(m, n)
    multiplies = k * (k * (other - k / 3 - 1) + other) / 2 + 2 * k / 3
    return Count(multiplies, k * (k * (other - k / 3) - other) / 2 + k / 6)


def getrs(n: int, sides: int) -> Count:
    """Both triangles of a factored matrix solved for `sides` right sides: 2n² each."""
    return Count(sides * n * n, sides * n * (n - 1))


def potrf(n: int) -> Count:
    """A = L·Lᵀ: n³/3."""
    return Count(n * ((n / 6 + 0.5) * n + 1 / 3), n * (n * n - 1) / 6)


def potri(n: int) -> Count:
    """The inverse from L: 2n³/3."""
    return Count(n * (2 / 3 + n * (n / 3 + 1)), n * (1 / 6 + n * (n / 3 - 0.5)))


def potrs(n: int, sides: int) -> Count:
    """L and Lᵀ solved for `sides` right sides: 2n² each."""
    return Count(sides * n * (n + 1), sides * n * (n - 1))


def sytrf(n: int) -> Count:
    """A = L·D·Lᵀ: n³/3."""
    return Count(n * ((n / 6 + 0.5) * n + 10 / 3), n * (n * n - 1) / 6)


def geqrf(m: int, n: int) -> Count:
    """A = Q·R, Q as reflectors: 2mn² − 2n³/3 where m ≥ n."""
    if m > n:
        both = n * n * (0.5 - n / 3 + m)
        return Count(both + n * (m + 23 / 6), both + n * 5 / 6)
    both = m * m * (-0.5 - m / 3 + n)
    return Count(both + m * (2 * n + 23 / 6), both + m * (n + 5 / 6))


def orgqr(m: int, n: int, k: int) -> Count:
    """The first n columns of Q from k reflectors of m: 4mnk − 2(m + n)k² + 4k³/3."""
    both = k * (2 * m * n + k * (2 * k / 3 - (m + n)))
    return Count(both + k * (2 * n - 5 / 3 - k), both + k * (n - m + 1 / 3))


def ormqr(m: int, n: int, k: int) -> Count:
    """Q of k reflectors of m times a matrix of n columns: 4mnk − 2nk²."""
    return Count(n * k * (2 * m - k + 2), n * k * (2 * m - k + 1))


def trtrs(n: int, sides: int) -> Count:
    """A triangle solved for `sides` right sides: n² each."""
    return Count(sides * n * (n + 1) / 2, sides * n * (n - 1) / 2)


def product(m: int, n: int, k: int) -> Count:
    """A product of m × k and k × n."""
    return Count(m * n * k, m * n * k)


# ── formulas ─────────────────────────────────────────────────────────────────────────────────────────────


@formula("cholesky")
def cholesky(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of A = L·Lᵀ. inputs: a (…, n, n). outputs: l."""
    return counted(inputs, outputs, potrf(inputs[0].shape[-1]), "potrf: n³/3")


@formula("cholesky_solve")
def cholesky_solve(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of solving with A = L·Lᵀ. inputs: b (…, n, k), l. outputs: x."""
    n, sides = inputs[0].shape[-2:]
    return counted(inputs, outputs, potrs(n, sides), "potrs: 2n² per right side", of=outputs[0])


@formula("cholesky_inverse")
def cholesky_inverse(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of the inverse from L. inputs: l (…, n, n). outputs: the inverse."""
    return counted(inputs, outputs, potri(inputs[0].shape[-1]), "potri: 2n³/3")


@formula("lu")
def lu(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of P·A = L·U, of a determinant too. inputs: a (…, m, n). outputs: lu[, pivots …], or p, l, u."""
    m, n = inputs[0].shape[-2:]
    diagonal = Count(min(m, n) - 1, 0) if attrs.get("determinant") else Count(0, 0)
    return counted(inputs, outputs, getrf(m, n).plus(diagonal), "getrf: 2mnk − (m + n)k² + 2k³/3")


@formula("ldl")
def ldl(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of A = L·D·Lᵀ. inputs: a (…, n, n). outputs: ld[, pivots]."""
    return counted(inputs, outputs, sytrf(inputs[0].shape[-1]), "sytrf: n³/3")


@formula("solve")
def solve(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of solving A·X = B by P·A = L·U.

    Args:
        inputs: a (…, n, n)[, b (…, n, k) or (…, n)]; without b the identity: the inverse. With factored: a
            factored already, then b last.
        outputs: x[, lu, pivots …].
        attrs: factored (False): only the two triangles. left (True): else X·A = B.
    """
    n = inputs[0].shape[-1]
    x = outputs[0]
    sides = x.elements // max(1, n * math.prod(_batch(inputs[0])))
    count = getrs(n, sides)
    if attrs.get("factored"):
        return counted(inputs, outputs, count, "getrs: 2n² per right side")
    note = "getrf and getrs: 2n³/3, and 2n² per right side"
    return counted(inputs, outputs, getrf(n, n).plus(count), note)


@formula("qr")
def qr(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of Householder's A = Q·R.

    Args:
        inputs: a (…, m, n); to form Q alone: reflectors (…, m, n), factors (…, k). outputs: as asked for.
        attrs: parts: "r" (reflectors and R), "q" (Q from reflectors) or "qr" (both, the default).
            complete: Q of m columns instead of min(m, n).
    """
    m, n = inputs[0].shape[-2:]
    parts = attrs.get("parts", "qr")
    if parts == "q":
        k = inputs[1].shape[-1] if len(inputs) > 1 else min(m, n)
        return counted(inputs, outputs, orgqr(m, n, k), "orgqr: 4mnk − 2(m + n)k² + 4k³/3")
    if parts == "r":
        return counted(inputs, outputs, geqrf(m, n), "geqrf: 2mnk − (m + n)k² + 2k³/3, k the shorter side")
    k = min(m, n)
    columns = m if attrs.get("complete") else k
    note = "geqrf and orgqr: 2mnk − (m + n)k² + 2k³/3, and as many again to form a square or thin Q"
    return counted(inputs, outputs, geqrf(m, n).plus(orgqr(m, columns, k)), note)


@formula("apply_q")
def apply_q(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of Q·C or C·Q, Q as reflectors. inputs: reflectors (…, m, k), factors, c. outputs: the product."""
    m, k = inputs[0].shape[-2], inputs[1].shape[-1]
    columns = inputs[2].elements // max(1, m * math.prod(_batch(inputs[0])))
    return counted(inputs, outputs, ormqr(m, columns, k), "ormqr: 4mnk − 2nk²")


@formula("lstsq")
def lstsq(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of least squares by QR: A = Q·R, Qᵀ·B, R solved. inputs: a (…, m, n), b. outputs: x[, …].

    Args:
        inputs, outputs: see above.
        attrs: driver: "gels", "gelsy" (pivoted: the same leading terms); "gelsd" and "gelss" (by singular
            values) are counted as QR too, which is the least that they do.

    Raises:
        UnknownNameError: another driver.
    """
    driver = attrs.get("driver") or "gels"
    if driver not in _DRIVERS:
        raise UnknownNameError("driver of lstsq", str(driver), _DRIVERS)
    m, n = inputs[0].shape[-2:]
    k, longer = min(m, n), max(m, n)
    sides = inputs[1].elements // max(1, m * math.prod(_batch(inputs[0])))
    count = geqrf(longer, k).plus(ormqr(longer, sides, k)).plus(trtrs(k, sides))
    least = "; its singular values are not counted" if driver in ("gelsd", "gelss") else ""
    return counted(
        inputs, outputs, count, f"geqrf, ormqr and trtrs: 2mn² − 2n³/3 and 4mn − n² per right side{least}"
    )


@formula("triangular_solve")
def triangular_solve(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of solving with a triangle. inputs: a (…, n, n), b. outputs: x."""
    n = inputs[0].shape[-1]
    sides = outputs[0].elements // max(1, n)
    note = "trtrs: n² per right side; the triangle read whole"
    return counted(inputs, outputs, trtrs(n, sides), note, of=TensorSpec((), inputs[0].dtype, 0))


@formula("matrix_exp")
def matrix_exp(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of exp(A): a polynomial of degree 18 in 5 products.

    That is the highest degree that PyTorch takes (Bader, Blanes, Casas, Mathematics 7:1174, 2019). A small norm
    takes fewer products, a large one a squaring for each doubling: data decides, and neither is counted.
    """
    n = inputs[0].shape[-1]
    five = product(n, n, 5 * n)
    return counted(inputs, outputs, five, "5 products of degree 18; squarings for a large norm are not counted")


def counted(inputs: Specs, outputs: Specs, count: Count, note: str, of: TensorSpec | None = None) -> Cost:
    """The cost of `count` for each matrix in the batch of `of` (default: the first input), matrix engine."""
    matrices = math.prod(_batch(of or inputs[0]))
    return cost_of(
        flop(count, inputs[0], "matrix", matrices),
        read=total_bytes(inputs),
        write=total_bytes(outputs),
        loaded=2 * count.multiplies * matrices * item_bytes(inputs[0]),
        note=note,
    )


def flop(count: Count, a: TensorSpec, engine: str, matrices: float = 1) -> tuple[Flop, ...]:
    """Real operations of `count` on `matrices` like `a`, on "matrix" or "vector"."""
    per_multiply, per_add = (6, 2) if is_complex(a) else (1, 1)
    total = max(0.0, matrices * (per_multiply * count.multiplies + per_add * count.adds))
    if not total:
        return ()
    if engine == "matrix":
        return tuple(one for one in matrix(total / 2, real_name(a.dtype)))
    return (Flop(engine="vector", dtype=real_name(a.dtype), count=total),)


def _batch(spec: TensorSpec) -> tuple[int, ...]:
    return spec.shape[:-2]
