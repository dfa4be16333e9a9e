"""What a nest takes: core and data beside each other in a loop, loops that follow each other in turn.

In a loop the core goes on beside the data, so that the longer of both counts, and a share of the shorter (the
execution-cache-memory model). Loops that follow each other do not: one that waits for the memory does not hide
what the next one computes. What is around loops goes with those inside, as a core runs ahead into the next entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rooflab.model.device.constants import load_family
from rooflab.types.loop import LoopReport, LoopTime

_FEW = 0.02  # of the core's time and of each level's misses: a loop with less is part of the others


class Beside(NamedTuple):
    """What does not go on entirely beside the other: the share of the core's time in which its units, not waiting,
    take it, and the share of the levels' time that is that of their bytes.

    Attributes:
        busy, streamed: these shares.
        more: share of the core's time by which its units take longer than the loads and stores of a plain stream
            of the same bytes, which bandwidths were measured with.
        far: share of the levels' time that is that of bytes of the main memory.
        walks_s: seconds of one core for walks of page tables.
        jumps_s: of one core, in which neither goes on: of rows whose first lines nobody foresaw.
        picked_s: of one core, that accesses at places that data decide take beside its own work.
    """

    busy: float
    streamed: float
    more: float = 0.0
    far: float = 0.0
    walks_s: float = 0.0
    jumps_s: float = 0.0
    picked_s: float = 0.0


class Part(NamedTuple):
    """One loop among those that follow each other.

    Attributes:
        core: its share of the core's time.
        levels: of each crossing's, L1's first.
    """

    core: float
    levels: tuple[float, ...]


class Composed(NamedTuple):
    """Seconds of a nest, and of them those that the shorter of core and data adds to the longer."""

    time_s: float
    beside_s: float


def of(core_s: float, levels_s: Sequence[float], beside: Beside, parts: Sequence[Part]) -> Composed:
    """What the nest takes.

    Args:
        core_s: of all its loops.
        levels_s: what each crossing adds to the data's way, L1's first.
        beside: how much of both is not hidden.
        parts: shares of its loops; all of it where there are none.
    """
    time_s = added_s = 0.0
    for part in parts or (Part(1.0, (1.0,) * len(levels_s)),):
        mine_s = part.core * core_s
        walks = part.levels[1] if len(part.levels) > 1 else 1.0
        moved_s = sum(share * each for share, each in zip(part.levels, levels_s, strict=True))
        moved_s += walks * beside.walks_s
        # while it waits for what data pick, streams come in
        shorter_s = _added_s(mine_s, max(0.0, moved_s - part.core * beside.picked_s), beside)
        time_s += max(mine_s, moved_s) + shorter_s + walks * beside.jumps_s
        added_s += shorter_s
    return Composed(time_s + beside.picked_s, added_s)


def _added_s(core_s: float, memory_s: float, beside: Beside) -> float:
    """What the shorter of both adds to the longer.

    Before a core that waits for the memory its window fills with what comes after, so that of what it does more
    than a plain stream nothing goes on beside (the non-overlapping loads of the execution-cache-memory model).
    """
    share = load_family("cpu")("loop.beside_data")
    added = share * min(beside.busy * core_s, beside.streamed * memory_s)
    return added + (1 - share) * min(beside.more * core_s, beside.far * memory_s)


def parts_of(report: LoopReport, loops: Sequence[LoopTime]) -> tuple[Part, ...]:
    """The shares of the innermost loops of the source, by the lines of the core's loops and of what misses.

    Empty where lines do not tell: one loop, code of other files, nothing profiled.
    """
    inner = innermost_of(report)
    numbers = {number for number, _ in report.source}
    if len(set(inner.values())) < 2 or any(
        each.line not in numbers for each in loops if each.time_s and each.line
    ):
        return ()
    names = [each.name for each in report.simulation.levels]
    core: dict[int, float] = {}
    for each in loops:
        head = head_of(inner, each.line)
        core[head] = core.get(head, 0.0) + each.time_s
    missed: list[dict[int, float]] = [{} for _ in names]
    for line in report.lines:
        head = head_of(inner, line.line)
        for number, name in enumerate(names):
            missed[number][head] = missed[number].get(head, 0.0) + line.misses.get(name, 0)
    whole = sum(core.values()), *(sum(each.values()) for each in missed)
    heads = sorted({*core, *(head for each in missed for head in each)})
    shares = {
        head: tuple(
            each.get(head, 0.0) / total if total else 0.0
            for each, total in zip((core, *missed), whole, strict=True)
        )
        for head in heads
    }
    kept = {head: each for head, each in shares.items() if max(each) >= _FEW}
    if len(kept) < 2:
        return ()
    # what was left out is divided as the rest is
    kept_of = [sum(column) for column in zip(*kept.values(), strict=True)]
    scaled = [
        tuple(share / total if total else 1 / len(kept) for share, total in zip(each, kept_of, strict=True))
        for each in kept.values()
    ]
    # what L1 itself serves is among what the core does
    return tuple(Part(first, (first, *others)) for first, *others in scaled)


def innermost_of(report: LoopReport) -> dict[int, int]:
    """The line in which the innermost loop begins that the lines from each loop's first on are counted to.

    What is around several loops is counted to the first of them.
    """
    found: dict[int, int] = {}
    ordered = sorted(report.loops, key=lambda each: (each.line, each.depth))
    for at, loop in enumerate(ordered):
        inner = loop
        for following in ordered[at + 1 :]:
            if following.depth <= inner.depth:
                break
            inner = following
        found[loop.line] = inner.line
    return found


def head_of(inner: dict[int, int], line: int) -> int:
    """The loop that a line is counted to: the last that begins before it; the first, where none does."""
    before = [each for each in inner if each <= line]
    return inner[max(before)] if before else inner[min(inner)]
