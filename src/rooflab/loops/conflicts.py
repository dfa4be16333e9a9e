"""What is said of lines that push each other out of a cache though it has room: conflict misses."""

from __future__ import annotations

from rooflab.types.loop import Static
from rooflab.types.simulation import Simulation
from rooflab.units import percent

_MORE, _SHARE = 1.5, 1 / 3  # misses ÷ those that capacity explains; conflicts among a level's misses
_SAME_SETS = "lines map to the same sets, as with a power-of-two row stride; pad rows by one cache line"
_ENDS = 16  # lines that the ends of arrays and rows may share with nothing: no conflicts


def sentences(static: Static, simulation: Simulation) -> list[str]:
    """Sentences on levels that serve much more than caches without conflicts of the same size would need."""
    if simulation.levels[0].conflict is not None:
        return classified(simulation)
    made = []
    for each, near in zip(simulation.traffic, simulation.levels, strict=True):
        needed = static.traffic_bytes.get(each.level)
        if needed and each.nbytes > _MORE * needed + _ENDS * near.cache.line_bytes:
            made.append(
                f"{near.name} misses {each.nbytes / needed:.1f} × what its capacity explains: conflict misses;"
                f" {_SAME_SETS}"
            )
    return made


def classified(simulation: Simulation) -> list[str]:
    """The same of classified misses, where conflicts are a third of a level's or more: with the worst array."""
    made = []
    for level in simulation.levels:
        if level.conflict and level.conflict >= _SHARE * level.misses:
            worst = max(level.arrays, key=lambda each: each.conflict or 0)
            made.append(
                f"{level.name}: {percent(level.conflict / level.misses)} of its misses are conflict misses, "
                "most of"
                f" {worst.name}: {_SAME_SETS}"
            )
    return made
