"""Which operation each kernel of a trace belongs to: by launch, by call, up to the operator that is counted."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rooflab.observe.matching.torch_calls import entry
from rooflab.observe.timeline.launched import launch_of
from rooflab.observe.timeline.steps import STEP
from rooflab.types.trace import ANNOTATION, MODULE, NONE, OPERATOR, Trace
from rooflab.types.work import Phase

# Calls that only choose or prepare: the operator within, or around, is the one that is counted.
_BY_PARTS = frozenset({"view", "opaque", "create"})
_BACKWARD = "autograd::engine::evaluate_function"
_OPTIMIZER = "Optimizer.step"
_ITEM = re.compile(r"OpaqueType<(\d+)")


def operations_of(trace: Trace, parents: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each kernel the number of the call that it is counted with; `NONE` where no call is known.

    A kernel belongs to the innermost operator that was open when it was launched, or to the nearest around it
    that the vocabulary can count.

    Args:
        trace: with kernels and calls.
        parents: of the calls (see `parents_of`).
    """
    innermost = innermost_of(trace)
    counted: dict[int, bool] = {}
    chosen = np.full(len(innermost), NONE, np.int64)
    for kernel, call in enumerate(innermost.tolist()):
        first = call
        while call != NONE and not _counted(trace, call, counted):
            call = int(parents[call])
        chosen[kernel] = call if call != NONE else first
    return chosen


def _counted(trace: Trace, call: int, known: dict[int, bool]) -> bool:
    name = int(trace.calls.name[call])
    if name not in known:
        row = entry(trace.names[name])
        known[name] = row is not None and row.kind not in _BY_PARTS
    return known[name] and trace.calls.kind[call] == OPERATOR


def innermost_of(trace: Trace) -> NDArray[np.int64]:
    """The innermost operator open at each kernel's launch."""
    kernels, calls, launches = trace.kernels, trace.calls, trace.launches
    found = np.full(len(kernels), NONE, np.int64)
    operators = np.flatnonzero(calls.kind == OPERATOR)
    if not len(operators):
        return found
    launch = launch_of(trace)
    external = kernels.external.copy()
    missing = (external == NONE) & (launch != NONE)
    external[missing] = launches.external[launch[missing]]
    order = operators[np.argsort(calls.external[operators], kind="stable")]
    known = calls.external[order]
    at = np.minimum(np.searchsorted(known, external), len(known) - 1)
    hit = (known[at] == external) & (external != NONE)
    found[hit] = order[at[hit]]
    # Without a number: by time, on the launch's thread.
    for kernel in np.flatnonzero(~hit & (launch != NONE)):
        found[kernel] = _around(trace, int(launch[kernel]))
    return found


def _around(trace: Trace, launch: int) -> int:
    """The innermost operator on the launch's thread that was open when it was made."""
    calls, launches = trace.calls, trace.launches
    moment, thread = launches.start_s[launch], launches.thread[launch]
    first, last = np.searchsorted(calls.thread, [thread, thread + 1])
    at = first + int(np.searchsorted(calls.start_s[first:last], moment, side="right")) - 1
    while at >= first:
        if calls.kind[at] == OPERATOR and calls.start_s[at] + calls.duration_s[at] >= moment:
            return at
        at -= 1
    return NONE


def parents_of(trace: Trace) -> NDArray[np.int64]:
    """For each call the call around it on the same thread; `NONE` for none."""
    calls = trace.calls
    parents = [NONE] * len(calls)
    open_calls: list[int] = []
    ends = (calls.start_s + calls.duration_s).tolist()
    starts, threads = calls.start_s.tolist(), calls.thread.tolist()
    thread = None
    slack = 1e-9  # the profiler's clock ticks in nanoseconds
    for number in range(len(parents)):
        if threads[number] != thread:
            thread, open_calls = threads[number], []
        start, end = starts[number], ends[number]
        while open_calls and (ends[open_calls[-1]] <= start or ends[open_calls[-1]] + slack < end):
            open_calls.pop()
        if open_calls:
            parents[number] = open_calls[-1]
        open_calls.append(number)
    return np.array(parents, np.int64)


def item_bytes(trace: Trace, kernels: list[int]) -> float | None:
    """Bytes of an element, where one of `kernels` names them."""
    for kernel in kernels:
        found = _ITEM.search(trace.names[trace.kernels.name[kernel]])
        if found:
            return float(found.group(1))
    return None


class Place(NamedTuple):
    """Where a call was made.

    Attributes:
        module: path of the modules around it, outermost first, as the profiler numbers them.
        label: the innermost annotation around it that is no step.
        phase: of training.
    """

    module: str
    label: str
    phase: Phase


def place_of(trace: Trace, call: int, parents: NDArray[np.int64]) -> Place:
    """Where `call` was made, by the calls around it."""
    modules: list[str] = []
    label = ""
    phase: Phase = "forward"
    while call != NONE:
        name, kind = trace.names[trace.calls.name[call]], trace.calls.kind[call]
        if kind == MODULE:
            modules.append(name.partition(": ")[2])
        elif kind == ANNOTATION and not label and not STEP.fullmatch(name):
            label = name
        if name.startswith(_BACKWARD):
            phase = "backward"
        elif name.startswith(_OPTIMIZER):
            phase = "optimizer"
        call = int(parents[call])
    return Place(".".join(reversed(modules)), label, phase)


def by_operation(trace: Trace, parents: NDArray[np.int64]) -> dict[int, list[int]]:
    """Kernels by the call that they are counted with, calls by their first kernel; `NONE` for none."""
    groups: dict[int, list[int]] = defaultdict(list)
    for kernel, call in enumerate(operations_of(trace, parents).tolist()):
        groups[call].append(kernel)
    return dict(groups)
