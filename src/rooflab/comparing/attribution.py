"""Where a difference in time comes from: causes whose seconds add up to it exactly.

A row's time is taken as launches × overhead of one + max(FLOP × s/FLOP, bytes × s/byte) × distance from that roof.
Between two such rows every factor may differ. What each contributes is its Shapley value: what exchanging it alone
does to the time, averaged over all orders in which the factors can be exchanged (Shapley 1953; Shorrocks, J. of
Economic Inequality 11, 2013). So no order is preferred, and the parts add up whatever the numbers are.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable

from rooflab.types.comparison import Measure, Term

# What a reader is told of each factor.
BYTES, FLOP, ROOFS, EFFICIENCY, LAUNCHES, OVERHEAD = "bytes", "FLOP", "roofs", "efficiency", "launches", "overhead"
ADDED, REMOVED, UNEXPLAINED = "added", "removed", "not told apart"
CAUSES = (BYTES, FLOP, ROOFS, EFFICIENCY, LAUNCHES, OVERHEAD, ADDED, REMOVED, UNEXPLAINED)
_DUST = 1e-12
_BODY = (FLOP, BYTES, ROOFS, EFFICIENCY)


def terms_of(base: Measure | None, other: Measure | None) -> tuple[Term, ...]:
    """What the time of `other` has more than that of `base`, by cause; () where a time is unknown."""
    if base is None or other is None:
        one = other or base
        if one is None or one.time_s is None:
            return ()
        return _terms({ADDED: one.time_s} if base is None else {REMOVED: -one.time_s})
    if base == other or base.time_s is None or other.time_s is None:
        return ()
    apart = base.overhead_s is not None and other.overhead_s is not None
    over = (base.overhead_s or 0.0, other.overhead_s or 0.0) if apart else (0.0, 0.0)
    # Never more than the row takes: a model may let a start run beside the work.
    over = min(over[0], base.time_s), min(over[1], other.time_s)
    found = _overheads(base, other, over) if apart else {}
    body = base.time_s - over[0], other.time_s - over[1]
    for cause, seconds in _bodies(base, other, body).items():
        found[cause] = found.get(cause, 0.0) + seconds
    return _terms(_without_dust(found, other.time_s - base.time_s, max(base.time_s, other.time_s)))


def added(each: Iterable[tuple[Term, ...]]) -> tuple[Term, ...]:
    """The terms of several rows together, largest first."""
    parts: dict[str, list[float]] = {}
    for terms in each:
        for term in terms:
            parts.setdefault(term.cause, []).append(term.seconds)
    sums = {cause: math.fsum(seconds) for cause, seconds in parts.items()}
    whole = math.fsum(second for seconds in parts.values() for second in seconds)
    return _terms(_without_dust(sums, whole, max(map(abs, sums.values()), default=0.0)))


def _without_dust(found: dict[str, float], change: float, size: float) -> dict[str, float]:
    """`found` without what is left in the last bits of numbers of that `size`: the largest takes it."""
    kept = {cause: seconds for cause, seconds in found.items() if abs(seconds) > _DUST * size}
    largest = max(kept, key=lambda cause: abs(kept[cause]), default=None)
    if largest is not None:
        kept[largest] += change - math.fsum(kept.values())
    return kept


def _terms(found: dict[str, float]) -> tuple[Term, ...]:
    kept = [Term(cause=cause, seconds=seconds) for cause, seconds in found.items() if seconds]
    return tuple(sorted(kept, key=lambda term: (-abs(term.seconds), CAUSES.index(term.cause))))


def _overheads(base: Measure, other: Measure, over: tuple[float, float]) -> dict[str, float]:
    """Shapley values of a product of two: the change of each times the mean of the other."""
    n0, n1 = base.launches, other.launches
    if not n0 or not n1:
        return {OVERHEAD: over[1] - over[0]}
    each0, each1 = over[0] / n0, over[1] / n1
    return {LAUNCHES: (n1 - n0) * (each0 + each1) / 2, OVERHEAD: (each1 - each0) * (n0 + n1) / 2}


def _bodies(base: Measure, other: Measure, body: tuple[float, float]) -> dict[str, float]:
    sides = []
    for one, seconds in zip((base, other), body, strict=True):
        if one.flop is None or one.nbytes is None or one.roof_compute_s is None or one.roof_memory_s is None:
            return {UNEXPLAINED: body[1] - body[0]}
        roof_s = max(one.roof_compute_s, one.roof_memory_s)
        if not roof_s:
            return {UNEXPLAINED: body[1] - body[0]}
        sides.append((one, seconds / roof_s))
    (one, far0), (two, far1) = sides
    # What is not asked for on one side has no rate there: that of the other side stands for it.
    per_flop = _rates((one.roof_compute_s, one.flop), (two.roof_compute_s, two.flop))
    per_byte = _rates((one.roof_memory_s, one.nbytes), (two.roof_memory_s, two.nbytes))
    values = {
        FLOP: (one.flop, two.flop),
        BYTES: (one.nbytes, two.nbytes),
        ROOFS: (0, 1),
        EFFICIENCY: (far0, far1),
    }

    def time_s(exchanged: tuple[bool, ...]) -> float:
        flop, nbytes, roofs, far = (values[cause][taken] for cause, taken in zip(_BODY, exchanged, strict=True))
        return max(flop * per_flop[roofs], nbytes * per_byte[roofs]) * far

    return dict(zip(_BODY, _shapley(time_s, len(_BODY)), strict=True))


def _rates(base: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    rates = [seconds / work if work else None for seconds, work in (base, other)]
    first, second = rates
    return (
        first if first is not None else second or 0.0,
        second if second is not None else first or 0.0,
    )


def _shapley(value, count: int) -> list[float]:
    """Each factor's part of `value(all exchanged)` less `value(none exchanged)`."""
    known = {subset: value(subset) for subset in itertools.product((False, True), repeat=count)}
    parts = []
    for factor in range(count):
        total = 0.0
        for subset, before in known.items():
            if subset[factor]:
                continue
            size = sum(subset)
            weight = math.factorial(size) * math.factorial(count - size - 1) / math.factorial(count)
            after = known[(*subset[:factor], True, *subset[factor + 1 :])]
            total += weight * (after - before)
        parts.append(total)
    return parts
