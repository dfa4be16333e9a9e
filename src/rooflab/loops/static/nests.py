"""Loop nests in polyhedral terms, and how often what is in them runs, as a formula in the sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rooflab.loops.static.polynomial import Polynomial

ONE = Polynomial.constant(1)


class NotAffineError(Exception):
    """What keeps a nest from having a formula, with its line."""


class Nested(NamedTuple):
    """A loop of a nest: `variable` runs from `low` in steps of `step` and stays below the least of `highs`.

    Attributes:
        trips: as a formula; None where only the loops around it decide: the rest of a tile.
        line: of the source; two loops alike are still two.
    """

    variable: str
    low: Polynomial
    highs: tuple[Polynomial, ...]
    step: Polynomial = ONE
    trips: Polynomial | None = None
    line: int = 0

    def high_at(self, values: Mapping[str, int]) -> int:
        """The end where every name has a value."""
        ends = [int(high.at(values)) for high in self.highs]
        # Counting down it is the greatest that stops it, but of those there is only ever one.
        return min(ends)

    def trips_at(self, values: Mapping[str, int]) -> int:
        """Trips where every name has a value."""
        step = int(self.step.at(values))
        return max(0, -(-(self.high_at(values) - int(self.low.at(values))) // step))


class Access(NamedTuple):
    """One access: `places` are its indices, `loops` those around it, outermost first."""

    array: str
    places: tuple[Polynomial, ...]
    write: bool
    loops: tuple[Nested, ...]


class Nest(NamedTuple):
    """A function in polyhedral terms.

    Attributes:
        flop: with the loops around each count.
        accesses: all of them.
        sizes: values of the names in the formulas.
    """

    flop: tuple[tuple[int, tuple[Nested, ...]], ...]
    accesses: tuple[Access, ...]
    sizes: Mapping[str, int]


def total(parts: Sequence[tuple[int, tuple[Nested, ...]]]) -> Polynomial:
    """The sum of each number times the trips of the loops around it.

    Raises:
        NotAffineError: a loop whose trips have no closed form.
    """
    sum_of_all = Polynomial({})
    for number, loops in parts:
        each = Polynomial.constant(number)
        for loop in reversed(joined(loops)):
            each = _summed(each, loop)
        sum_of_all = sum_of_all + each
    return sum_of_all


def joined(loops: tuple[Nested, ...]) -> tuple[Nested, ...]:
    """`loops` with each loop over tiles and the one within its tile as the one that they come to.

    for ii in range(0, n, t): … for i in range(ii, min(ii + t, n)) takes every i from 0 to n − 1 once, whether
    t divides n or not, as long as nothing else depends on ii.
    """
    for inner, point in enumerate(loops):
        for outer, tile in enumerate(loops[:inner]):
            rest = [each for n, each in enumerate(loops) if n not in (outer, inner)]
            if _fills(point, tile) and not any(_uses(each, tile.variable) for each in rest):
                whole = point._replace(low=tile.low, highs=tile.highs)
                return joined((*loops[:outer], *loops[outer + 1 : inner], whole, *loops[inner + 1 :]))
    return loops


def _fills(point: Nested, tile: Nested) -> bool:
    start = Polynomial.symbol(tile.variable)
    ends = {*tile.highs, start + tile.step}
    return point.step == 1 and tile.step != 1 and point.low == start and set(point.highs) == ends


def _uses(loop: Nested, variable: str) -> bool:
    return any(variable in each.symbols for each in (loop.low, *loop.highs, loop.step))


def _summed(each: Polynomial, loop: Nested) -> Polynomial:
    """The sum of `each` over the trips of `loop`."""
    if len(loop.highs) == 1 and loop.step == 1:
        return each.summed(loop.variable, loop.low, loop.highs[0])
    if loop.trips is None:
        ends = ", ".join(str(high) for high in loop.highs)
        raise NotAffineError(
            f"line {loop.line}: how often {loop.variable} is taken below min({ends}) has no closed form here"
        )
    # The number of the trip stands for the variable; no name in a program has a space.
    count = Polynomial.symbol(f"trip of {loop.variable}")
    each = each.put({loop.variable: loop.low + loop.step * count})
    return each.summed(f"trip of {loop.variable}", Polynomial.constant(0), loop.trips)
