"""What an Einsum equation multiplies and adds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple


class Contraction(NamedTuple):
    """An equation in figures.

    Attributes:
        kind: "matmul", "pointwise" (a product without a sum), "reduction", "layout" or "view".
        k: product of the sizes summed over.
        multiply_adds: of all steps.
    """

    kind: str
    k: int
    multiply_adds: int


def contraction(equation: str, shapes: Sequence[tuple[int, ...]]) -> Contraction:
    """What `equation` asks for on operands of `shapes`; more than two are contracted from left to right.

    Raises:
        ValueError: terms that do not fit the operands.
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = [_labels(term, shape) for term, shape in zip(left.split(","), shapes, strict=True)]
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for label, size in zip(term, shape, strict=True):
            sizes[label] = max(size, sizes.get(label, 1))
    output = _output(left, right, arrow, terms, sizes)
    summed = [label for label in sizes if label not in output]
    k = math.prod(sizes[label] for label in summed)
    if len(terms) == 1:
        kind = "reduction" if summed else ("view" if list(terms[0]) == output else "layout")
        return Contraction(kind, k, 0)
    if not summed:
        return Contraction("pointwise", 1, 0)
    return Contraction("matmul", k, _steps(terms, output, sizes))


def of_diagonals(equation: str, shapes: Sequence[tuple[int, ...]]) -> tuple[str, list[tuple[int, ...]]]:
    """The equation with each label once a term, and the shapes of what it then reads: "ii->" the diagonal alone.

    Raises:
        ValueError: terms that do not fit the operands.
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if all(len(set(term.replace(".", ""))) == len(term.replace(".", "")) for term in terms):
        return equation, list(shapes)
    if not arrow:  # labels that occur once, in alphabetical order, after those of an ellipsis
        letters = left.replace("...", "").replace(",", "")
        once = "".join(sorted(one for one in set(letters) if letters.count(one) == 1))
        right = ("..." if "..." in left else "") + once
    shorter, read = [], []
    for term, shape in zip(terms, shapes, strict=True):
        labels = _labels(term, shape)
        at = [place for place, label in enumerate(labels) if labels.index(label) == place]
        before, dots, after = term.partition("...")
        first = "".join(dict.fromkeys(before))
        rest = "".join(one for one in dict.fromkeys(after) if one not in first)
        shorter.append(first + dots + rest)
        read.append(tuple(shape[place] for place in at))
    return f"{','.join(shorter)}->{right}", read


def _steps(terms: list[list[str]], output: list[str], sizes: dict[str, int]) -> int:
    """Multiply-adds of contracting the first two terms, the result with the third, and so on."""
    total = 0
    current = terms[0]
    for index, term in enumerate(terms[1:], 1):
        together = dict.fromkeys([*current, *term])
        total += math.prod(sizes[label] for label in together)
        later = {label for other in terms[index + 1 :] for label in other} | set(output)
        current = [label for label in together if label in later]
    return total


def _labels(term: str, shape: tuple[int, ...]) -> list[str]:
    """One label a dimension; those of an ellipsis are numbered from the right."""
    if "..." not in term:
        return list(term)
    before, _, after = term.partition("...")
    hidden = len(shape) - len(before) - len(after)
    return [*before, *(f".{index}" for index in range(hidden, 0, -1)), *after]


def _output(left: str, right: str, arrow: str, terms: list[list[str]], sizes: dict[str, int]) -> list[str]:
    dots = sorted((label for label in sizes if label.startswith(".")), reverse=True)
    if not arrow:  # labels that occur once, in alphabetical order
        plain = left.replace("...", "").replace(",", "")
        return [*dots, *sorted(label for label in set(plain) if plain.count(label) == 1)]
    before, ellipsis, after = right.partition("...")
    return [*before, *(dots if ellipsis else []), *after]
