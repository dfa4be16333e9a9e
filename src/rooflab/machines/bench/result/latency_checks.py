"""A measurement's checks of its latencies: in order, and the same from run to run."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from rooflab.types.machine import Check, Machine
from rooflab.units import si

# Bandwidths and latencies of real hierarchies are ordered only to within this (seen on GPUs too).
ORDER_TOLERANCE = 0.08
# (median − best) / median up to which runs agree: of a private cache, and of what is shared with others.
_PRIVATE_SPREAD, _SHARED_SPREAD = 0.05, 0.20
_ON_A_GUEST = 2  # times as wide where a host takes cores and caches away for moments
_PRIVATE = ("L1", "L2")


def latency_order(machine: Machine) -> Iterator[Check]:
    """Whether latency rises with distance: from level to level, and to memory while others stream."""
    latencies = [
        (level.name, level.latency_s) for level in machine.levels if level.latency_s and level.name[0] in "LD"
    ]
    if len(latencies) < 2:
        return
    pairs = list(itertools.pairwise(latencies))
    pairs += [
        (latencies[-1], (f"{level.name} under load", level.loaded_latency_s))
        for level in machine.levels
        if level.loaded_latency_s and level.name == latencies[-1][0]
    ]
    # A line comes from another core's cache through this core's own first level.
    pairs += [
        (latencies[0], (link.name, link.latency_s))
        for link in machine.links
        if link.name == "core to core" and link.latency_s
    ]
    wrong = [
        f"{near} {si(first, 's')} is over {far} {si(second, 's')}"
        for (near, first), (far, second) in pairs
        if first > second * (1 + ORDER_TOLERANCE)
    ]
    message = "Latency rises from level to level."
    if wrong:
        message = f"{'; '.join(wrong)}: likely preempted while the nearer one was measured; measure again."
    yield Check(name="latency order", ok=not wrong, message=message)


def latency_spread(machine: Machine) -> Iterator[Check]:
    """Whether the runs of each latency agreed; one that nobody repeated is not judged."""
    noisy, compared = [], 0
    slack = 1 if machine.environment.get("hypervisor") is None else _ON_A_GUEST
    for name, latency_s, spread, bound in _latencies(machine):
        compared += 1
        if spread > bound * slack:
            # spread = (median − best) / median, so median = best / (1 − spread).
            median = latency_s / (1 - spread) if spread < 1 else latency_s
            noisy.append(f"{name} {si(latency_s, 's')}, half of the runs over {si(median, 's')}")
    if not compared:
        return
    message = f"The runs of all {compared} latencies agree within their bounds."
    if noisy:
        message = (
            f"Noisy latencies, the lowest of the runs given: {'; '.join(noisy)}. Likely a noisy neighbour, or "
            "cores that were taken away meanwhile; measure again on a quieter machine."
        )
    yield Check(name="latency spread", ok=not noisy, message=message)


def _latencies(machine: Machine) -> Iterator[tuple[str, float, float, float]]:
    """Name, seconds, spread and its bound of all that were measured more than once."""
    for level in machine.levels:
        if level.name[0] not in "LD":
            continue
        bound = _PRIVATE_SPREAD if level.name in _PRIVATE else _SHARED_SPREAD
        if level.latency_s and level.latency_spread is not None and (level.latency_runs or 0) > 1:
            yield level.name, level.latency_s, level.latency_spread, bound
        if level.loaded_latency_s and level.loaded_latency_spread is not None:
            yield f"{level.name} under load", level.loaded_latency_s, level.loaded_latency_spread, _SHARED_SPREAD
    for link in machine.links:
        if link.latency_s and link.spread is not None and (link.runs or 0) > 1:
            yield link.name, link.latency_s, link.spread, _SHARED_SPREAD
