"""Flat stretches of a curve over working-set size, found first and named after memory levels afterwards."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

# A step in log(y) worth a boundary: the cost of one more segment, in squared standard deviations. The
# deviation is the curve's own, within these bounds: steps and ramps must not pass for noise.
_NOISE, _MOST_NOISE = 0.03, 0.08
_BOUNDARY_COST = 10.0
# A plateau spans at least this many octaves of x and points, and is this flat from end to end.
_MINIMUM_OCTAVES = 0.7
_MINIMUM_POINTS = 3
_FLATNESS = 1.25
_SAME_HEIGHT = 1.12
# What leaving a plateau without a name costs, in octaves of capacity.
_UNNAMED_COST = 4.0
# Main memory has steps of its own (TLB reach, open pages), never one of this factor: a plateau so much
# above it is a cache, however wrong the reported capacity (a hypervisor may name a part of it).
_SURELY_CACHED = 2.0
# Where along a plateau (in octaves, 0 to 1) it is measured again: nearer its far end, where loop and
# wrap-around overheads are small, but clear of the edge.
_REPRESENTATIVE = 0.65


@dataclass(frozen=True)
class Flat:
    """A flat stretch: the indices of its first and last points, its median height."""

    first: int
    last: int
    height: float


@dataclass(frozen=True)
class NamedPlateau:
    """A flat stretch with the memory level it shows.

    Attributes:
        level: "L1", "L2", "L3", "DRAM".
        first_bytes, last_bytes: smallest and largest working set on it.
        capacity_bytes: the most bytes that this level was seen to keep; None for the last level.
        height: y.
    """

    level: str
    first_bytes: float
    last_bytes: float
    capacity_bytes: float | None
    height: float

    @property
    def representative_bytes(self) -> float:
        """A working set well inside."""
        octaves = math.log2(self.last_bytes / self.first_bytes)
        return self.first_bytes * 2 ** (octaves * _REPRESENTATIVE)


def flats(x: Sequence[float], y: Sequence[float]) -> tuple[Flat, ...]:
    """The flat stretches of y over log x, left to right.

    The points are cut into segments by least squares on log y with a price on each cut (optimal
    partitioning, Jackson et al. 2005, IEEE Signal Process. Lett. 12, 105); segments that are long and
    flat enough stay, neighbours of one height become one, ramps between them belong to nobody.
    """
    log_y = np.log(np.asarray(y, float))
    segments = _segments(log_y)
    kept = [(a, b) for a, b in segments if _is_flat(x, y, a, b)]
    merged: list[tuple[int, int]] = []
    for a, b in kept:
        if merged and _alike(y, merged[-1], (a, b)) and _is_flat(x, y, merged[-1][0], b):
            merged[-1] = (merged[-1][0], b)
        else:
            merged.append((a, b))
    return tuple(Flat(a, b, float(np.exp(np.median(log_y[a : b + 1])))) for a, b in merged)


def named_plateaus(
    x: Sequence[float], y: Sequence[float], caches: Sequence[tuple[str, float | None]], memory: str = "DRAM"
) -> tuple[NamedPlateau, ...]:
    """The plateaus of a falling bandwidth curve, each with the level that it shows.

    Args:
        x: working sets of one core, in bytes, ascending.
        y: bandwidth.
        caches: the levels near to far ("L1", "L2", …) with the capacity that the system reports for one
            core's use; None where it reports none.
        memory: name of the level beyond the caches.

    The last points are always main memory: the sweep goes far beyond every reported cache. Caches are
    given to the remaining plateaus in order, by the distance of found from reported capacity; a cache
    that no plateau fits is left out, and a plateau that no cache fits too. A faster plateau in front of a
    cache's own is that cache too, before an extra step (the TLB's reach, other guests): its height is the
    roof, the last one's end the capacity.
    """
    stretches = list(flats(x, y))
    if not stretches or stretches[-1].last < len(x) - 1:
        tail = list(y[-2:])
        stretches.append(Flat(len(x) - len(tail), len(x) - 1, float(np.median(tail))))
    *inner, last = stretches
    kept = [_kept(x, y, flat, after) for flat, after in itertools.pairwise(stretches)]
    labels = _assigned([x[flat.last] for flat in inner], [flat.height / last.height for flat in inner], caches)
    plateaus = []
    for place, label in enumerate(labels):
        if label is not None:
            shown = max(inner[_front(labels, place) : place], key=_height, default=inner[place])
            if shown.height < _SAME_HEIGHT * inner[place].height:
                shown = inner[place]
            plateaus.append(NamedPlateau(label, x[shown.first], x[shown.last], kept[place], shown.height))
    return (*plateaus, NamedPlateau(memory, x[last.first], x[last.last], None, last.height))


def _height(flat: Flat) -> float:
    return flat.height


def _front(labels: Sequence[str | None], place: int) -> int:
    """Where the unnamed plateaus begin that belong to the cache named at `place`; `place` where none do.

    They do where the plateau before them is the next nearer cache's: else they may be a cache in between.
    """
    start = place
    while start > 0 and labels[start - 1] is None:
        start -= 1
    nearer = labels[start - 1] if start else None
    return start if _number(labels[place]) == _number(nearer) + 1 else place


def _number(level: str | None) -> int:
    """3 for "L3", 0 for none."""
    return int(level[1:]) if level else 0


def _kept(x: Sequence[float], y: Sequence[float], flat: Flat, after: Flat) -> float:
    """The capacity behind a plateau: the most bytes of any working set that its level still served.

    Between two plateaus the time per byte is a mixture, 1/y = h/upper + (1 − h)/lower; a working set x
    has h·x of its bytes in the nearer level. On the plateau itself h is 1. A longer ramp hides something
    else, such as a level that noise left without a plateau: no more than twice the plateau is believed.
    """
    kept, most = x[flat.last], 2 * x[flat.last]
    for place in range(flat.last + 1, after.first):
        served = (1 / y[place] - 1 / after.height) / (1 / flat.height - 1 / after.height)
        kept = max(kept, x[place] * min(1.0, max(0.0, served)))
    return min(kept, most)


def _assigned(
    capacities: Sequence[float], speedups: Sequence[float], caches: Sequence[tuple[str, float | None]]
) -> list[str | None]:
    """The cache of each plateau, in order, by the least total distance of log capacities.

    Args:
        capacities: found.
        speedups: height over main memory's.
        caches: names and reported capacities.
    """
    if all(reported is None for _, reported in caches):
        names = [name for name, _ in caches] or [f"L{k + 1}" for k in range(len(capacities))]
        names += [f"L{k + 1}" for k in range(len(names), len(capacities))]
        return list(names[: len(capacities)])
    best: tuple[float, list[str | None]] = (math.inf, [None] * len(capacities))
    for count in range(min(len(capacities), len(caches)), -1, -1):
        for plateaus in itertools.combinations(range(len(capacities)), count):
            for levels in itertools.combinations(range(len(caches)), count):
                cost = _UNNAMED_COST * (len(capacities) - count)
                for plateau, level in zip(plateaus, levels, strict=True):
                    distance = _distance(capacities[plateau], caches[level][1])
                    if speedups[plateau] >= _SURELY_CACHED:
                        distance = min(distance, 0.95 * _UNNAMED_COST)
                    cost += distance
                if cost < best[0]:
                    labels: list[str | None] = [None] * len(capacities)
                    for plateau, level in zip(plateaus, levels, strict=True):
                        labels[plateau] = caches[level][0]
                    best = (cost, labels)
    return best[1]


def _distance(measured: float, reported: float | None) -> float:
    """Octaves between capacities; one measured above reported counts thrice: a guest is granted less, not more."""
    if reported is None:
        return 1.0
    octaves = math.log2(measured / reported)
    return 3 * octaves if octaves > 0 else -octaves


def _segments(values: np.ndarray) -> list[tuple[int, int]]:
    """Optimal partition of `values` into constant segments, as (first, last) indices."""
    count, noise = len(values), _noise(values)
    sums = np.concatenate([[0.0], np.cumsum(values)])
    squares = np.concatenate([[0.0], np.cumsum(values**2)])
    cost = np.full(count + 1, np.inf)
    cost[0] = -_BOUNDARY_COST
    start = np.zeros(count + 1, int)
    for end in range(1, count + 1):
        begins = np.arange(end)
        total = sums[end] - sums[begins]
        error = squares[end] - squares[begins] - total**2 / (end - begins)
        options = cost[begins] + np.maximum(error, 0) / noise**2 + _BOUNDARY_COST
        start[end] = int(np.argmin(options))
        cost[end] = options[start[end]]
    segments, end = [], count
    while end > 0:
        segments.append((int(start[end]), end - 1))
        end = int(start[end])
    return segments[::-1]


def _noise(values: np.ndarray) -> float:
    """The standard deviation of `values` about their plateaus.

    Differences of neighbours have √2 of it, and their median absolute value, which few steps do not
    move, is 0.6745 of a normal deviation.
    """
    if len(values) < 2:
        return _NOISE
    deviation = float(np.median(np.abs(np.diff(values)))) / (0.6745 * math.sqrt(2))
    return min(max(deviation, _NOISE), _MOST_NOISE)


def _is_flat(x: Sequence[float], y: Sequence[float], first: int, last: int) -> bool:
    """Long and flat enough, its noisiest tenth set aside."""
    values = np.sort(np.asarray(y[first : last + 1], float))
    trim = len(values) // 10
    inner = values[trim : len(values) - trim]
    long = last - first + 1 >= _MINIMUM_POINTS and math.log2(x[last] / x[first]) >= _MINIMUM_OCTAVES
    return bool(long and inner[-1] / inner[0] <= _FLATNESS)


def _alike(y: Sequence[float], left: tuple[int, int], right: tuple[int, int]) -> bool:
    """Whether two stretches have the same height."""
    heights = [float(np.median(y[a : b + 1])) for a, b in (left, right)]
    return max(heights) / min(heights) <= _SAME_HEIGHT
