"""What must stay in a cache for a loop to find what it loaded before, and what each level then serves.

The footprint of one iteration of a loop is what its accesses touch, in whole lines. Where a cache holds it, the
next iteration finds what the two share, and the whole loop loads each line once; where it does not, the loops
inside load theirs anew in each iteration (Rivera and Tseng, SC 2000). Nests one after the other are apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from rooflab.loops.static.nests import Access, Nest, Nested
from rooflab.loops.static.polynomial import Polynomial
from rooflab.types.simulation import Cache
from rooflab.units import iec

_ZERO = Polynomial.constant(0)


class _Loop(NamedTuple):
    """A loop of the function; `path` ends with it, and is empty for the function itself."""

    path: tuple[Nested, ...]
    accesses: list[Access]
    inside: list[_Loop]

    @property
    def name(self) -> str:
        return self.path[-1].variable

    def every(self) -> Iterator[Access]:
        """All accesses in it, those of the loops inside included."""
        yield from self.accesses
        for each in self.inside:
            yield from each.every()


class Layers:
    """Footprints of the loops of a function at its sizes.

    Args:
        nest: the function.
        items: bytes of an element, by array.
        shapes: of the arrays.
        line_bytes: of the caches.
    """

    def __init__(
        self, nest: Nest, items: Mapping[str, int], shapes: Mapping[str, tuple[int, ...]], line_bytes: int
    ) -> None:
        self.sizes, self.items, self.shapes, self.line = nest.sizes, items, shapes, line_bytes
        self.root = _Loop((), [], [])
        # By access, which the root keeps alive, and depth: asked for again at every loop and cache.
        self._known: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
        for access in nest.accesses:
            at = self.root
            for depth in range(1, len(access.loops) + 1):
                path = access.loops[:depth]
                inner = next((each for each in at.inside if each.path == path), None)
                if inner is None:
                    inner = _Loop(path, [], [])
                    at.inside.append(inner)
                at = inner
            at.accesses.append(access)

    def conditions(self, caches: Sequence[Cache]) -> tuple[str, ...]:
        """Which loops' iterations find in each cache what the ones before loaded."""
        return tuple(
            line for cache in caches for line in self._conditions_of(self.root, cache, len(self.root.inside) > 1)
        )

    def traffic(self, caches: Sequence[Cache]) -> dict[str, float]:
        """Bytes that each level serves to the nearer one: lines loaded, and those written to once more."""
        names = [cache.name or "" for cache in caches[1:]] + ["memory"]
        every = list(self.root.every())
        parts = [[access for access in every if access.array == array] for array in {a.array for a in every}]
        parts += [[access for access in part if access.write] for part in parts]
        return {
            name: sum(self._moved(self.root, cache.capacity_bytes, part) for part in parts)
            for name, cache in zip(names, caches, strict=True)
        }

    def _conditions_of(self, loop: _Loop, cache: Cache, apart: bool) -> Iterator[str]:
        cache_text = f"{cache.name} ({iec(cache.capacity_bytes)})"
        where = f", line {loop.path[0].line}" if loop.path and apart else ""
        whole = self._whole(loop)
        if whole <= cache.capacity_bytes:
            what = f"all of the loop over {loop.name} fits" if loop.path else "everything fits"
            yield f"{cache_text}{where}: {what} ({iec(whole)})"
        elif loop.path and self._iteration(loop) <= cache.capacity_bytes:
            outer = loop.path[-2].variable if len(loop.path) > 1 else ""
            further = f", not for {outer} (needs {iec(whole)})" if outer else f"; the whole needs {iec(whole)}"
            condition = f"layer condition holds for {loop.name} ({iec(self._iteration(loop))})"
            yield f"{cache_text}{where}: {condition}{further}"
        elif loop.inside:
            for each in loop.inside:
                yield from self._conditions_of(each, cache, apart or len(loop.inside) > 1)
        else:
            yield f"{cache_text}{where}: no layer condition holds, not even for the innermost loop"

    def _moved(self, loop: _Loop, capacity_bytes: int, wanted: Sequence[Access]) -> float:
        """Bytes of the lines that `wanted`, accesses of one array, load in one run of `loop`."""
        here = [access for access in wanted if access.loops[: len(loop.path)] == loop.path]
        if not here:
            return 0.0
        if min(self._whole(loop), self._iteration(loop) if loop.path else math.inf) <= capacity_bytes:
            return self._footprint(here, len(loop.path) - 1)
        own = [access for access in here if len(access.loops) == len(loop.path)]
        each = self._footprint(own, len(loop.path)) + sum(
            self._moved(inner, capacity_bytes, here) for inner in loop.inside
        )
        return self._times(loop, here) * each if loop.path else each

    def _times(self, loop: _Loop, accesses: Sequence[Access]) -> float:
        """Trips of `loop`; of tiles that `accesses` move with, the last is the part that there is."""
        middle, last = self._middle(loop.path), loop.path[-1]
        if all(_moves(access, last) for access in accesses):
            return (last.high_at(middle) - int(last.low.at(middle))) / int(last.step.at(middle))
        return last.trips_at(middle)

    def _whole(self, loop: _Loop) -> float:
        """Bytes that one run of `loop` touches."""
        return self._footprint(list(loop.every()), len(loop.path) - 1)

    def _iteration(self, loop: _Loop) -> float:
        """Bytes that one iteration of `loop` touches."""
        return self._footprint(list(loop.every()), len(loop.path))

    def _footprint(self, accesses: Sequence[Access], depth: int) -> float:
        """Bytes, in whole lines, that `accesses` touch while the loops around them from `depth` on run."""
        rows: dict[tuple[object, ...], list[tuple[int, int, int]]] = {}
        counts: dict[tuple[object, ...], int] = {}
        for access in accesses:
            spans = self._spans(access, max(depth, 0))
            # Rows that a loop sweeps are one block, however far apart the accesses in it begin.
            swept = tuple(None if distinct > 1 else first for first, _, distinct in spans[:-1])
            key = (access.array, *swept)
            rows.setdefault(key, []).append(spans[-1])
            counts[key] = max(counts.get(key, 1), math.prod(distinct for _, _, distinct in spans[:-1]))
        return sum(self._lines(str(key[0]), spans, counts[key]) for key, spans in rows.items()) * self.line

    def _lines(self, array: str, spans: Sequence[tuple[int, int, int]], rows: int) -> float:
        """Lines of so many rows of `array` that are touched; spans that meet in a line are one."""
        size, width = self.items[array], self.shapes[array][-1]
        total = 0.0
        start, end, number = None, 0, 0
        for first, last, distinct in [*sorted(spans), (None, 0, 0)]:
            if start is not None and first is not None and (first - end) * size < self.line:
                end, number = max(end, last), number + distinct
                continue
            if start is not None:
                length = end - start + 1
                lines = float(-(-length * size // self.line))
                if rows > 1 and length == width:
                    # Whole rows follow each other without a gap: where one ends in a line, the next begins.
                    lines = length * size / self.line
                elif rows > 1 and width * size % self.line:
                    # Rows begin at all places of a line that this divides: the mean over them.
                    apart = math.gcd(width * size, length * size, self.line)
                    lines = 1 + (length * size - apart) / self.line
                total += rows * min(lines, number)
            start, end, number = first, last, distinct
        return total

    def _spans(self, access: Access, depth: int) -> list[tuple[int, int, int]]:
        """The first and last value of each index while the loops from `depth` on run, and how many there are."""
        cached = self._known.get((id(access), depth))
        if cached is not None:
            return cached
        trips = self._trips(access.loops)
        middle = self._middle(access.loops)
        inner = access.loops[depth:]
        spans = []
        for axis, place in enumerate(access.places):
            for loop in reversed(inner):
                # The number of the trip in place of the variable, so that i − ii does not depend on ii.
                trip = Polynomial.symbol(loop.variable)
                place = place.put({loop.variable: loop.low + loop.step * trip})
            zero = {loop.variable: _ZERO for loop in inner}
            first = last = int(place.put(zero).at(middle))
            distinct = 1
            for loop, count in zip(inner, trips[depth:], strict=True):
                powers = place.coefficients(loop.variable)
                slope = int(powers[1].put(zero).at(middle)) if len(powers) > 1 else 0
                if slope:
                    far = slope * (count - 1)
                    first, last, distinct = first + min(far, 0), last + max(far, 0), distinct * count
            # The last tile may be cut short: no index leaves its array.
            length = min(last - first + 1, self.shapes[access.array][axis])
            spans.append((first, first + length - 1, min(distinct, length)))
        self._known[id(access), depth] = spans
        return spans

    def _middle(self, loops: Sequence[Nested]) -> dict[str, int]:
        """A value of each loop variable in the middle of its range, outermost first."""
        values = dict(self.sizes)
        for loop in loops:
            step, low = int(loop.step.at(values)), int(loop.low.at(values))
            values[loop.variable] = low + step * (loop.trips_at(values) // 2)
        return values

    def _trips(self, loops: Sequence[Nested]) -> list[int]:
        """Trips of each loop, those around it in the middle of theirs."""
        middle = self._middle(loops)
        return [loop.trips_at(middle) for loop in loops]


def _moves(access: Access, loop: Nested) -> bool:
    """Whether a place of `access` differs from trip to trip of `loop`, as i does with ii of i in ii … ii + t."""
    for place in access.places:
        for inner in reversed(access.loops):
            if inner == loop:
                break
            place = place.put({inner.variable: inner.low + inner.step * Polynomial.symbol(inner.variable)})
        if loop.variable in place.symbols:
            return True
    return False
