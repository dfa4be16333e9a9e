"""Why a device ran nothing: each gap between its activities with its cause."""

from __future__ import annotations

import re
from typing import NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from rooflab.observe.timeline.intervals import Array, Cover, named
from rooflab.types.timeline import Idle, IdleCause
from rooflab.types.trace import COPY, NONE, ON_HOST, Trace

# Calls of CUDA's and HIP's runtime that return when the device is done.
_WAITS = re.compile(r"(Device|Stream|Event|Ctx)Synchronize$|^(cuda|hip)(Free|Malloc)$")
# A copy to or from memory that is not pinned returns when it is done, also where its name says Async.
_COPIES = re.compile(r"^(cuda|hip|cu)Memcpy(?!.*(Batch|Prefetch))", re.IGNORECASE)
_LOADER = re.compile(r"DataLoader.*(__next__|_next_data)|enumerate\(DataLoader\)", re.IGNORECASE)

_CAUSES: tuple[IdleCause, ...] = get_args(IdleCause)


class Gaps(NamedTuple):
    """The gaps between the activities of one device, in order.

    Attributes:
        begin_s, end_s: of each.
        cause: its number in the causes.
        ender: the activity that ended it.
    """

    begin_s: Array
    end_s: Array
    cause: NDArray[np.int64]
    ender: NDArray[np.int64]

    def of(self, number: int) -> tuple[Array, Array]:
        """Begin and end of the gaps of one cause."""
        these = self.cause == number
        return self.begin_s[these], self.end_s[these]


def gaps_of(trace: Trace, which: NDArray[np.int64], launch: NDArray[np.int64]) -> Gaps:
    """The gaps between the activities `which` of one device, each with its cause.

    Args:
        trace: with activities by start.
        which: numbers of the device's.
        launch: of every activity of the trace.
    """
    kernels = trace.kernels
    start_s = kernels.start_s[which]
    end_s = start_s + kernels.duration_s[which]
    reached = np.maximum.accumulate(end_s)
    gap_s = start_s[1:] - reached[:-1]
    places = np.flatnonzero(gap_s > 0)
    begin_s, ended_s = reached[places], start_s[places + 1]
    if not len(places):
        nothing = np.zeros(0, np.int64)
        return Gaps(begin_s, ended_s, nothing, nothing)
    # The activity that ended last before the gap, and the one that ended it.
    latest = np.maximum.accumulate(np.where(end_s == reached, np.arange(len(end_s)), 0))
    before, ender = which[latest[places]], which[places + 1]
    return Gaps(begin_s, ended_s, _causes(trace, begin_s, ended_s, before, ender, launch), ender)


def idle_of(trace: Trace, gaps: Gaps) -> tuple[Idle, ...]:
    """The idle time of `gaps` by cause, most first."""
    length_s = gaps.end_s - gaps.begin_s
    idle = []
    for number in np.unique(gaps.cause).tolist():
        these = np.flatnonzero(gaps.cause == number)
        longest = these[length_s[these].argmax()]
        idle.append(
            Idle(
                cause=_CAUSES[number],
                seconds=float(length_s[these].sum()),
                gaps=len(these),
                longest_s=float(length_s[longest]),
                at_s=float(gaps.begin_s[longest]),
                before=trace.names[trace.kernels.name[gaps.ender[longest]]],
            )
        )
    return tuple(sorted(idle, key=lambda one: -one.seconds))


def idle_covers(gaps: Gaps) -> dict[str, Cover]:
    """When the device was idle, by cause, in the order of the causes."""
    return {f"idle: {_CAUSES[number]}": Cover(*gaps.of(number)) for number in np.unique(gaps.cause).tolist()}


def _causes(
    trace: Trace,
    begin_s: Array,
    end_s: Array,
    before: NDArray[np.int64],
    ender: NDArray[np.int64],
    launch: NDArray[np.int64],
) -> NDArray[np.int64]:
    """For each gap the number in `_CAUSES` of why nothing ran from `begin_s` until `ender` did."""
    launches, calls = trace.launches, trace.calls
    number = launch[ender]
    known = number != NONE
    if not len(launches):
        on_host = trace.kernels.device[ender] == ON_HOST
        return np.where(on_host, _CAUSES.index("between operations"), _CAUSES.index("unknown"))
    launched_s = launches.start_s[number]
    returned_s = launched_s + launches.duration_s[number]
    waits = _cover(named(trace, launches.name, _WAITS), launches.start_s, launches.duration_s)
    copies = _cover(named(trace, launches.name, _COPIES), launches.start_s, launches.duration_s)
    loads = _cover(named(trace, calls.name, _LOADER), calls.start_s, calls.duration_s)
    # A wait that was open when the device fell idle ended because of it.
    waited = waits.at(begin_s)
    after_copy = (trace.kernels.kind[before] == COPY) & (waited | copies.at(begin_s))
    # A copy that began late, its call made early: the host prepared it meanwhile.
    staged = np.minimum(returned_s, end_s) - np.maximum(launched_s, begin_s) > (end_s - begin_s) / 2
    staged &= (trace.kernels.kind[ender] == COPY) & named(trace, launches.name[number], _COPIES)
    rules: tuple[tuple[NDArray[np.bool_], IdleCause], ...] = (
        (~known, "unknown"),
        (returned_s <= begin_s, "between kernels"),
        (loads.within(begin_s, end_s) > (end_s - begin_s) / 2, "data loader"),
        (staged | after_copy, "copy"),
        (waited, "synchronisation"),
    )
    return np.select(
        [mask for mask, _ in rules], [_CAUSES.index(cause) for _, cause in rules], _CAUSES.index("launches")
    )


def _cover(mask: NDArray[np.bool_], start_s: Array, duration_s: Array) -> Cover:
    return Cover(start_s[mask], start_s[mask] + duration_s[mask])
