"""Flat stretches of a curve over working-set size, whatever they show."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

# A step in log(y) worth a boundary: the cost of one more segment, in squared standard deviations. The
# deviation is the curve's own, within these bounds: steps and ramps must not pass for noise.
_NOISE, _MOST_NOISE = 0.03, 0.08
_BOUNDARY_COST = 10.0
# A plateau spans at least this many octaves of x and points, and is this flat from end to end.
MINIMUM_OCTAVES = 0.7
MINIMUM_POINTS = 3
_FLATNESS = 1.25
SAME_HEIGHT = 1.12
# Main memory has steps of its own (TLB reach, open pages), never one of this factor: a plateau so much
# above it is a cache, however wrong the reported capacity (a hypervisor may name a part of it).
SURELY_CACHED = 2.0


@dataclass(frozen=True)
class Flat:
    """A flat stretch: the indices of its first and last points, its median height."""

    first: int
    last: int
    height: float


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
    long = last - first + 1 >= MINIMUM_POINTS and math.log2(x[last] / x[first]) >= MINIMUM_OCTAVES
    return bool(long and inner[-1] / inner[0] <= _FLATNESS)


def _alike(y: Sequence[float], left: tuple[int, int], right: tuple[int, int]) -> bool:
    """Whether two stretches have the same height."""
    heights = [float(np.median(y[a : b + 1])) for a, b in (left, right)]
    return max(heights) / min(heights) <= SAME_HEIGHT
