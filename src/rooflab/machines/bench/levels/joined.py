"""Stretches of both curves joined: what only latency shows is a level too, what bandwidth alone blurs is cut."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rooflab.machines.bench.levels.flats import (
    MINIMUM_OCTAVES,
    MINIMUM_POINTS,
    SAME_HEIGHT,
    SURELY_CACHED,
    Flat,
    flats,
)

# Two neighbouring stretches of the latency curve are two levels from this ratio on, as is a stretch beside
# main memory: the nearest pairs are an L3 and its memory on large meshes (70 and 110 ns on Sapphire Rapids).
_OTHER_LEVEL = 1.4


@dataclass(frozen=True)
class Stretch:
    """A flat stretch with what both curves say of it.

    Attributes:
        flat: its points, and the bandwidth over them.
        last: the last point that is still its level's, by either curve.
        step: the stretch of the latency curve that shows the same level, loads per second being its height.
        from_latency: whether only the latency curve shows it, or its end.
    """

    flat: Flat
    last: int
    step: Flat | None = None
    from_latency: bool = False


def joined(
    x: Sequence[float],
    bandwidth: Sequence[float],
    loads_per_s: Sequence[float | None] | None,
    reported: Sequence[float | None] = (),
) -> tuple[Stretch, ...]:
    """The flat stretches that either curve shows, near to far; the last one is main memory's.

    Args:
        x: working sets, ascending.
        bandwidth: at each of them.
        loads_per_s: one over the latency at each of them; None where it was not measured.
        reported: capacities of the caches as the system reports them.

    Points that bandwidth leaves without a stretch, but on which latency is flat, are a level: a sibling
    thread or a prefetcher bends bandwidth, not the time of a dependent load. A stretch of bandwidth on
    which latency has a step near a reported capacity is two levels that stream at one speed.
    """
    found = list(flats(x, bandwidth))
    if not found or found[-1].last < len(x) - 1:
        found.append(_tail(bandwidth))
    steps = _falling(_latency_flats(x, loads_per_s)) if loads_per_s else []
    if not loads_per_s or not steps:
        return tuple(Stretch(flat, flat.last) for flat in found)
    cut: list[Stretch] = []
    for flat in found:
        cut += _cut(x, bandwidth, flat, steps, reported)
    memory = _quick(_surely_memory(x, loads_per_s, found[-1], reported))
    cut += _missing(x, bandwidth, found, steps, memory)
    *inner, last = sorted(cut, key=lambda stretch: stretch.flat.first)
    caches = [one for one in inner if not _is_memory(one, last, loads_per_s, memory)]
    return _ended(bandwidth, [*_of_one_level(caches), last])


def _is_memory(one: Stretch, last: Stretch, loads_per_s: Sequence[float | None], memory: float) -> bool:
    """Whether a stretch before the last one is main memory's too: not much faster by either curve."""
    if one.flat.height >= SURELY_CACHED * last.flat.height:
        return False
    loads = [value for value in loads_per_s[one.flat.first : one.flat.last + 1] if value]
    return bool(loads) and _quick(loads) < _OTHER_LEVEL * memory


def _surely_memory(
    x: Sequence[float], loads_per_s: Sequence[float | None], last: Flat, reported: Sequence[float | None]
) -> list[float]:
    """Loads per second of the last stretch, from twice the largest reported cache on where it goes so far."""
    far = 2 * max((size for size in reported if size), default=0.0)
    first = next((place for place in range(last.first, last.last + 1) if x[place] >= far), last.first)
    return [value for value in loads_per_s[first:] if value]


def _quick(loads: Sequence[float]) -> float:
    """The quickest quarter's edge: other guests evict lines of a cache, and never add any. Zero of none."""
    return float(np.quantile(loads, 0.75)) if loads else 0.0


def _ended(bandwidth: Sequence[float], stretches: Sequence[Stretch]) -> tuple[Stretch, ...]:
    """`stretches`, none reaching to where bandwidth is already the next one's."""
    ended = []
    for one, after in itertools.pairwise(stretches):
        slow = SAME_HEIGHT * after.flat.height
        end = min(one.last, after.flat.first - 1)
        if one.flat.height > slow:
            reached = (place for place in range(one.flat.last + 1, end + 1) if bandwidth[place] <= slow)
            end = next(reached, end + 1) - 1
        ended.append(replace(one, last=end))
    return (*ended, stretches[-1])


