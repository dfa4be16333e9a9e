"""A measurement's checks of its capacities: as reported, or why a guest finds less."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rooflab.machines import served_share
from rooflab.types.machine import Check, Level, Machine, is_main_memory
from rooflab.units import iec, percent

# Found over reported: the sweep has a few sizes an octave, and a cache takes a little more than it holds.
_CAPACITY_SHARE = (0.75, 1.5)
# Share of a physically indexed cache's lines that find room at the edge of the speed of the whole.
_KEPT = 0.97
_WAYS, _STEP, _SWEEP_STEP = 8, 0.01, 0.15
_SERVED = 0.25  # share of a stream as large as a shared cache is reported that a guest is served at least


def capacities(machine: Machine, hypervisor: str | None) -> Iterator[Check]:
    """Whether each cache was found about as large as reported."""
    for level in machine.levels:
        reported = level.reported_capacity_bytes
        if reported is None or is_main_memory(level) or level.name[0] != "L":
            continue
        if level.capacity_bytes is None:
            message = f"{level.name}: {iec(reported)} reported, but no plateau shows it; its roof is left unknown."
            yield Check(name=f"{level.name} capacity", ok=False, message=message)
            continue
        share = level.capacity_bytes / reported
        alike = _CAPACITY_SHARE[0] <= share <= _CAPACITY_SHARE[1]
        message = f"{level.name}: {iec(level.capacity_bytes, 3)} found, {iec(reported)} reported"
        explained = "" if alike else _explained(level, share, machine, hypervisor)
        if explained:
            yield Check(name=f"{level.name} capacity", ok=True, message=f"{message}; {explained}.")
            continue
        cause = "" if alike else f"; likely {_why_not_reported(level, share, hypervisor)}"
        yield Check(name=f"{level.name} capacity", ok=alike, message=f"{message}{cause}.")


def _explained(level: Level, share: float, machine: Machine, hypervisor: str | None) -> str:
    """Why less of a guest's cache was found than reported, where that is as it must be; "" where it is not.

    A host keeps its guests' memory in pages of 4 KiB wherever there is room. The sets of a private cache that the
    lines of a page fall into are then drawn at random, a colour of each page, of which as many find room as there
    are ways. A shared cache serves a part of what is larger than a guest's share of it.
    """
    if hypervisor is None or share > 1:
        return ""
    if level.shared_by == 1 and level.name != "L1":
        ways = level.ways or _WAYS
        if share >= room_share(ways) - _SWEEP_STEP:
            return (
                "the host keeps this guest's memory in small pages that lie at random over its sets of"
                f" {ways} ways: of more than was found some lines displace each other"
            )
        return ""
    served = served_share.of_last_cache(machine)
    if served is None or served.level != level.name or level.reported_capacity_bytes is None:
        return ""
    of_reported = served.of(level.reported_capacity_bytes)
    if of_reported < _SERVED:
        return ""
    return (
        f"other guests share it: of data as large as it is reported {percent(of_reported)} were still served,"
        " which predicted times count in"
    )


def room_share(ways: int) -> float:
    """How full a cache of that many ways may be for nearly all lines to find room, where pages lie at random.

    Others of a page's colour are Poisson-distributed about ways × share; with fewer than ways it finds room.
    """
    share = 0.0
    while share < 1:
        mean = (share + _STEP) * ways
        if sum(math.exp(-mean) * mean**n / math.factorial(n) for n in range(ways)) < _KEPT:
            break
        share += _STEP
    return share


def _why_not_reported(level: Level, share: float, hypervisor: str | None) -> str:
    """The likely cause for a cache of which `share` was found of what is reported."""
    if share > 1:
        under = ", or the hypervisor reports too little" if hypervisor else ""
        return f"other work blurred the edge to the next level{under}: measure again"
    if level.shared_by == 1:
        owner = "of another guest " if hypervisor else ""
        return f"an SMT sibling {owner}or other work used this core's cache during the sweep: measure again"
    if hypervisor:
        return "shared with other guests of this host, or capped by the hypervisor"
    return "shared with other work, or partitioned (cache allocation)"
