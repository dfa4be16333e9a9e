"""Which launch each kernel came from, and how many launches waited for the device over time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rooflab.types.timeline import Queue
from rooflab.types.trace import NONE, Trace

_PARTS = 40  # of the device's time, in which the depth is told


def launch_of(trace: Trace) -> NDArray[np.int64]:
    """For each kernel the number of its launch, by correlation; `NONE` where it is not recorded."""
    launches, wanted = trace.launches, trace.kernels.correlation
    if not len(launches):
        return np.full(len(wanted), NONE, np.int64)
    order = np.argsort(launches.correlation, kind="stable")
    known = launches.correlation[order]
    at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where((known[at] == wanted) & (wanted != NONE), order[at], NONE)


def queue(trace: Trace, which: NDArray[np.int64], launch: NDArray[np.int64]) -> Queue | None:
    """How many launches of the kernels `which` had not begun to run, over time; None without launches."""
    numbers = launch[which]
    known = numbers != NONE
    if not known.any():
        return None
    launched = np.sort(trace.launches.start_s[numbers[known]])
    begun = np.sort(trace.kernels.start_s[which][known])
    waiting = np.maximum(np.arange(len(launched)) - np.searchsorted(begun, launched, side="right"), 0)
    ends = trace.kernels.start_s[which] + trace.kernels.duration_s[which]
    edges = np.linspace(trace.kernels.start_s[which].min(), ends.max(), _PARTS + 1)
    # The depth summed over time is the waiting of all launches: what each had waited until then.
    begun_of = trace.kernels.start_s[which][known]
    launched_of = np.minimum(trace.launches.start_s[numbers[known]], begun_of)
    waited = _waited(np.sort(launched_of), edges) - _waited(begun, edges)
    long = np.diff(edges)
    depths = np.diff(waited) / np.where(long > 0, long, 1.0)
    return Queue(
        median=float(np.median(waiting)),
        most=int(waiting.max()),
        depths=tuple(round(float(one), 3) for one in np.maximum(depths, 0.0)),
    )


def _waited(moments: NDArray[np.float64], edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Seconds from each of `moments`, sorted, to each edge after it, summed."""
    before = np.searchsorted(moments, edges, side="right")
    sums = np.concatenate(([0.0], np.cumsum(moments)))
    return before * edges - sums[before]
