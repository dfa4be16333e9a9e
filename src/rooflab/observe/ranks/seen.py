"""What is kept of a rank's trace: its totals and its collectives."""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from rooflab.observe.timeline import COLLECTIVE
from rooflab.observe.timeline.intervals import Array, Cover, named
from rooflab.types.timeline import Timeline
from rooflab.types.trace import KERNEL, Collective, Trace

# Kinds of exchanges as they stand in kernels' and operators' names, of any library; the longer names first.
_KINDS = (
    "reduce_scatter",
    "all_reduce",
    "all_gather",
    "all_to_all",
    "broadcast",
    "barrier",
    "reduce",
    "gather",
    "scatter",
    "send",
    "recv",
)
_KIND = re.compile("|".join(one.replace("_", "_?") for one in _KINDS), re.IGNORECASE)
_PLAIN = {one.replace("_", ""): one for one in _KINDS}


class Seen(NamedTuple):
    """One rank.

    Attributes:
        name: of its profile.
        rank, size: as recorded.
        steps: that the program marked; None for none.
        span_s, busy_s, compute_s, exposed_collective_s, exposed_copy_s: of its devices together.
        start_s, duration_s, device: of its collectives, by start.
        told: what each is.
        computing: when its devices compute, by their numbers.
    """

    name: str
    rank: int | None
    size: int | None
    steps: int | None
    span_s: float
    busy_s: float
    compute_s: float
    exposed_collective_s: float
    exposed_copy_s: float
    start_s: Array
    duration_s: Array
    device: NDArray[np.int64]
    told: list[Collective]
    computing: dict[int, Cover]

    def end_s(self, at: NDArray[np.int64]) -> Array:
        """When the collectives `at` ended."""
        return self.start_s[at] + self.duration_s[at]

    def computing_within(self, at: NDArray[np.int64], begin_s: Array, end_s: Array) -> Array:
        """Seconds in which the device of each collective `at` computed between `begin_s` and `end_s`."""
        seconds = np.zeros(len(at))
        devices = self.device[at]
        for device in np.unique(devices).tolist():
            mask = devices == device
            if device in self.computing:
                seconds[mask] = self.computing[device].within(begin_s[mask], end_s[mask])
        return seconds


def seen_of(trace: Trace, name: str, times: Timeline) -> Seen:
    """What is kept of `trace`, of the profile called `name`, whose timeline is `times`."""
    kernels = trace.kernels
    joint = (kernels.kind == KERNEL) & named(trace, kernels.name, COLLECTIVE)
    computing = (kernels.kind == KERNEL) & ~joint
    told = trace.collectives
    if told is not None:
        start_s, duration_s, device = told.start_s, told.duration_s, told.device
        what = [_known(told.told[number]) for number in told.which.tolist()]
    else:
        start_s, duration_s, device = kernels.start_s[joint], kernels.duration_s[joint], kernels.device[joint]
        what = [Collective(name=kind_of(trace.names[number])) for number in kernels.name[joint].tolist()]
    covers = {}
    for number in np.unique(kernels.device).tolist():
        mask = computing & (kernels.device == number)
        covers[number] = Cover(kernels.start_s[mask], kernels.start_s[mask] + kernels.duration_s[mask])
    devices = times.devices
    return Seen(
        name=name,
        rank=trace.rank,
        size=trace.ranks,
        steps=len(times.steps) or None if times.period is None else None,
        span_s=sum(one.span_s for one in devices),
        busy_s=sum(one.busy_s for one in devices),
        compute_s=sum(one.compute_s for one in devices),
        exposed_collective_s=sum(one.exposed_collective_s for one in devices),
        exposed_copy_s=sum(one.exposed_copy_s for one in devices),
        start_s=start_s,
        duration_s=duration_s,
        device=device,
        told=what,
        computing=covers,
    )


def _known(told: Collective) -> Collective:
    return msgspec.structs.replace(told, name=kind_of(told.name))


def kind_of(name: str) -> str:
    """The exchange that `name`, of a kernel or an operator, is: "all_reduce"; the name itself where unknown."""
    found = _KIND.search(name)
    return _PLAIN[found.group().lower().replace("_", "")] if found else name
