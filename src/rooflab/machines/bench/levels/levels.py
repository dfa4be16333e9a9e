"""From the sweeps to the levels of this machine: where each is measured again, and what it was found to hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rooflab.machines.bench.levels.flats import flats
from rooflab.machines.bench.levels.plateaus import NamedPlateau, named_plateaus
from rooflab.machines.bench.run.trials import Samples
from rooflab.timing import Series

MAIN_MEMORY = "DRAM"
# A point this far under both neighbours was disturbed: curves over size have steps, not notches.
_NOTCH = 0.93
# Working sets of a level's latency are at least this many times the nearer one: few of their lines lie there.
_CLEAR_OF_NEARER = 2.5


@dataclass(frozen=True)
class CoreCache:
    """A cache as the operating system reports it, for one core.

    Attributes:
        name: "L1", "L2", "L3".
        capacity_bytes: of one instance.
        shared_by: how many physical cores share an instance; `granted_sharers` of those measured.
        line_bytes, ways: as reported.
    """

    name: str
    capacity_bytes: float | None
    shared_by: int | None = None
    granted_sharers: int = 1
    line_bytes: int | None = None
    ways: int | None = None


@dataclass(frozen=True)
class MeasuredLevel:
    """A level and the working sets, per core, at which it is measured.

    Attributes:
        plateau: the stretch of the one-core sweep that shows it.
        core_bytes, all_bytes: working set per core, on one core and with all cores streaming.
        reported: what the system says about it; None for main memory.
    """

    plateau: NamedPlateau
    core_bytes: int
    all_bytes: int
    reported: CoreCache | None

    @property
    def name(self) -> str:
        """The level's name."""
        return self.plateau.level


def curve(sweep: Mapping[int, Samples]) -> tuple[list[float], list[float]]:
    """Sizes and best values, ready for plateau finding: notches are lifted to their lower neighbour."""
    x = [float(size) for size in sweep]
    y = np.array([samples.series.best for samples in sweep.values()])
    lifted = y.copy()
    for place in range(1, len(y) - 1):
        lifted[place] = max(y[place], min(y[place - 1], y[place + 1]))
    return x, [float(value) for value in lifted]


def notches(sweep: Mapping[int, Samples]) -> list[int]:
    """The sizes whose best value lies well under both neighbours': worth measuring again."""
    sizes = list(sweep)
    best = [samples.series.best for samples in sweep.values()]
    return [sizes[k] for k in range(1, len(sizes) - 1) if best[k] < _NOTCH * min(best[k - 1], best[k + 1])]


def edges(sweep: Mapping[int, Samples]) -> list[int]:
    """The two sizes after each flat stretch but the last: they decide how large a level is found."""
    sizes = list(sweep)
    *inner, _ = flats(*curve(sweep)) or (None,)
    return [sizes[k] for flat in inner if flat for k in (flat.last + 1, flat.last + 2) if k < len(sizes)]


def remeasured(
    sweep: dict[int, Samples], again: Callable[[list[int]], Mapping[int, Samples]], attempts: int = 2
) -> dict[int, Samples]:
    """`sweep` with the notched sizes and those at edges measured again, samples added to the first ones."""
    for attempt in range(attempts):
        sizes = sorted({*notches(sweep), *(edges(sweep) if attempt == 0 else ())})
        if not sizes:
            break
        for size, samples in again(sizes).items():
            sweep[size].taken.extend(samples.taken)
    return sweep


def measured_levels(
    core: Mapping[int, Samples],
    every: Mapping[int, Samples] | None,
    reported: Sequence[CoreCache],
    memory_bytes: int,
    latency: Mapping[int, Series] | None = None,
) -> tuple[MeasuredLevel, ...]:
    """The levels that the curves of one core show, near to far, each with the sizes to measure it at.

    Args:
        core: the one-core sweep.
        every: the sweep with all cores streaming; None where only one core is granted, or it was left out.
        reported: the caches of one core.
        memory_bytes: the working set per core that is main memory's when all cores stream.
        latency: loads per second of the first core, by working set.
    """
    by_name = {cache.name: cache for cache in reported}
    served = {size: series.best for size, series in (latency or {}).items() if series.values}
    plateaus = named_plateaus(
        *curve(core),
        [(cache.name, cache.capacity_bytes) for cache in reported],
        MAIN_MEMORY,
        [served.get(size) for size in core] if served else None,
    )
    together = {}
    if every:
        shares = [
            (cache.name, cache.capacity_bytes / cache.granted_sharers if cache.capacity_bytes else None)
            for cache in reported
        ]
        together = {plateau.level: plateau for plateau in named_plateaus(*curve(every), shares, MAIN_MEMORY)}
    levels = []
    for plateau in plateaus:
        cache = by_name.get(plateau.level)
        core_bytes = _size(plateau)
        all_bytes = core_bytes
        if plateau.level == MAIN_MEMORY:
            all_bytes = memory_bytes
        elif cache and cache.granted_sharers > 1:
            all_bytes = _shared_size(plateau, cache.granted_sharers, together.get(plateau.level))
        levels.append(MeasuredLevel(plateau, core_bytes, all_bytes, cache))
    return tuple(levels)


def _size(plateau: NamedPlateau) -> int:
    """Main memory is measured at the far end, a cache well inside its plateau."""
    if plateau.capacity_bytes is None:
        return int(plateau.last_bytes)
    return int(plateau.representative_bytes)


def _shared_size(plateau: NamedPlateau, sharers: int, together: NamedPlateau | None) -> int:
    """The working set per core at which `sharers` cores together still lie on a shared cache's plateau."""
    overlap = together is not None and plateau.first_bytes / 2 <= together.representative_bytes
    if together is not None and overlap and together.first_bytes < plateau.last_bytes:
        return int(min(together.representative_bytes, plateau.representative_bytes))
    share = (plateau.capacity_bytes or plateau.last_bytes) / sharers
    return int(max(plateau.first_bytes, math.sqrt(plateau.first_bytes * max(share, plateau.first_bytes))))


def latency_size(latency: Mapping[int, Series], place: MeasuredLevel, nearer: MeasuredLevel | None) -> int | None:
    """The working set that shows the latency of the level at `place` best; None where none was measured.

    Of those clear of the level before it, the one with the lowest latency: larger ones say no more, and
    other guests evict more of their lines while the chase goes round.
    """
    least = place.plateau.first_bytes
    if nearer is not None:
        reported = nearer.reported.capacity_bytes if nearer.reported else None
        least = _CLEAR_OF_NEARER * max(nearer.plateau.capacity_bytes or 0, reported or 0)
    sizes = [size for size, series in latency.items() if series.values]
    inside = [size for size in sizes if least <= size <= place.plateau.last_bytes]
    if inside:
        return max(inside, key=lambda size: latency[size].best)
    return max((size for size in sizes if size <= place.core_bytes), default=None)


def in_doubt(levels: Sequence[MeasuredLevel], reported: Sequence[CoreCache], sizes: Sequence[int]) -> list[int]:
    """The working sets between the caches around one that is reported but was not found; none where all were."""
    found = {place.name for place in levels}
    doubtful: set[int] = set()
    nearer = 0.0
    for cache in reported:
        if cache.capacity_bytes:
            if cache.name not in found:
                doubtful |= {size for size in sizes if nearer / 1.5 <= size <= 1.5 * cache.capacity_bytes}
            nearer = cache.capacity_bytes
    return sorted(doubtful)
