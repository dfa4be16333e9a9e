"""Counted kernels as a trace, so that they are laid beside a program too; and several of them as one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import msgspec

from rooflab.observe.reading.recording import Recording
from rooflab.types.counted import Counted, Counters
from rooflab.types.trace import Trace
from rooflab.types.work import Flop, Traffic


def as_trace(counters: Counters) -> tuple[Trace, list[Counted]]:
    """The timed kernels of `counters`, one after the other as the file has them; and what was counted of each.

    Counters run kernels by themselves, so their starts say nothing: the order is kept, the pauses are none.
    """
    timed = [one for one in counters.rows if one.time_s is not None]
    recording = Recording()
    start_s = 0.0
    for one in timed:
        recording.kernel(one.name, start_s, one.time_s or 0.0, device=0)
        start_s += one.time_s or 0.0
    return recording.trace(counters.source), timed


def together(several: Sequence[Counted]) -> Counted:
    """Kernels that ran for one operation as one: sums; accesses and metrics are those of the longest."""
    if len(several) == 1:
        return several[0]
    longest = max(several, key=lambda one: one.time_s or 0.0)
    return msgspec.structs.replace(
        longest,
        name=f"{longest.name} and {len(several) - 1} more",
        time_s=sum(one.time_s or 0.0 for one in several),
        flop=flop_of([one.flop for one in several]),
        traffic=traffic_of([one.traffic for one in several]),
        instructions=_sum([one.instructions for one in several]),
        thread_instructions=_sum([one.thread_instructions for one in several]),
        transactions=_transactions([one.transactions for one in several]),
    )


def _sum(values: Sequence[float | None]) -> float | None:
    known = [one for one in values if one is not None]
    return sum(known) if len(known) == len(values) else None


def flop_of(several: Sequence[tuple[Flop, ...] | None], each: float = 1.0) -> tuple[Flop, ...] | None:
    """The FLOP of `several` by engine and format, each times `each`; None where those of one are not known."""
    counts: dict[Flop, float] = defaultdict(float)
    for one in several:
        if one is None:
            return None
        for work in one:
            counts[msgspec.structs.replace(work, count=0.0)] += work.count
    return tuple(msgspec.structs.replace(of, count=count * each) for of, count in counts.items())


def traffic_of(several: Sequence[tuple[Traffic, ...]], each: float = 1.0) -> tuple[Traffic, ...]:
    """The traffic of `several` at the levels that all have, each times `each`."""
    by_level = [{traffic.level: traffic for traffic in one} for one in several]
    return tuple(
        msgspec.structs.replace(
            first,
            read_bytes=each * sum(one[first.level].read_bytes for one in by_level),
            write_bytes=each * sum(one[first.level].write_bytes for one in by_level),
        )
        for first in several[0]
        if all(first.level in one for one in by_level)
    )


def _transactions(several: Sequence[dict[str, float]]) -> dict[str, float]:
    shared = set(several[0]).intersection(*several[1:])
    return {name: sum(one[name] for one in several) for name in several[0] if name in shared}
