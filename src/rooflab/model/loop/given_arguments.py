"""A core's functions timed for the arguments that a run gave them, and their branches foretold wrongly."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from rooflab.types.core_timing import CoreTiming

ORDERED = "ordered "  # what a row of arguments in ascending order begins with


def timing_of(timing: CoreTiming, dearer: Mapping[str, float], how: str = "") -> CoreTiming:
    """`timing` with functions that take so many times as long as for usual arguments (`CoreLoop.dearer`).

    `how`: `ORDERED`, where hardly a branch of theirs is foretold wrongly.
    """
    if not dearer:
        return timing
    each = {kind: cycles * dearer.get(f"{how}{kind}", 1.0) for kind, cycles in timing.throughput.items()}
    latency = {kind: cycles * dearer.get(f"{how}latency {kind}", 1.0) for kind, cycles in timing.latency.items()}
    return replace(timing, throughput=each, latency=latency)


def missed_in(kind: str, timing: CoreTiming, ordered: CoreTiming) -> float:
    """Branches that a call of a function foretells wrongly: what it takes longer than on ordered arguments."""
    if kind not in timing.throughput or not timing.missed_branch:
        return 0.0
    return max(0.0, timing.throughput[kind] - ordered.throughput[kind]) / timing.missed_branch
