"""What a line takes that an access stepping over lines asks for, where such lines meet in few sets of L1.

A level takes in a line for one of its sets while it gives up another of that set, so that lines that follow each
other into few sets come one by one, whatever could be under way at once. By how far apart they lie this was
measured (`machines/bench/experiments/core_accesses.py`): of lines only read, changed
after that, and stored into.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rooflab.model.device.constants import load_family
from rooflab.types.core_timing import LINE_ROW, CoreTiming
from rooflab.types.loop import LoopReport, Walk
from rooflab.types.simulation import Cache

_FEW = 1 / 8  # of the sets of L1: into more of them lines come as fast as the next level gives them


class Line(NamedTuple):
    """What a line of a walk takes in the mean.

    Attributes:
        seconds: until the next; 0 where lines meet in no few sets.
        written: the share of them that is written back.
    """

    seconds: float
    written: float


def line_of(report: LoopReport, latency_s: float, timing: CoreTiming | None) -> Line:
    """What a line takes that accesses stepping over lines ask for, in the mean.

    The walks of one loop go on side by side: each through sets of its own, and all through the same door; stages
    of a run follow each other.

    Args:
        report: of a loop.
        latency_s: of the level that serves the lines, from which the time follows where `timing` does not say it.
        timing: how long the core's operations take, where that was measured.
    """
    cache = (report.warm or report.simulation).levels[0].cache
    by_loop: dict[tuple[int | None, int], list[Walk]] = defaultdict(list)
    for walk in report.walks:
        by_loop[walk.loop, walk.stage].append(walk)
    missed = sum(walk.misses for walk in report.walks)
    if not missed:
        return Line(0.0, 0.0)

    def each_s(kind: str, among: int) -> float:
        if among > _FEW * cache.sets:
            return 0.0
        curve = _measured(kind, timing)
        if curve is None:
            return latency_s / (load_family("cpu")("loop.conflicting_in_flight") * among)
        apart = cache.sets * cache.line_bytes / among
        return float(np.interp(math.log(apart), *curve))

    taken = 0.0
    for walks in by_loop.values():
        found = [sets(cache, walk.stride_bytes) for walk in walks]
        together = min(cache.sets, _sets_of_all(walks, found))
        longest_s = max(walk.misses * each_s(walk.kind, among) for walk, among in zip(walks, found, strict=True))
        through_s = sum(walk.misses * each_s(walk.kind, together) for walk in walks)
        if any(walk.kind != "read" for walk in walks):
            # while a changed line is given up, lines of other walks come into other sets: a part is hidden
            longest_s = (longest_s + through_s) / 2
        taken += max(longest_s, through_s)
    written = sum(walk.misses for walk in report.walks if walk.kind != "read")
    return Line(taken / missed, written / missed)


def _sets_of_all(walks: Sequence[Walk], found: Sequence[int]) -> int:
    """Sets that the walks of a loop go through: `found` of each, once where they are at the same place of arrays.

    Large arrays begin at the same place of a page, so that what stands at the same index of several, as far apart,
    lies in the same sets.
    """
    apart: dict[tuple[str, int], int] = {}
    for walk, among in zip(walks, found, strict=True):
        _, bracket, index = walk.text.partition("[")
        place = index if bracket else f"{walk.text} of line {walk.line}"
        apart[place, walk.stride_bytes] = among
    return sum(apart.values())


def _measured(kind: str, timing: CoreTiming | None) -> tuple[Sequence[float], Sequence[float]] | None:
    """(logarithms of bytes apart, ascending; seconds of a line) as `timing` has them; None where it has none."""
    if timing is None:
        return None
    before, _, behind = LINE_ROW.format(kind=kind, apart="|").partition("|")
    rows = sorted(
        (math.log(float(name.removeprefix(before).removesuffix(behind))), cycles * timing.cycle_s)
        for name, cycles in timing.throughput.items()
        if name.startswith(before) and name.endswith(behind)
    )
    return ([each for each, _ in rows], [each for _, each in rows]) if rows else None


def sets(cache: Cache, stride_bytes: int) -> int:
    """Sets of `cache` that lines so far apart fall into, one after the other; all for a stride of 0."""
    if not stride_bytes:
        return cache.sets
    # after so many steps an access lies in the same set, at the same place of a line
    round_bytes = cache.sets * cache.line_bytes
    return min(cache.sets, round_bytes // math.gcd(round_bytes, stride_bytes))
