"""Where the time of a trace went: unions of intervals, gaps and their causes, queues, steps."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from rooflab.observe.timeline.gaps import gaps_of, idle_covers, idle_of
from rooflab.observe.timeline.intervals import Array, Cover, named, union_s
from rooflab.observe.timeline.launched import launch_of, queue
from rooflab.observe.timeline.steps import steps_of
from rooflab.types.timeline import DeviceTime, Timeline
from rooflab.types.trace import KERNEL, Trace

COLLECTIVE = re.compile(
    r"nccl|rccl|msccl|oneccl|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all", re.IGNORECASE
)

PARTS = 120  # of a device's time, as a picture shows it


def timeline(trace: Trace) -> Timeline:
    """Where the time of `trace` went, device by device and step by step."""
    kernels = trace.kernels
    launch = launch_of(trace)
    devices = [
        _device(trace, int(device), np.flatnonzero(kernels.device == device), launch)
        for device in np.unique(kernels.device)
    ]
    steps, period = steps_of(trace)
    return Timeline(devices=tuple(devices), steps=steps, period=period)


def _device(trace: Trace, device: int, which: NDArray[np.int64], launch: NDArray[np.int64]) -> DeviceTime:
    kernels = trace.kernels
    start_s, end_s = kernels.start_s[which], kernels.start_s[which] + kernels.duration_s[which]
    computes = kernels.kind[which] == KERNEL
    joint = named(trace, kernels.name[which], COLLECTIVE)
    collective = computes & joint
    compute, copy = computes & ~joint, ~computes

    def together(*parts: NDArray[np.bool_]) -> float:
        mask = np.logical_or.reduce(parts)
        return union_s(start_s[mask], end_s[mask])

    compute_s, busy_s = together(compute), union_s(start_s, end_s)
    gaps = gaps_of(trace, which, launch)
    kinds = {"compute": compute, "collective": collective, "copy": copy}
    ran = {name: (start_s[mask], end_s[mask]) for name, mask in kinds.items() if mask.any()}
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
        idle=idle_of(trace, gaps),
        queue=queue(trace, which, launch),
        parts=_parts(ran, idle_covers(gaps), float(start_s.min()), float(end_s.max())),
    )


def _parts(
    ran: dict[str, tuple[Array, Array]], idle: dict[str, Cover], begin_s: float, end_s: float
) -> dict[str, tuple[float, ...]]:
    """What the device did in each of `PARTS` equal parts of its time, as shares of a part."""
    edges = np.linspace(begin_s, end_s, PARTS + 1)
    width = (end_s - begin_s) / PARTS
    if width <= 0:
        return {}
    shares: dict[str, tuple[float, ...]] = {}
    before = np.zeros(PARTS)
    joined: list[tuple[Array, Array]] = []
    for name, interval in ran.items():
        # What ran beside something that was named before it is not told again.
        joined.append(interval)
        together = Cover(*(np.concatenate(each) for each in zip(*joined, strict=True)))
        within = together.within(edges[:-1], edges[1:])
        shares[name] = _shares(within - before, width)
        before = within
    shares |= {name: _shares(cover.within(edges[:-1], edges[1:]), width) for name, cover in idle.items()}
    return {name: share for name, share in shares.items() if any(share)}


def _shares(seconds: Array, width: float) -> tuple[float, ...]:
    return tuple(np.round(np.clip(seconds / width, 0.0, 1.0), 6).tolist())
