"""Flat stretches of a curve over working-set size, found first and named after memory levels afterwards."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from rooflab.machines.bench.levels.flats import SAME_HEIGHT, SURELY_CACHED, Flat
from rooflab.machines.bench.levels.joined import Stretch, joined

# What leaving a plateau without a name costs, in octaves of capacity.
_UNNAMED_COST = 4.0
# Where along a plateau (in octaves, 0 to 1) it is measured again: nearer its far end, where loop and
# wrap-around overheads are small, but clear of the edge.
_REPRESENTATIVE = 0.65


@dataclass(frozen=True)
class NamedPlateau:
    """A flat stretch with the memory level it shows.

    Attributes:
        level: "L1", "L2", "L3", "DRAM".
        first_bytes, last_bytes: smallest and largest working set on it.
        capacity_bytes: the most bytes that this level was seen to keep; None for the last level.
        height: y.
        from_latency: whether only the latency curve shows it, or its end.
    """

    level: str
    first_bytes: float
    last_bytes: float
    capacity_bytes: float | None
    height: float
    from_latency: bool = False

    @property
    def representative_bytes(self) -> float:
        """A working set well inside."""
        octaves = math.log2(self.last_bytes / self.first_bytes)
        return self.first_bytes * 2 ** (octaves * _REPRESENTATIVE)


def named_plateaus(
    x: Sequence[float],
    y: Sequence[float],
    caches: Sequence[tuple[str, float | None]],
    memory: str = "DRAM",
    loads_per_s: Sequence[float | None] | None = None,
) -> tuple[NamedPlateau, ...]:
    """The plateaus of a falling bandwidth curve and of its latency curve, each with the level that it shows.

    Args:
        x: working sets of one core, in bytes, ascending.
        y: bandwidth.
        caches: the levels near to far ("L1", "L2", …) with the capacity that the system reports for one
            core's use; None where it reports none.
        memory: name of the level beyond the caches.
        loads_per_s: of dependent loads at each working set, where they were measured.

    The last points are always main memory: the sweep goes far beyond every reported cache. Caches are
    given to the remaining plateaus in order, by the distance of found from reported capacity; a cache
    that no plateau fits is left out, and a plateau that no cache fits too. A faster plateau in front of a
    cache's own is that cache too, before an extra step (the TLB's reach, other guests): its height is the
    roof, the last one's end the capacity.
    """
    stretches = joined(x, y, loads_per_s, [reported for _, reported in caches])
    *inner, last = stretches
    kept = [_kept(x, y, stretch, after) for stretch, after in itertools.pairwise(stretches)]
    flat = [stretch.flat for stretch in inner]
    labels = _assigned(
        [x[stretch.last] for stretch in inner], [_speedup(stretch, last) for stretch in inner], caches
    )
    plateaus = []
    for place, label in enumerate(labels):
        if label is not None:
            shown = max(flat[_front(labels, place) : place], key=_height, default=flat[place])
            if shown.height < SAME_HEIGHT * flat[place].height:
                shown = flat[place]
            unblurred = inner[place].from_latency
            first, end = x[shown.first], x[shown.last]
            plateaus.append(NamedPlateau(label, first, end, kept[place], shown.height, unblurred))
    return (*plateaus, NamedPlateau(memory, x[last.flat.first], x[last.flat.last], None, last.flat.height))


def _speedup(stretch: Stretch, memory: Stretch) -> float:
    """How much faster than main memory, by bandwidth or by latency, whichever tells more."""
    ratio = stretch.flat.height / memory.flat.height
    if stretch.step and memory.step:
        ratio = max(ratio, stretch.step.height / memory.step.height)
    return ratio


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


def _kept(x: Sequence[float], y: Sequence[float], stretch: Stretch, behind: Stretch) -> float:
    """The capacity behind a plateau: the most bytes of any working set that its level still served.

    Between two plateaus the time per byte is a mixture, 1/y = h/upper + (1 − h)/lower; a working set x
    has h·x of its bytes in the nearer level. On the plateau itself h is 1, as where latency is still flat.
    A longer ramp hides something else, such as a level that noise left without a plateau: no more than
    twice the plateau is believed.
    """
    flat, after = stretch.flat, behind.flat
    end = stretch.last
    kept, most = x[end], 2 * x[end]
    if flat.height <= after.height:
        return min(kept, most)
    for place in range(end + 1, after.first):
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
                    # Of the outermost alone: nobody is wrong by octaves about a cache of one core.
                    if speedups[plateau] >= SURELY_CACHED and level == len(caches) - 1:
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
