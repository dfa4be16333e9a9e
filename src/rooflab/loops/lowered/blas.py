"""What a call of BLAS reads, writes and computes: it cannot be seen, so each operand counts once."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

NAMES = ("numba_xxdot", "numba_xxgemv", "numba_xxgemm")
# By BLAS's letter: bytes of an element, its number format, FLOP of a multiply-add.
_KINDS = {"s": (4, "fp32", 2), "d": (8, "fp64", 2), "c": (8, "complex64", 8), "z": (16, "complex128", 8)}


class Product(NamedTuple):
    """A call of BLAS.

    Attributes:
        nbytes: of an element.
        moved: of each operand its pointer, whether it is written, factors of how many elements it has, as text.
        work: factors of how many multiply-adds there are, as text.
        flop: of one of them, by engine and number format.
    """

    nbytes: int
    moved: tuple[tuple[str, bool, tuple[str, ...]], ...]
    work: tuple[str, ...]
    flop: Counter[tuple[str, str]]


def product(name: str, text: str) -> Product:
    """The product that the call of `name`, one of `NAMES`, in `text` makes."""
    given = [each.split()[-1] for each in text[text.index("(") + 1 : text.rindex(")")].split(", ")]
    letter = chr(int(given[0])) if given[0].lstrip("-").isdigit() else "d"
    nbytes, dtype, mults = _KINDS[letter]
    if name == "numba_xxdot":
        work = (given[2],)
        moved = ((given[3], False, work), (given[4], False, work))
    elif name == "numba_xxgemv":
        m, n = work = (given[2], given[3])
        moved = ((given[5], False, (m, n)), (given[7], False, (n,)), (given[9], True, (m,)))
    else:
        m, n, k = work = (given[3], given[4], given[5])
        moved = ((given[7], False, (m, k)), (given[9], False, (k, n)), (given[12], True, (m, n)))
    return Product(nbytes, moved, work, Counter({("vector", dtype): mults}))