def _of_one_level(stretches: Sequence[Stretch]) -> list[Stretch]:
    """`stretches`, those on one flat stretch of latency as one: the fastest is what the level can stream."""
    merged: list[Stretch] = []
    for one in stretches:
        before = merged[-1] if merged else None
        if before is None or before.step is None or before.step is not one.step:
            merged.append(one)
            continue
        shown = max(before, one, key=_height)
        if one.flat.height * SAME_HEIGHT > before.flat.height:
            shown = max(before, one, key=_points)
        end = max(before.last, min(one.last, before.step.last))
        merged[-1] = Stretch(shown.flat, end, before.step, shown.from_latency)
    return merged


def _height(stretch: Stretch) -> float:
    return stretch.flat.height


def _points(stretch: Stretch) -> int:
    return stretch.flat.last - stretch.flat.first


def _tail(bandwidth: Sequence[float]) -> Flat:
    """The last two points: main memory's whatever they look like, since the sweep goes far beyond the caches."""
    first = max(0, len(bandwidth) - 2)
    return Flat(first, len(bandwidth) - 1, float(np.median(bandwidth[first:])))


def _latency_flats(x: Sequence[float], loads_per_s: Sequence[float | None]) -> list[Flat]:
    """The flat stretches of the latency curve, in places of x."""
    places = [place for place, value in enumerate(loads_per_s) if value]
    values = [value for value in loads_per_s if value]
    if len(values) < MINIMUM_POINTS:
        return []
    return [
        Flat(places[flat.first], places[flat.last], flat.height)
        for flat in flats([x[place] for place in places], _without_notches(values))
    ]


def _without_notches(values: Sequence[float]) -> list[float]:
    """Points under both neighbours lifted to the lower one: a disturbed chase is slow, never fast."""
    lifted = list(values)
    for place in range(1, len(values) - 1):
        lifted[place] = max(values[place], min(values[place - 1], values[place + 1]))
    return lifted


def _falling(steps: Sequence[Flat]) -> list[Flat]:
    """Stretches that are each clearly slower than the one before; those in between are noise or one level."""
    kept: list[Flat] = []
    for flat in steps:
        if kept and flat.height * _OTHER_LEVEL > kept[-1].height:
            continue
        kept.append(flat)
    return kept


def _cut(
    x: Sequence[float],
    bandwidth: Sequence[float],
    flat: Flat,
    steps: Sequence[Flat],
    reported: Sequence[float | None],
) -> list[Stretch]:
    """`flat`, in two where latency steps inside it and a cache is reported to end about there."""
    inside = [step for step in steps if _octaves(x, *_overlap(flat, step)) >= MINIMUM_OCTAVES]
    pieces: list[Stretch] = []
    first = flat.first
    for near, far in itertools.pairwise(inside):
        last = near.last
        if any(size and x[last] / 1.5 <= size <= 1.5 * x[far.first] for size in reported):
            pieces.append(_stretch(bandwidth, first, last, near))
            first = min(far.first, last + 1)
    rest = flat if not pieces else Flat(first, flat.last, float(np.median(bandwidth[first : flat.last + 1])))
    step = next((step for step in reversed(steps) if _same(x, rest, step)), None)
    end = rest.last if step is None else max(rest.last, step.last)
    return [*pieces, Stretch(rest, end, step, bool(pieces))]


def _missing(
    x: Sequence[float], bandwidth: Sequence[float], found: Sequence[Flat], steps: Sequence[Flat], memory: float
) -> list[Stretch]:
    """What latency shows where bandwidth has no stretch: clear of main memory's, and long enough by itself."""
    added = []
    for step in steps:
        if step.height < _OTHER_LEVEL * memory or any(_same(x, flat, step) for flat in found):
            continue
        first, last = step.first, min(step.last, found[-1].first - 1)
        for flat in found:
            if flat.first <= first <= flat.last:
                first = flat.last + 1
            if first < flat.first <= last:
                last = flat.first - 1
        if last - first + 1 >= MINIMUM_POINTS and _octaves(x, first, last) >= MINIMUM_OCTAVES:
            added.append(_stretch(bandwidth, first, last, step))
    return added


def _same(x: Sequence[float], flat: Flat, step: Flat) -> bool:
    """Whether a stretch of bandwidth and one of latency show one level: they share enough of their points."""
    first, last = _overlap(flat, step)
    return _octaves(x, first, last) >= MINIMUM_OCTAVES or 2 * (last - first + 1) > flat.last - flat.first + 1


def _stretch(bandwidth: Sequence[float], first: int, last: int, step: Flat) -> Stretch:
    return Stretch(
        Flat(first, last, float(np.median(bandwidth[first : last + 1]))), max(last, step.last), step, True
    )


def _overlap(one: Flat, other: Flat) -> tuple[int, int]:
    return max(one.first, other.first), min(one.last, other.last)


def _octaves(x: Sequence[float], first: int, last: int) -> float:
    return math.log2(x[last] / x[first]) if last >= first else 0.0
