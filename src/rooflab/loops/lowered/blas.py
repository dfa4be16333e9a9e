"""What a call of BLAS or LAPACK reads, writes and computes: it cannot be seen, so each operand counts once.

Operations of the factorisations: LAPACK Working Note 41, appendix C (as `work.formulas.linalg`), written as terms
in the sides of the matrix; divisions and roots are among the multiplications. What iterates (eigenvalues, singular
values) or depends on which side is longer (QR) has no such terms: `is_unknown`.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import NamedTuple

# By BLAS's letter: bytes of an element, its number format, FLOP of a multiplication and of an addition.
KINDS = {
    "s": (4, "fp32", 1, 1),
    "d": (8, "fp64", 1, 1),
    "c": (8, "complex64", 6, 2),
    "z": (16, "complex128", 6, 2),
}
_MAY_COMPUTE = re.compile(r"numba_(?:ez_|raw_|x|c?powf?$)")  # numba's functions in front of a library's

Factors = tuple[str, ...]


class Term(NamedTuple):
    """Multiplications and additions of a routine: so many of each for one of the product of `factors`, as text."""

    factors: Factors
    multiplies: Fraction
    adds: Fraction


class Product(NamedTuple):
    """A call of BLAS or LAPACK.

    Attributes:
        nbytes: of an element.
        moved: of each operand its pointer, whether it is written, factors of how many elements it has, as text.
        work: factors of how often, as text, engine and number format, FLOP each time; together whole numbers.
    """

    nbytes: int
    moved: tuple[tuple[str, bool, Factors], ...]
    work: tuple[tuple[Factors, tuple[str, str], Fraction], ...]


def product(name: str, text: str) -> Product | None:
    """What the call of `name` in `text` does; None of a function that is none of these."""
    if name not in _ROUTINES:
        return None
    given = [each.split()[-1] for each in text[text.index("(") + 1 : text.rindex(")")].split(", ")]
    letter = chr(int(given[0])) if given[0].lstrip("-").isdigit() else "d"
    nbytes, dtype, of_multiply, of_add = KINDS[letter]
    moved, terms = _ROUTINES[name](given)
    if name == "numba_xxnrm2" and of_multiply > 1:
        # a square and its sum of both parts of a number, not a product of two numbers
        of_multiply, of_add = 2, 2
    flop = (term.multiplies * of_multiply + term.adds * of_add for term in terms)
    work = tuple((term.factors, ("vector", dtype), each) for term, each in zip(terms, flop, strict=True))
    return Product(nbytes, tuple(moved), work)


def is_unknown(name: str) -> bool:
    """Whether a function of numba's computes what no term here says."""
    return name not in _ROUTINES and _MAY_COMPUTE.match(name) is not None


# What a routine moves and computes, from the operands of its call.
_Found = tuple[list[tuple[str, bool, Factors]], list[Term]]


def term(factors: Factors, multiplies: str, adds: str) -> Term:
    """A term, its fractions as text."""
    return Term(factors, Fraction(multiplies), Fraction(adds))


def _dot(given: list[str]) -> _Found:
    n = (given[2],)
    return [(given[3], False, n), (given[4], False, n)], [term(n, "1", "1")]


def _gemv(given: list[str]) -> _Found:
    m, n = given[2], given[3]
    moved = [(given[5], False, (m, n)), (given[7], False, (n,)), (given[9], True, (m,))]
    return moved, [term((m, n), "1", "1")]


def _gemm(given: list[str]) -> _Found:
    m, n, k = given[3], given[4], given[5]
    moved = [(given[7], False, (m, k)), (given[9], False, (k, n)), (given[12], True, (m, n))]
    return moved, [term((m, n, k), "1", "1")]


def _nrm2(given: list[str]) -> _Found:
    n = (given[1],)
    return [(given[2], False, n)], [term(n, "1", "1")]


def in_place(pointer: str, elements: Factors) -> list[tuple[str, bool, Factors]]:
    """What is read, and written over."""
    return [(pointer, False, elements), (pointer, True, elements)]


def lu(n: str) -> list[Term]:
    """P·A = L·U of a square matrix: n³/3 + 2n/3 multiplications, n³/3 − n²/2 + n/6 additions."""
    return [term((n, n, n), "1/3", "1/3"), term((n, n), "0", "-1/2"), term((n,), "2/3", "1/6")]


def _getrf(given: list[str]) -> _Found:
    n = given[2]  # numba factors square matrices alone
    return in_place(given[3], (n, n)), lu(n)


def _gesv(given: list[str]) -> _Found:
    """A·X = B: A factored, then both triangles solved for each of the right sides."""
    n, sides = given[1], given[2]
    moved = [*in_place(given[3], (n, n)), *in_place(given[6], (n, sides))]
    return moved, [*lu(n), term((n, n, sides), "1", "1"), term((n, sides), "0", "-1")]


def _getri(given: list[str]) -> _Found:
    """The inverse from L·U: 2n³/3 + n²/2 + 5n/6 multiplications, 2n³/3 − 3n²/2 + 5n/6 additions."""
    n = given[1]
    terms = [term((n, n, n), "2/3", "2/3"), term((n, n), "1/2", "-3/2"), term((n,), "5/6", "5/6")]
    return in_place(given[2], (n, n)), terms


def potrf(n: str) -> list[Term]:
    """A = L·Lᵀ: n³/6 + n²/2 + n/3 multiplications, n³/6 − n/6 additions."""
    return [term((n, n, n), "1/6", "1/6"), term((n, n), "1/2", "0"), term((n,), "1/3", "-1/6")]


def _potrf(given: list[str]) -> _Found:
    return in_place(given[3], (given[2], given[2])), potrf(given[2])


_ROUTINES = {
    "numba_xxdot": _dot,
    "numba_xxgemv": _gemv,
    "numba_xxgemm": _gemm,
    "numba_xxnrm2": _nrm2,
    "numba_xxgetrf": _getrf,
    "numba_xgesv": _gesv,
    "numba_ez_xxgetri": _getri,
    "numba_xxpotrf": _potrf,
}
