"""What a call of CBLAS or LAPACKE reads, writes and computes, by the formulas of the routine; nothing of others.

Names and orders of arguments: the C interface to the BLAS (BLAS Technical Forum Standard, appendix B) and LAPACK's
user guide. Operands are taken as lying without gaps, once each; of a symmetric or triangular matrix that is half
of the operand the whole is. Where a flag that decides an operand's shape is known only at run time, nothing is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

from rooflab.loops.lowered.blas import KINDS, Factors, Product, Term, in_place, lu, potrf, term
from rooflab.loops.lowered.ir_text import arguments

_NAME = re.compile(r"(?:cblas_|LAPACKE_)(?P<letter>[sdcz])(?P<what>[a-z0-9_]+)$")
# Of complex vectors, lengths are named by both letters; dot products say whether one is conjugated.
_SAME = {"scnrm2": "cnrm2", "dznrm2": "znrm2", "scasum": "casum", "dzasum": "zasum"}
_NO_TRANSPOSE, _TRANSPOSED = "111", ("112", "113")
_LEFT, _RIGHT = "141", "142"

_Moved = list[tuple[str, bool, Factors]]
_Found = tuple[_Moved, list[Term]] | None


class _Given(NamedTuple):
    """Arguments of a call: values, and as numbers whose width is still to be seen to ("i32 %n")."""

    values: tuple[str, ...]
    numbers: tuple[str, ...]


def product(name: str, text: str) -> Product | None:
    """What the call of `name` in `text` does; None where no formula here says it."""
    plain = name.removeprefix("cblas_")
    match = _NAME.match(f"cblas_{_SAME[plain]}" if plain in _SAME else name)
    routine = None if match is None else _ROUTINES.get(f"{'L' if name[0] == 'L' else ''}{match['what']}")
    given = _arguments(text, name)
    if match is None or routine is None or given is None:
        return None
    try:
        found = routine(given)
    except IndexError:
        # a function of the user's own that has such a name
        return None
    if found is None or any(not each.startswith(("%", "@")) for each, _, _ in found[0]):
        return None
    nbytes, dtype, of_multiply, of_add = KINDS[match["letter"]]
    if match["what"] == "nrm2" and of_multiply > 1:
        # a square and its sum of both parts of a number
        of_multiply, of_add = 2, 2
    moved, terms = found
    flop = [Fraction(each.multiplies * of_multiply + each.adds * of_add) for each in terms]
    work = tuple((one.factors, ("vector", dtype), each) for one, each in zip(terms, flop, strict=True))
    return Product(nbytes, tuple(moved), work)


def _arguments(text: str, name: str) -> _Given | None:
    start = text.find(f"@{name}(") + len(name) + 2
    if start < len(name) + 2:
        return None
    parts = [each.split() for each in arguments(text, start)]
    if not all(parts):
        return _Given((), ())
    values = tuple(each[-1] for each in parts)
    numbers = tuple(each[-1] if each[-1].isdigit() else f"{each[0]} {each[-1]}" for each in parts)
    return _Given(values, numbers)


def _read(given: _Given, at: int, *factors: int) -> tuple[str, bool, Factors]:
    return given.values[at], False, tuple(given.numbers[each] for each in factors)


def _changed(given: _Given, at: int, *factors: int) -> _Moved:
    return in_place(given.values[at], tuple(given.numbers[each] for each in factors))


def _result(given: _Given, at: int, beta: int, *factors: int) -> _Moved:
    """A result that is added to a multiple of what was there: of a multiple by 0 it is only written."""
    found = _changed(given, at, *factors)
    return found[1:] if re.fullmatch(r"0(?:\.0*(?:e[+-]?0+)?)?", given.values[beta]) else found


def _vectors(
    multiplies: str, adds: str, x: int, y: int | None = None, written: str = ""
) -> Callable[[_Given], _Found]:
    """A routine of one or two vectors of as many numbers as its first argument: which are `written`, x or y."""

    def routine(given: _Given) -> _Found:
        moved: _Moved = []
        for name, at in (("x", x), ("y", y)):
            if at is not None:
                only = f"{name}=" in written  # not read before
                held = _changed(given, at, 0) if name in written else [_read(given, at, 0)]
                moved += held[1:] if only else held
        work = [term((given.numbers[0],), multiplies, adds)] if (multiplies, adds) != ("0", "0") else []
        return moved, work

    return routine


def _gemv(given: _Given) -> _Found:
    order, m, n = given.values[1], 2, 3
    if order not in (_NO_TRANSPOSE, *_TRANSPOSED):
        return None
    of_x, of_y = (n, m) if order == _NO_TRANSPOSE else (m, n)
    moved = [_read(given, 5, m, n), _read(given, 7, of_x), *_result(given, 10, 9, of_y)]
    return moved, [term((given.numbers[m], given.numbers[n]), "1", "1")]


def _ger(given: _Given) -> _Found:
    moved = [_read(given, 4, 1), _read(given, 6, 2), *_changed(given, 8, 1, 2)]
    return moved, [term((given.numbers[1], given.numbers[2]), "1", "1")]


def _gemm(given: _Given) -> _Found:
    m, n, k = 3, 4, 5
    moved = [_read(given, 7, m, k), _read(given, 9, k, n), *_result(given, 12, 11, m, n)]
    return moved, [term(tuple(given.numbers[each] for each in (m, n, k)), "1", "1")]


def _syrk(given: _Given) -> _Found:
    """One triangle of A·Aᵀ: n(n + 1)/2 sums of k products."""
    n, k = given.numbers[3], given.numbers[4]
    return [_read(given, 6, 3, 4), *_result(given, 9, 8, 3, 3)], [
        term((n, n, k), "1/2", "1/2"),
        term((n, k), "1/2", "1/2"),
    ]


def _of_a_side(given: _Given, side: str, m: int, n: int) -> int | None:
    """Which of both numbers is the side of the square matrix; None where only the run says."""
    return {_LEFT: m, _RIGHT: n}.get(side)


def _symm(given: _Given) -> _Found:
    m, n = 3, 4
    side = _of_a_side(given, given.values[1], m, n)
    if side is None:
        return None
    moved = [_read(given, 6, side, side), _read(given, 8, m, n), *_result(given, 11, 10, m, n)]
    return moved, [term(tuple(given.numbers[each] for each in (m, n, side)), "1", "1")]


def _triangular(given: _Given) -> _Found:
    """B made the solution of A·X = B, or A·B, A a triangle of side s: s² FLOP for each of the other side."""
    m, n = 5, 6
    side = _of_a_side(given, given.values[1], m, n)
    if side is None:
        return None
    other = m + n - side
    moved = [_read(given, 8, side, side), *_changed(given, 10, m, n)]
    s, o = given.numbers[side], given.numbers[other]
    return moved, [term((s, s, o), "1/2", "1/2"), term((s, o), "1/2", "-1/2")]


def _getrf(given: _Given) -> _Found:
    if given.numbers[1] != given.numbers[2]:
        # the terms depend on which side is longer
        return None
    return _changed(given, 3, 1, 1), lu(given.numbers[1])


def _gesv(given: _Given) -> _Found:
    n, sides = given.numbers[1], given.numbers[2]
    solved = [term((n, n, sides), "1", "1"), term((n, sides), "0", "-1")]
    return [*_changed(given, 3, 1, 1), *_changed(given, 6, 1, 2)], [*lu(n), *solved]


def _potrf(given: _Given) -> _Found:
    return _changed(given, 3, 2, 2), potrf(given.numbers[2])


_DOT = _vectors("1", "1", 1, 3)
_ROUTINES: dict[str, Callable[[_Given], _Found]] = {
    "dot": _DOT, "dotu_sub": _DOT, "dotc_sub": _DOT,
    "axpy": _vectors("1", "1", 2, 4, "y"), "scal": _vectors("1", "0", 2, None, "x"),
    "copy": _vectors("0", "0", 1, 3, "y="), "swap": _vectors("0", "0", 1, 3, "xy"),
    "nrm2": _vectors("1", "1", 1), "asum": _vectors("0", "1", 1), "rot": _vectors("4", "2", 1, 3, "xy"),
    "gemv": _gemv, "ger": _ger, "geru": _ger, "gerc": _ger,
    "gemm": _gemm, "symm": _symm, "syrk": _syrk, "trsm": _triangular, "trmm": _triangular,
    "Lgetrf": _getrf, "Lgesv": _gesv, "Lpotrf": _potrf,
}  # fmt: skip
