"""How long several cores take that share lines: their own accesses, and the lines that they take from each other.

The order of a simulation, one access each in turn, is the worst: a line then changes hands at every access. A real
core goes on while it waits: stores stay in its store buffer, its own loads find them there, and when the line has
come all of them are done at once. So a line handed over for plain accesses costs its latency over the entries of
that buffer at best, all of its latency at worst; atomics and locks wait for all of it.

Checked on two cores of an AMD EPYC guest (two counters in one line, 8 bytes apart, against a line apart): 1.5 ns
for each increment against 0.75 ns measured, 1.5 against 0.57 ns predicted; one access at a time would take a whole
latency between cores, 52 ns.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from rooflab.types.core_simulation import CoreCounts, CoreSimulation
from rooflab.types.machine import Machine, is_main_memory

# Entries of a store buffer: Skylake 56, Ice Lake 72 (Intel's optimization manual), Zen 3 64 (AMD 56665).
STORES_IN_FLIGHT = 56
# Lines that one core fetches at once: 10 line fill buffers of Intel's cores since Nehalem, 12 since Ice Lake.
LINES_IN_FLIGHT = 10
_ACCESSES_PER_CYCLE = 2  # of cores with two load ports or one and a store port
_ADDITION_CYCLES = (1, 4)  # of integers, and of floating point numbers that wait for one another
_WAITED = 8  # how much more often than the buffer allows a line may change hands: between that and each access


class Span(NamedTuple):
    """Seconds: with everything that can overlap overlapped, a best guess, and with nothing overlapped."""

    fast_s: float
    best_s: float
    slow_s: float


class CoreTimes(NamedTuple):
    """Seconds of the slowest core: what it does alone, and what lines cost that cores take from each other."""

    alone: Span
    sharing: Span


def core_times(
    simulation: CoreSimulation, machine: Machine, buffered: bool, additions: float = 0.0
) -> CoreTimes | str:
    """The times of `simulation` on `machine`, a CPU; or which number of it is missing.

    Args:
        simulation: of several cores.
        machine: whose latencies, clock and link between cores are taken.
        buffered: whether the lines that change hands are loaded and stored plainly, not by atomics or locks.
        additions: of each core, in registers, that the simulation has no accesses of.
    """
    link = next((one for one in machine.links if one.name == "core to core" and one.latency_s), None)
    clock_hz = max((rate.value for rate in machine.clocks if rate.per_s == "cycle"), default=None)
    if link is None or link.latency_s is None:
        return f"{machine.name} states no latency from core to core (rooflab measure finds it)"
    if clock_hz is None:
        return f"{machine.name} states no clock"
    latencies = {level.name: level.latency_s for level in machine.levels}
    latencies["memory"] = next((each.latency_s for each in machine.levels if is_main_memory(each)), None)
    times = []
    for core in simulation.cores:
        alone = _alone(core, simulation, latencies, clock_hz)
        if isinstance(alone, str):
            return f"{machine.name} states no latency of {alone}"
        low_s, high_s = (
            each_s + additions * cycles / clock_hz
            for each_s, cycles in zip((alone.fast_s, alone.slow_s), _ADDITION_CYCLES, strict=True)
        )
        alone = Span(low_s, math.sqrt(low_s * high_s), high_s)
        # A copy that is received and then stored to is asked for once by a real core, by its store.
        handed_s = max(core.received, core.upgrades) * link.latency_s
        quick_s = handed_s / STORES_IN_FLIGHT if buffered else handed_s
        sharing = Span(quick_s, quick_s, min(handed_s, quick_s * _WAITED))
        times.append(CoreTimes(alone, sharing))
    return max(times, key=lambda each: each.alone.best_s + each.sharing.best_s)


def _alone(
    core: CoreCounts, simulation: CoreSimulation, latencies: dict[str, float | None], clock_hz: float
) -> Span | str:
    """What a core takes without the others; or the level whose latency is missing."""
    first = latencies.get(core.levels[0].name)
    if first is None:
        return core.levels[0].name
    waits_s = 0.0
    for level in core.levels[1:]:
        latency_s = latencies.get(level.name)
        if latency_s is None and level.hits:
            return level.name
        waits_s += level.hits * (latency_s or 0.0)
    fetched = max(0, core.levels[-1].misses - core.received)
    shared = simulation.shared
    served = 0.0 if shared is None or not shared.requests else shared.hits / shared.requests
    for name, count in (
        (shared.name if shared else "memory", fetched * served),
        ("memory", fetched * (1 - served)),
    ):
        if count and latencies.get(name) is None:
            return name
        waits_s += count * (latencies.get(name) or 0.0)
    fast_s = (core.loads + core.stores) / _ACCESSES_PER_CYCLE / clock_hz
    slow_s = core.loads * first
    low_s, high_s = fast_s + waits_s / LINES_IN_FLIGHT, max(fast_s, slow_s) + waits_s
    return Span(low_s, math.sqrt(low_s * high_s), high_s)
