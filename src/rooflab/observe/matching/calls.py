"""Calls of a trace as a tree: which is around which, and which is open at a moment; for all of them at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rooflab.types.trace import NONE, OPERATOR, Trace

Numbers = NDArray[np.signedinteger[Any]]

_BLOCK = 2**16  # calls looked at together: more would take memory and no less time
_SLACK_S = 1e-9  # profilers' clocks tick in nanoseconds


def parents_of(trace: Trace) -> Numbers:
    """For each call the call around it on the same thread; `NONE` for none."""
    calls = trace.calls
    start_s, end_s = calls.start_s, calls.start_s + calls.duration_s
    # First the call before on the thread. Where that does not reach around, the one around that, and so on: what
    # lies between the two ended before it did.
    parents = np.arange(-1, len(calls) - 1, dtype=np.int32 if len(calls) < 2**31 else np.int64)
    parents[:1] = NONE
    parents[1:][calls.thread[1:] != calls.thread[:-1]] = NONE
    for begin in range(0, len(calls), _BLOCK):
        open_yet = begin + np.flatnonzero(parents[begin : begin + _BLOCK] != NONE)
        while len(open_yet):
            before = parents[open_yet]
            outside = (end_s[before] <= start_s[open_yet]) | (end_s[before] + _SLACK_S < end_s[open_yet])
            open_yet, before = open_yet[outside], before[outside]
            parents[open_yet] = parents[before]
            open_yet = open_yet[parents[open_yet] != NONE]
    return parents


def open_at(trace: Trace, threads: NDArray[np.int32], moments_s: NDArray[np.float64], parents: Numbers) -> Numbers:
    """The innermost operator that was open on each of `threads` at the moment with it; `NONE` for none."""
    calls = trace.calls
    found = np.full(len(threads), NONE, np.int64)
    for thread in np.unique(threads).tolist():
        mine = np.flatnonzero(threads == thread)
        first, last = np.searchsorted(calls.thread, [thread, thread + 1])
        at = first + np.searchsorted(calls.start_s[first:last], moments_s[mine], side="right") - 1
        found[mine] = np.where(at >= first, at, NONE)
    end_s, operator = calls.start_s + calls.duration_s, calls.kind == OPERATOR
    return _climbed(found, parents, lambda call, place: operator[call] & (end_s[call] >= moments_s[place]))


def around(calls: Numbers, parents: Numbers, wanted: NDArray[np.bool_]) -> Numbers:
    """For each of `calls` itself or the nearest around it that is `wanted`; `NONE` for none."""
    return _climbed(calls.copy(), parents, lambda call, _: wanted[call])


def _climbed(found: Numbers, parents: Numbers, fits: Callable[[Numbers, Numbers], NDArray[np.bool_]]) -> Numbers:
    """`found`, each replaced by the call around it until it fits."""
    climbing = np.flatnonzero(found != NONE)
    while len(climbing):
        climbing = climbing[~fits(found[climbing], climbing)]
        found[climbing] = parents[found[climbing]]
        climbing = climbing[found[climbing] != NONE]
    return found
