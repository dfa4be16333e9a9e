"""Where the time of a trace went: busy devices by the union of intervals, idle ones with the cause."""

from __future__ import annotations

import re
from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from rooflab.types.timeline import DeviceTime, Idle, IdleCause, Step, Timeline
from rooflab.types.trace import ANNOTATION, KERNEL, NONE, Trace

Array = NDArray[np.float64]

_COLLECTIVE = re.compile(
    r"nccl|rccl|msccl|oneccl|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all", re.IGNORECASE
)
# Calls of CUDA's and HIP's runtime that return when the device is done.
_WAITS = re.compile(r"(Device|Stream|Event|Ctx)Synchronize$|^(cuda|hip)(Memcpy|Free|Malloc)$|cuMemcpy\w*_v2$")
_LOADER = re.compile(r"DataLoader.*(__next__|_next_data)|enumerate\(DataLoader\)", re.IGNORECASE)
STEP = re.compile(r"ProfilerStep#?\s*\d+")


def timeline(trace: Trace) -> Timeline:
    """Where the time of `trace` went, device by device and step by step."""
    kernels = trace.kernels
    launch = launch_of(trace)
    devices = [
        _device(trace, int(device), np.flatnonzero(kernels.device == device), launch)
        for device in np.unique(kernels.device)
    ]
    return Timeline(devices=tuple(devices), steps=_steps(trace))


def launch_of(trace: Trace) -> NDArray[np.int64]:
    """For each kernel the number of its launch, by correlation; `NONE` where it is not recorded."""
    launches, wanted = trace.launches, trace.kernels.correlation
    if not len(launches):
        return np.full(len(wanted), NONE, np.int64)
    order = np.argsort(launches.correlation, kind="stable")
    known = launches.correlation[order]
    at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where((known[at] == wanted) & (wanted != NONE), order[at], NONE)


def union_s(start_s: Array, end_s: Array) -> float:
    """Seconds in which at least one of the intervals, sorted by start, is open."""
    if not len(start_s):
        return 0.0
    reached = np.maximum.accumulate(end_s)
    before = np.concatenate(([-np.inf], reached[:-1]))
    return float(np.maximum(0.0, end_s - np.maximum(before, start_s)).sum())


def _device(trace: Trace, device: int, which: NDArray[np.int64], launch: NDArray[np.int64]) -> DeviceTime:
    kernels = trace.kernels
    start_s, end_s = kernels.start_s[which], kernels.start_s[which] + kernels.duration_s[which]
    computes = kernels.kind[which] == KERNEL
    names = {int(name) for name in np.unique(kernels.name[which])}
    joint = np.isin(kernels.name[which], [name for name in names if _COLLECTIVE.search(trace.names[name])])
    collective = computes & joint
    compute, copy = computes & ~joint, ~computes

    def together(*parts: NDArray[np.bool_]) -> float:
        mask = np.logical_or.reduce(parts)
        return union_s(start_s[mask], end_s[mask])

    compute_s, busy_s = together(compute), union_s(start_s, end_s)
    return DeviceTime(
        device=device,
        span_s=float(end_s.max() - start_s.min()),
        busy_s=busy_s,
        kernels_s=float(kernels.duration_s[which][computes].sum()),
        kernels=int(np.count_nonzero(computes)),
        compute_s=compute_s,
        copy_s=together(copy),
        collective_s=together(collective),
        exposed_copy_s=together(copy, compute) - compute_s,
        exposed_collective_s=together(collective, compute) - compute_s,
        idle=_idle(trace, which, start_s, end_s, launch),
        queued=_queued(trace, which, launch),
    )


