"""Memory of a trace over time, and which operators took what was live at the peak."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rooflab.observe.matching.calls import Numbers, around, open_at, parents_of
from rooflab.observe.matching.match import Places, counted
from rooflab.types.memory import Live, MemoryUse
from rooflab.types.trace import HOST, NONE, Trace

_PARTS = 40  # of the time, in which the curve is told
_SHOWN = 50  # operators at the peak


def memory_of(trace: Trace) -> tuple[MemoryUse, ...]:
    """The memory of each device of `trace`, the host first; nothing where it was not recorded."""
    events = trace.allocations
    if events is None or not len(events):
        return ()
    parents = parents_of(trace)
    return tuple(
        _of_device(trace, np.flatnonzero(events.device == device), parents)
        for device in np.unique(events.device).tolist()
    )


def _of_device(trace: Trace, which: NDArray[np.int64], parents: Numbers) -> MemoryUse:
    """The memory of the device of the events `which`, which are by time."""
    events = trace.allocations
    assert events is not None
    taken = _taken(events.nbytes[which], events.allocated_bytes[which])
    peak = int(taken.argmax())
    live = _live(events.nbytes[which[: peak + 1]], events.address[which[: peak + 1]])
    nbytes = events.nbytes[which[live]]
    moments, device = events.moment_s[which], int(events.device[which[0]])
    reserved = events.reserved_bytes[which]
    unused = reserved - taken
    return MemoryUse(
        device=None if device == HOST else device,
        peak_bytes=float(taken[peak]),
        at_s=float(moments[peak]),
        live=_by_operator(trace, which[live], parents),
        earlier_bytes=max(0.0, float(taken[peak] - nbytes.sum())),
        reserved_bytes=float(reserved[peak]) if np.isfinite(reserved[peak]) else None,
        most_unused_bytes=max(0.0, float(np.nanmax(unused))) if np.isfinite(unused).any() else None,
        begin_s=float(moments[0]),
        end_s=float(moments[-1]),
        curve_bytes=_curve(moments, taken),
    )


def _taken(nbytes: NDArray[np.float64], told: NDArray[np.float64]) -> NDArray[np.float64]:
    """Bytes in all after each event: as the allocator counts, else summed from the first on."""
    summed = np.cumsum(nbytes)
    if np.isfinite(told).all():
        return told
    known = np.isfinite(told)
    # What was there before the first event, by the first count; without any, the least that must have been.
    before = float(told[known][0] - summed[known][0]) if known.any() else max(0.0, -float(summed.min()))
    return np.where(known, told, summed + before)


def _live(nbytes: NDArray[np.float64], address: NDArray[np.int64]) -> NDArray[np.int64]:
    """Which events took a block that none of the later ones gave back."""
    known = np.flatnonzero(address != NONE)
    _, last = np.unique(address[known][::-1], return_index=True)
    latest = known[len(known) - 1 - last]
    return np.sort(latest[nbytes[latest] > 0])


def _by_operator(trace: Trace, which: NDArray[np.int64], parents: Numbers) -> tuple[Live, ...]:
    """The blocks that the events `which` took, by the operator that is counted for them."""
    events = trace.allocations
    assert events is not None
    innermost = open_at(trace, events.thread[which], events.moment_s[which], parents)
    # Who asks for an empty tensor is named by the operator around it.
    outer = around(innermost, parents, counted(trace))
    call = np.where(outer == NONE, innermost, outer)
    places = Places(trace, parents)
    sums: dict[tuple[str, str], list[float]] = {}
    numbers = places.numbers(call).tolist()
    for one, place, nbytes in zip(call.tolist(), numbers, events.nbytes[which].tolist(), strict=True):
        name = "" if one == NONE else trace.names[trace.calls.name[one]].replace("::", ".")
        found = sums.setdefault((name, places.distinct[place].phase), [0, 0.0])
        found[0] += 1
        found[1] += nbytes
    live = [
        Live(operator=name, phase=phase, blocks=int(blocks), nbytes=nbytes)
        for (name, phase), (blocks, nbytes) in sums.items()
    ]
    return tuple(sorted(live, key=lambda one: -one.nbytes)[:_SHOWN])


def _curve(moments: NDArray[np.float64], taken: NDArray[np.float64]) -> tuple[float, ...]:
    """The most that was taken in each of equal parts of the time; a part without events has what was before."""
    if moments[-1] <= moments[0]:
        return ()
    edges = np.linspace(moments[0], moments[-1], _PARTS + 1)
    first = np.searchsorted(moments, edges[:-1], side="right") - 1
    last = np.searchsorted(moments, edges[1:], side="right") - 1
    return tuple(float(taken[begin : end + 1].max()) for begin, end in zip(first, last, strict=True))
