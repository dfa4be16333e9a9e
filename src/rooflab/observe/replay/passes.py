"""Passes over a recorded program: each operation timed in its place, its operands as those before it left them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import torch

from rooflab.observe.replay.operators import detour_s, function_of
from rooflab.observe.replay.tensors import CannotReplay, Tensors, filled, refs_in
from rooflab.timing.careful import collected
from rooflab.timing.flush import Flusher
from rooflab.work.capture.torch.kept import KeptCall, Ref

PASSES = (3, 30)  # at least and at most
LIMIT_S = 15.0  # after which no further pass begins
_LEFT = 0.25  # of a time, at least: what is taken off was measured of another call, at another moment
Progress = Callable[[str, float, float], None]


class Seen(NamedTuple):
    """What was measured of one operation: seconds of one execution, by pass."""

    seconds: tuple[float, ...]

    @property
    def median_s(self) -> float:
        """The middle one."""
        return statistics.median(self.seconds)

    def share(self, part: float) -> float:
        """The time that so many of the passes stay under."""
        ordered = sorted(self.seconds)
        return ordered[round(part * (len(ordered) - 1))]


class Passes(NamedTuple):
    """The times of all operations.

    Attributes:
        seen: by number of the operation.
        missing: by number, why it was not timed.
        passes: how many were timed.
        detour_s: taken off each time: what calling an operator alone adds.
        freeing_s: of a pass, the time in which memory that nothing later needs was given back: of no operation.
    """

    seen: dict[int, Seen]
    missing: dict[int, str]
    passes: int
    detour_s: float
    freeing_s: float


def run(
    calls: Sequence[KeptCall],
    timed: Sequence[int],
    *,
    cold_bytes: float | None = None,
    cpus: Sequence[int] = (),
    between: Callable[[], None] = lambda: None,
    progress: Progress | None = None,
    clock: Callable[[], float] = time.perf_counter,
    passes: tuple[int, int] = PASSES,
    limit_s: float = LIMIT_S,
) -> Passes:
    """All of `calls` in order, again and again; those numbered in `timed` by the clock.

    The first pass warms up: caches, pages, threads.

    Args:
        calls: of the program, one for each operation.
        timed: numbers of those to time.
        cold_bytes: size of the caches to empty before each pass; None leaves them as the last pass did.
        cpus: whose caches those are; one thread reads where there are none.
        between: runs after each pass, the caches emptied first where they are: the whole program, in turns, so
            that what disturbs one disturbs the other.
        progress: called with what is done, how far, and the total.
        clock: returns seconds.
        passes: at least and at most.
        limit_s: after which no further pass begins.
    """
    tensors = Tensors(list(calls))
    last = _last_uses(calls)
    each: dict[int, list[float]] = {number: [] for number in timed}
    missing: dict[int, str] = {}
    freeing: list[float] = []
    least, most = passes
    with torch.no_grad(), collected(), ExitStack() as stack:
        flush = None if cold_bytes is None else stack.enter_context(Flusher(cold_bytes, cpus))
        off_s = detour_s(clock)
        begun, done = clock(), 0
        for number in range(most + 1):
            warming = number == 0
            if progress is not None:
                progress("running each operation", number, most + 1)
            if flush is not None:
                flush()
            freeing.append(_one(calls, tensors, last, missing, {} if warming else each, clock))
            if flush is not None:
                flush()
            between()
            if warming:
                begun = clock()
                continue
            done += 1
            if done >= least and clock() - begun > limit_s:
                break
    seen = {
        number: Seen(tuple(max(one - off_s, _LEFT * one) for one in seconds))
        for number, seconds in each.items()
        if seconds and number not in missing
    }
    told = {number: missing[number] for number in timed if number in missing}
    return Passes(seen, told, done, off_s, statistics.median(freeing))


def _one(
    calls: Sequence[KeptCall],
    tensors: Tensors,
    last: dict[int, list[Ref]],
    missing: dict[int, str],
    each: dict[int, list[float]],
    clock: Callable[[], float],
) -> float:
    """One pass: results live until they are last used, as in the program. Seconds of giving memory back."""
    made: dict[Ref, torch.Tensor] = {}
    freeing_s = 0.0

    def get(ref: Ref) -> torch.Tensor:
        return made[ref] if ref in made else tensors.get(ref)

    for number, call in enumerate(calls):
        if number not in missing:
            try:
                seconds, out = _timed(call, get, clock)
                _bind(call.out, out, made)
                if number in each:
                    each[number].append(seconds)
            except CannotReplay as error:
                missing[number] = str(error)
            except Exception as error:  # noqa: BLE001 — of any operator, on data that is not the program's own
                missing[number] = _reason(error)
        out = None
        start = clock()
        for ref in last.get(number, ()):
            made.pop(ref, None)
        freeing_s += clock() - start
    return freeing_s


def _timed(
    call: KeptCall,
    get: Callable[[Ref], torch.Tensor],
    clock: Callable[[], float],
) -> tuple[float, Any]:
    function = function_of(call)
    args, kwargs = filled(call.args, get), filled(call.kwargs, get)
    start = clock()
    out = function(*args, **kwargs)
    seconds = clock() - start
    if isinstance(out, torch.Tensor) and out.is_meta:
        raise CannotReplay("its result has no data")
    return seconds, out


def _bind(refs: Any, out: Any, made: dict[Ref, torch.Tensor]) -> None:
    """Note the results of a call under the references that later calls know them by."""
    if isinstance(refs, Ref):
        while isinstance(out, (list, tuple)) and out:
            out = out[0]
        if isinstance(out, torch.Tensor) and tuple(out.shape) == refs.shape and out.dtype == refs.dtype:
            made[refs] = out
        return
    if isinstance(refs, (list, tuple)):
        outs = out if isinstance(out, (list, tuple)) else (out,)
        for ref, one in zip(refs, outs, strict=False):
            _bind(ref, one, made)


def _last_uses(calls: Sequence[KeptCall]) -> dict[int, list[Ref]]:
    """By call, the tensors that no later one names."""
    last: dict[Ref, int] = {}
    for number, call in enumerate(calls):
        for ref in refs_in((call.args, call.kwargs, call.out)):
            last[ref] = number
    found: dict[int, list[Ref]] = {}
    for ref, number in last.items():
        found.setdefault(number, []).append(ref)
    return found


def _reason(error: Exception) -> str:
    line = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {line:.100}"