def _idle(
    trace: Trace, which: NDArray[np.int64], start_s: Array, end_s: Array, launch: NDArray[np.int64]
) -> tuple[Idle, ...]:
    """The gaps between activities, each by its cause."""
    reached = np.maximum.accumulate(end_s)
    gap_s = start_s[1:] - reached[:-1]
    places = np.flatnonzero(gap_s > 0)
    begin_s, length_s = reached[places], gap_s[places]
    ender = which[places + 1]
    causes = _causes(trace, begin_s, begin_s + length_s, launch[ender])
    found: dict[IdleCause, list[int]] = defaultdict(list)
    for number, cause in enumerate(causes):
        found[cause].append(number)
    idle = []
    for cause, numbers in found.items():
        longest = max(numbers, key=lambda number: length_s[number])
        idle.append(
            Idle(
                cause=cause,
                seconds=float(length_s[numbers].sum()),
                gaps=len(numbers),
                longest_s=float(length_s[longest]),
                at_s=float(begin_s[longest]),
                before=trace.names[trace.kernels.name[ender[longest]]],
            )
        )
    return tuple(sorted(idle, key=lambda one: -one.seconds))


def _causes(trace: Trace, begin_s: Array, end_s: Array, launch: NDArray[np.int64]) -> list[IdleCause]:
    """Why nothing ran from each of `begin_s` to `end_s`, which the kernel of `launch` ended."""
    launches = trace.launches
    waits = _intervals(trace, _WAITS, launches.name, launches.start_s, launches.duration_s)
    calls = trace.calls
    loads = _intervals(trace, _LOADER, calls.name, calls.start_s, calls.duration_s)
    causes: list[IdleCause] = []
    for begin, end, number in zip(begin_s, end_s, launch, strict=True):
        if number == NONE:
            causes.append("unknown")
        elif launches.start_s[number] + launches.duration_s[number] <= begin:
            causes.append("between kernels")
        elif _share(loads, begin, end) > 0.5:
            causes.append("data loader")
        # A wait that was open when the device fell idle ended because of it.
        elif _open(waits, begin):
            causes.append("synchronisation")
        else:
            causes.append("launches")
    return causes


def _intervals(
    trace: Trace, pattern: re.Pattern[str], name: NDArray[np.int32], start: Array, long: Array
) -> Array:
    """Starts and ends of those whose name fits `pattern`, by start."""
    fitting = [number for number in np.unique(name) if pattern.search(trace.names[number])]
    mask = np.isin(name, fitting)
    found = np.stack((start[mask], start[mask] + long[mask]))
    return found[:, np.argsort(found[0], kind="stable")]


def _open(intervals: Array, moment: float) -> bool:
    return bool(np.any((intervals[0] <= moment) & (moment <= intervals[1])))


def _share(intervals: Array, begin: float, end: float) -> float:
    shared = np.minimum(intervals[1], end) - np.maximum(intervals[0], begin)
    return float(np.maximum(shared, 0).sum() / (end - begin))


def _queued(trace: Trace, which: NDArray[np.int64], launch: NDArray[np.int64]) -> float | None:
    """Median over launches of how many earlier ones had not begun to run; None without launches."""
    numbers = launch[which]
    known = numbers != NONE
    if not known.any():
        return None
    launched = np.sort(trace.launches.start_s[numbers[known]])
    begun = np.sort(trace.kernels.start_s[which][known])
    waiting = np.arange(len(launched)) - np.searchsorted(begun, launched, side="right")
    return float(np.median(np.maximum(waiting, 0)))


def _steps(trace: Trace) -> tuple[Step, ...]:
    calls, kernels = trace.calls, trace.kernels
    end_s = kernels.start_s + kernels.duration_s
    steps = []
    for number in np.flatnonzero(calls.kind == ANNOTATION):
        name = trace.names[calls.name[number]]
        if STEP.fullmatch(name):
            begin, end = calls.start_s[number], calls.start_s[number] + calls.duration_s[number]
            busy = union_s(np.clip(kernels.start_s, begin, end), np.clip(end_s, begin, end))
            steps.append(Step(name=name, start_s=float(begin), duration_s=float(end - begin), busy_s=busy))
    return tuple(sorted(steps, key=lambda one: one.start_s))
