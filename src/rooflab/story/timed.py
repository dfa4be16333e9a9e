"""How long does this call take here, and is that good? Timed with care, counted, held against this machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Unpack

from rooflab.errors import RooflabError
from rooflab.story import counted_call
from rooflab.story import timed_doubts as doubts
from rooflab.types.setting import SettingChanges

if TYPE_CHECKING:
    from os import PathLike

    from rooflab.observe.called import Taken
    from rooflab.timing.careful import Blocks
    from rooflab.types.machine import Machine
    from rooflab.types.own_time import OwnTime
    from rooflab.types.report import Report
    from rooflab.types.timed_call import Caches, CallTimes, TimedCall

LIMIT_S = 60.0
_LATE = 0.8  # of the median: a call that returns before that does the rest later


def time(
    fn: Callable[..., Any],
    *args: Any,
    kwargs: Mapping[str, Any] | None = None,
    machine: Machine | str | PathLike[str] | None = None,
    name: str | None = None,
    flop: float | None = None,
    bytes_moved: float | None = None,
    dtype: str | None = None,
    cold: bool = True,
    limit_s: float = LIMIT_S,
    progress: Callable[[str, float, float], None] | None = None,
    **setting: Unpack[SettingChanges],
) -> TimedCall:
    """How long `fn(*args)` takes here, with warm and with cold caches, and whether that is good on this machine.

    Warmed up until it is stable; then calls for two seconds in blocks of 0.1 s, as many between two looks at the
    clock as that one needs, the last 8 of 20 with results elsewhere in memory. The median is that of the blocks'
    medians, the interval from the least to the largest of them and 1 % beyond. Work that goes on after the call
    returned is waited for, and lazy results (JAX, tinygrad, Dask, polars, generators, futures) are made to happen.
    On a GPU, events in its queue are the clock, and cold means an L2 that was written over.

    Args:
        fn: what is called. Its results are dropped; what it changes in its arguments stays, and is said.
        args: its arguments, the same ones in every call.
        kwargs: more of them, by keyword.
        machine: the one that this is, as `measure` wrote it: a `Machine`, or a name or file of one.
        name: of what is called; by default its own.
        flop: of one call, where no front end counts them, a multiply-add as 2.
        bytes_moved: that one call must move between cores and memory, both ways together; the same.
        dtype: number format of that arithmetic, fp64 by default.
        cold: also time it with cold caches.
        limit_s: seconds for all of it. A call that takes longer than half of them is not timed.
        progress: called with what is done, how far, and the total.
        setting: how it is predicted on `machine` (see `SettingChanges`).

    Raises:
        RooflabError: nothing that can be called, a machine that is not this one, tensors without data, a
            coroutine, a call that takes too long for `limit_s`. What `fn` raises is raised as it is.

    >>> import numpy as np
    >>> time(np.sort, np.arange(1000.0), cold=False).time_s < 1e-2
    True
    """
    from rooflab.machines.detect import detect
    from rooflab.model.program.setting import check
    from rooflab.observe import called
    from rooflab.story.machines import as_machine
    from rooflab.timing import arguments as given
    from rooflab.timing import device_events, names

    if not callable(fn):
        raise RooflabError(f"time: got a {type(fn).__name__}, expected a function and its arguments: time(f, x)")
    _check_limit(limit_s)
    if "cache" in setting:
        raise RooflabError("time: got cache, expected none: warm and cold are both timed, each held to its own")
    call = counted_call.Call(fn, args, dict(kwargs or {}), name or names.name_of(fn))
    by_hand = flop is not None or bytes_moved is not None
    if dtype is not None and not by_hand:
        raise RooflabError("time: dtype is of flop and bytes_moved given by hand: give them too, or leave it out")
    target, changes = as_machine(machine), check(setting)
    given.check(call.name, args, call.kwargs, fn)
    device = device_events.on_cuda(counted_call.values_of(call))
    _check_machine(target, device)
    report = counted_call.by_hand(call.name, flop, bytes_moved, dtype, target) if by_hand else None
    taken = called.taken(
        fn,
        args,
        call.kwargs,
        name=call.name,
        host=detect(gpus=False),
        device=device,
        cold=cold,
        limit_s=limit_s,
        tell=progress or (lambda what, done, total: None),
    )
    counted = counted_call.Counted(report)
    if report is None:
        counted = counted_call.counted(call, target, changes, on_cuda=device is not None)
    return _result(call, taken, counted)


def _check_limit(limit_s: object) -> None:
    from rooflab.timing import check_time_limit

    try:
        check_time_limit(limit_s)
    except RooflabError as error:
        raise RooflabError(str(error).replace("time_limit_s", "limit_s")) from None
    if limit_s is None:
        raise RooflabError("limit_s is None, expected a positive number of seconds")


def _check_machine(machine: Machine | None, device: Any) -> None:
    """Return where a time taken here, on that GPU or on the CPU, is one of `machine`."""
    from rooflab.story import measured

    if machine is None:
        return
    if device is not None:
        if machine.kind != "gpu":
            raise RooflabError(f"time: the tensors are on {device}, and {machine.name} is a {machine.kind}")
        return
    if machine.kind == "gpu":
        raise RooflabError(f"time: {machine.name} is a GPU, and nothing that is called here is on one")
    try:
        measured.check(machine)
    except RooflabError as error:
        raise RooflabError(f"time: {str(error).removeprefix('measure: ')}") from None


def _result(call: counted_call.Call, taken: Taken, counted: counted_call.Counted) -> TimedCall:
    from rooflab.types.timed_call import TimedCall

    report, own, cold_own = counted.report, None, None
    if report is not None:
        report = _laid(report, taken.warm.median_s)
        own = next(iter(report.own_times), None)
    if report is not None and report.machine is not None and taken.cold is not None:
        cold_own = _cold_own(report, taken.cold.median_s)
    cold = None if taken.cold is None else _times("cold", taken.cold, cold_own)
    late = taken.returns_s is not None and taken.returns_s < _LATE * taken.warm.median_s
    return TimedCall(
        name=call.name,
        device=taken.device,
        warm=_times("warm", taken.warm, own),
        cold=cold,
        first_s=taken.first_s,
        warm_up_calls=taken.warm_up.calls,
        warm_up_s=taken.warm_up.seconds,
        stable=taken.warm_up.stable,
        returns_s=taken.returns_s if late else None,
        waited_for="" if taken.finish is None else taken.finish.says,
        empty_s=taken.empty_s,
        report=report,
        uncounted=counted.why,
        surroundings=taken.surroundings,
        warnings=(*doubts.warnings(taken), *doubts.other_card(taken, report)),
        notes=tuple(doubts.notes(taken, counted.report)),
    )


def _times(caches: Caches, blocks: Blocks, own: OwnTime | None) -> CallTimes:
    from rooflab.types.timed_call import CallTimes

    low_s, high_s = blocks.interval_s or (None, None)
    return CallTimes(
        caches=caches,
        median_s=blocks.median_s,
        best_s=blocks.best_s,
        calls=blocks.calls,
        blocks_s=blocks.medians_s,
        low_s=low_s,
        high_s=high_s,
        own=own,
    )


def _laid(report: Report, seconds: float) -> Report:
    from rooflab.story import own_times
    from rooflab.types.own_time import Measurement, Observed

    timed = [number for number, row in enumerate(report.rows) if row.takes_time]
    # The time of the whole is that of its only operation.
    observed = {timed[0]: Observed(time_s=seconds)} if len(timed) == 1 else {}
    return own_times.laid(report, [], seconds, Measurement(by="timed here"), observed=observed)


def _cold_own(report: Report, seconds: float) -> OwnTime | None:
    """The time with cold caches, held against the prediction with cold caches."""
    from rooflab.story import predict

    assert report.machine is not None
    cold = report if report.prediction is None else predict(report, report.machine, cache="cold")
    return next(iter(_laid(cold, seconds).own_times), None)
