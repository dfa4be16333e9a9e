"""What share of data that is gone round again and again the last cache serves, by its size: from a measured sweep.

A cache that replaced strictly by last use would serve all of what fits and nothing of what is larger. Real last
caches do not: they protect what was used again (Jaleel et al., "High performance cache replacement using
re-reference interval prediction", ISCA 2010), spread lines over slices, and share themselves with neighbours. The
sweep of bandwidth shows what comes of it, since between two levels the time of a byte is a mixture: of the share h
that the cache serves and the rest, 1 / y = h / cache + (1 − h) / memory.

Neighbours put lines of their own into a shared cache all the while: what comes round only after a time t finds
r · t bytes of theirs there. Two sweeps go round the same sizes at different speeds, streams and a chase of
pointers that waits for each load: at half served, one has gone round x bytes in little time, the other fewer in a
long one, and x + r · t is the same of both.

One stream that is read alone is fetched far ahead, and what of it the cache misses is hidden in part. Of several
places that are gone through side by side it is not: a second sweep, of rows, shows what is served of those.
"""

from __future__ import annotations

import statistics
from typing import NamedTuple

import numpy as np

from rooflab.types.machine import Curve, Level, Machine, Scope, is_cache, is_main_memory

_APART = 1.3  # the cache's bandwidth ÷ the memory's from which on a mixture of both tells their shares
_FEWEST = 4  # points beyond the cache nearer by
_HALF = 0.5
_WHOLE = 0.95  # of what the cache attains: points of its plateau differ by as much, and are served whole
_LINE_BYTES = 64
_AS_ROWS = 2  # places beside the first from which on a stream is missed as rows are
_TAIL = 3  # points at the far end that are the memory's


class Served(NamedTuple):
    """Shares that a level serves.

    Attributes:
        level: its name.
        sizes: bytes of all threads together and of their neighbours, ascending.
        shares: of a stream that comes round after so many, from 1 to 0, never rising.
        neighbours_bytes_per_s: that others put into the cache meanwhile.
    """

    level: str
    sizes: tuple[float, ...]
    shares: tuple[float, ...]
    neighbours_bytes_per_s: float = 0.0

    def of(self, nbytes: float, seconds: float = 0.0) -> float:
        """The share of what comes round after `nbytes` and so long; between what was measured by logarithms."""
        passed = nbytes + self.neighbours_bytes_per_s * seconds
        if passed <= self.sizes[0]:
            return 1.0
        return float(np.interp(np.log(passed), np.log(self.sizes), self.shares))


def of_last_cache(machine: Machine, scope: Scope = "core") -> Served | None:
    """What the last cache of `machine` was measured to serve of one stream; None where no sweep shows it.

    Args:
        machine: with its sweep of read bandwidth.
        scope: of one core, or of all that were measured, each with an equal part of the bytes.
    """
    found = _of_sweep(machine, "read bandwidth", scope)
    if found is None:
        return None
    last, streams, seconds = found
    return _beside_neighbours(streams, seconds, _neighbours(machine, last, streams, seconds))


def of_rows(machine: Machine, scope: Scope = "core") -> Served | None:
    """The same of places that each core goes through side by side; None where no sweep of rows shows it."""
    one, found = of_last_cache(machine, scope), _of_sweep(machine, "bandwidth of rows side by side", scope)
    if one is None or found is None:
        return None
    _, rows, seconds = found
    return _beside_neighbours(rows, seconds, one.neighbours_bytes_per_s)


def between(one: Served, rows: Served, places: int, nbytes: float, seconds: float) -> float:
    """The share of what comes round after `nbytes` and so long, gone through at so many places side by side."""
    part = min(1.0, max(0, places - 1) / _AS_ROWS)
    return (1 - part) * one.of(nbytes, seconds) + part * min(one.of(nbytes, seconds), rows.of(nbytes, seconds))


def _beside_neighbours(served: Served, seconds: list[float], per_s: float) -> Served:
    sizes = tuple(x + per_s * each for x, each in zip(served.sizes, seconds, strict=True))
    return served._replace(sizes=sizes, neighbours_bytes_per_s=per_s)


def _of_sweep(machine: Machine, name: str, scope: Scope) -> tuple[Level, Served, list[float]] | None:
    """The last cache, its shares by what was gone round, and the seconds that each round took."""
    caches = [each for each in machine.levels if is_cache(each) and each.capacity_bytes]
    curve = machine.curve(name, scope)
    if not caches or curve is None or not any(is_main_memory(each) for each in machine.levels):
        return None
    last, nearer = caches[-1], caches[-2] if len(caches) > 1 else None
    threads = together(last, curve)
    clear = 1.5 * max(nearer.capacity_bytes or 0, nearer.reported_capacity_bytes or 0) if nearer else 0.0
    points = [(x * threads, y) for x, y in zip(curve.x, curve.best, strict=True) if x > clear]
    if len(points) < _FEWEST + _TAIL:
        return None
    memory = statistics.median(y for _, y in points[-_TAIL:])
    within = [y for x, y in points if x <= (last.capacity_bytes or 0) / 2]
    cache = statistics.median(within) if within else max(y for _, y in points)
    if cache < _APART * memory:
        return None
    shares = [(1 / y - 1 / memory) / (1 / cache - 1 / memory) for _, y in points]
    fitted = tuple(falling([min(1.0, max(0.0, each) / _WHOLE) for each in shares]))
    return last, Served(last.name, tuple(x for x, _ in points), fitted), [x / y for x, y in points]


def _neighbours(machine: Machine, last: Level, streams: Served, seconds: list[float]) -> float:
    """Bytes/s that neighbours put into the cache `last`, by what a chase and `streams` of so many seconds find."""
    memory = next(each for each in machine.levels if is_main_memory(each))
    chase = machine.curve("latency", "core")
    if chase is None or last.latency_s is None or memory.latency_s is None or last.shared_by == 1:
        return 0.0
    half_s = (last.latency_s + memory.latency_s) / 2
    slow = falling([-each for each in chase.best])
    reached = next((n for n, each in enumerate(slow) if -each >= half_s), None)
    half = next((n for n, each in enumerate(streams.shares) if each <= _HALF), None)
    if reached is None or half is None:
        return 0.0
    waited_s = chase.x[reached] / (last.line_bytes or _LINE_BYTES) * half_s
    more, longer_s = streams.sizes[half] - chase.x[reached], waited_s - seconds[half]
    return max(0.0, more / longer_s) if longer_s > 0 else 0.0


def falling(values: list[float]) -> list[float]:
    """The numbers nearest to `values` by least squares that never rise: neighbours that do are averaged."""
    blocks: list[tuple[float, int]] = []
    for value in values:
        blocks.append((value, 1))
        while len(blocks) > 1 and blocks[-2][0] < blocks[-1][0]:
            (one, many), (other, more) = blocks[-2:]
            blocks[-2:] = [((one * many + other * more) / (many + more), many + more)]
    return [value for value, count in blocks for _ in range(count)]


def together(last: Level, curve: Curve) -> int:
    """How many threads of the sweep share an instance of the cache."""
    return min(curve.threads or 1, last.shared_by or 1)
