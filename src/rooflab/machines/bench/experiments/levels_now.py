"""How a shared last cache and the memory stream now, beside what they did when the machine was measured.

Neighbours on the host take lines of a shared cache and a part of the memory's bandwidth, another part at every
moment: on a rented machine both were seen to change by half within a minute, for a quarter of a second at a time.
A loop that is timed in stretches meets several such moments, and its best run the best of them. A few working sets
of the measured sweep are streamed through once more between the same stretches, and the best is kept likewise.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import replace

import numpy as np

from rooflab.errors import RooflabError
from rooflab.machines.as_now import ROWS, STREAMS, Reading, last_cache, nearer_bytes
from rooflab.machines.bench.experiments import rows_apart
from rooflab.machines.bench.experiments.bandwidth import StreamCase, StreamForm, stream_trial
from rooflab.machines.bench.kernels.emit import stream_kernel
from rooflab.machines.bench.kernels.jit import compile_kernels, host_features, host_sve_bits, host_target
from rooflab.machines.bench.kernels.rows import READ, STENCIL
from rooflab.machines.bench.kernels.simd import host_simds
from rooflab.machines.bench.run.pinned_threads import PinnedThreads
from rooflab.machines.bench.run.thread_arenas import SLACK_BYTES, ThreadArenas
from rooflab.machines.bench.run.trials import Bench, Samples, Trial
from rooflab.machines.served_share import together
from rooflab.types.machine import Curve, Level, Machine, Scope

Place = tuple[str, int]  # a sweep, and bytes of each core
Seen = dict[Scope, dict[Place, list[float]]]
_SCOPES: tuple[Scope, ...] = ("core", "all")
_RUN_S, _IN_A_ROW = 0.002, 4
_LATER, _LATER_PAUSE_S = 3, 0.06  # looks at what was not foreseen
_NEAR = 1.2  # of a working set: a reading within is one of it
_CLEAR = 1.5  # of the nearer cache: from there on the last one serves
# Of the last cache: from there on the memory serves. Several threads come round sooner, and find more of theirs.
_BEYOND: dict[Scope, float] = {"core": 2.0, "all": 4.0}


class Watch:
    """Readings of a machine that are taken between the runs of a loop, on one core and on all.

    Use as a context manager. Where no sweep is there to compare, nothing is read. What cannot be read here, for
    want of memory or of threads, is left out.
    """

    def __init__(self, machine: Machine, nbytes: float) -> None:
        """Args:
        machine: measured on this host.
        nbytes: that the loop is expected to go through.
        """
        # asked for now: between the runs of a team, the thread that calls is kept on one of them
        self._machine, self._nbytes, self._allowed = machine, nbytes, _allowed()
        self._streams: _Streams | None = None
        self._taken: Seen = {}
        self._stack = ExitStack()

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def look(self, threads: int) -> None:
        """Read once more what a loop on so many threads meets."""
        scope: Scope = "core" if threads == 1 else "all"
        curve = self._machine.curve(STREAMS, scope)
        if curve is not None and (curve.threads or 1) == threads:
            self._look(scope, self._nbytes / threads)

    def seen(self) -> Seen:
        """Best bytes/s of each look by scope, sweep and working set, in the order they were taken."""
        return self._taken

    def see(self, seen: Seen) -> None:
        """Hold what a copy of this watch has seen in another process."""
        for scope, found in seen.items():
            for place, rates in found.items():
                self._taken.setdefault(scope, {}).setdefault(place, []).extend(rates)

    def readings(self, scope: Scope, nbytes: float) -> tuple[Reading, ...]:
        """What was met by a loop that went through `nbytes` of each core; empty where nothing can be compared.

        What was not foreseen is read now, in a few moments.
        """
        curve, wanted = (
            self._machine.curve(STREAMS, scope),
            _places_of(self._machine, scope, nbytes, self._allowed),
        )
        if curve is None or not wanted:
            return ()
        taken = self._taken.get(scope, {})
        if any(not any(1 / _NEAR <= each / place <= _NEAR for _, each in taken) for place in wanted):
            for number in range(_LATER):
                if number:
                    time.sleep(_LATER_PAUSE_S)
                self._look(scope, nbytes)
        found = []
        for (sweep, nbytes), rates in sorted(self._taken.get(scope, {}).items()):
            swept = self._machine.curve(sweep, scope)
            if swept is not None:
                then = float(np.interp(math.log(nbytes), np.log(swept.x), swept.best))
                found.append(Reading(float(nbytes), max(rates), then, sweep, min(rates)))
        return tuple(found)

    def _look(self, scope: Scope, nbytes: float) -> None:
        places = {(STREAMS, int(each)) for each in _places_of(self._machine, scope, nbytes, self._allowed)}
        if not places:
            return
        rows = _rows_of(self._machine, scope, nbytes)
        if rows is not None and rows < max(most for _, most in places):
            places.add((ROWS, rows))
        try:
            if self._streams is None:
                self._streams = self._stack.enter_context(_Streams(self._machine, self._allowed))
            found = self._streams.read(scope, places)
        except (MemoryError, OSError, RooflabError):
            # nothing is read where memory or threads are short: what was measured stands
            return
        self.see({scope: {place: [max(rates)] for place, rates in found.items()}})


class _Streams:
    """Threads that stream through memory of their own; use as a context manager."""

    def __init__(self, machine: Machine, allowed: Sequence[int]) -> None:
        self._cpus: dict[Scope, list[int]] = {scope: _cpus(machine, scope, allowed) for scope in _SCOPES}
        most: dict[int, int] = {}
        for scope, cpus in self._cpus.items():
            # the largest is the same however much a loop goes through
            places = _places_of(machine, scope, math.inf, allowed)
            for cpu in cpus if places else ():
                most[cpu] = max(most.get(cpu, 0), int(max(places)))
        last = last_cache(machine)
        sharers = 1 if last is None else last.shared_by or 1
        reported = None if last is None else last.reported_capacity_bytes or last.capacity_bytes
        self._arenas = ThreadArenas.reserved(most, reported, min(len(most), sharers))
        self._touched = dict.fromkeys(most, 0)
        self._form = StreamForm(READ, host_simds(host_features(), host_target().machine, host_sve_bits())[0])
        self._rows = StreamForm(STENCIL, self._form.simd)
        both = self._form, self._rows
        kernels = compile_kernels([stream_kernel(each.symbol, each.row, each.simd, each.variant) for each in both])
        self._pinned = PinnedThreads(list(most))
        self._bench = Bench(self._pinned, kernels, np.random.default_rng(0))
        self._samples: dict[tuple[Scope, Place], Samples] = {}

    def __enter__(self) -> _Streams:
        return self

    def __exit__(self, *_: object) -> None:
        self._pinned.__exit__(None, None, None)

    def read(self, scope: Scope, places: Collection[Place]) -> dict[Place, list[float]]:
        """Bytes/s of each working set of a sweep now, a few times in a row."""
        for cpu in self._cpus[scope]:
            self._touch(cpu, max(nbytes for _, nbytes in places) + SLACK_BYTES)
        found = {}
        # the largest first: what follows finds its own in the caches
        for each in sorted(places, key=lambda one: one[1], reverse=True):
            samples = self._samples.get((scope, each))
            if samples is None:
                samples = self._samples[scope, each] = Samples(self._trial(scope, *each))
                self._bench.take([samples], 0)  # how many passes it takes
            before = len(samples.taken)
            for _ in range(1 if samples.trial.burst > 1 else _IN_A_ROW):
                self._bench.again([samples])
            found[each] = [one.per_s for one in samples.taken[before:]]
        return found

    def _trial(self, scope: Scope, sweep: str, nbytes: int) -> Trial:
        bench, arenas, cpus = self._bench, self._arenas, self._cpus[scope]
        if sweep == ROWS:
            trial = rows_apart.trial(bench, arenas, self._rows, nbytes, cpus, _RUN_S)
        else:
            case = StreamCase(READ, scope, nbytes)
            trial = stream_trial(bench, arenas, self._form, case, cpus, _RUN_S, key=nbytes, settled=True)
        return replace(trial, in_a_row=_IN_A_ROW)

    def _touch(self, cpu: int, nbytes: int) -> None:
        before, self._touched[cpu] = self._touched[cpu], max(self._touched[cpu], nbytes)
        if nbytes > before:
            self._pinned.call(cpu, lambda: self._arenas.by_cpu[cpu].touch(before, nbytes - before))


def _allowed() -> list[int]:
    """The CPUs that the calling thread may use; empty where that is not known."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def _cpus(machine: Machine, scope: Scope, allowed: Sequence[int]) -> list[int]:
    """Those that a sweep is repeated on; empty where there is none, or too few of them."""
    curve = machine.curve(STREAMS, scope)
    if curve is None:
        return []
    threads = (curve.threads or 1) if scope == "all" else 1
    cpus = list(allowed[:threads])
    return cpus if len(cpus) == threads else []


def _places_of(machine: Machine, scope: Scope, nbytes: float, allowed: Sequence[int]) -> list[float]:
    curve, last = machine.curve(STREAMS, scope), last_cache(machine)
    if curve is None or last is None or not _cpus(machine, scope, allowed):
        return []
    return _places(machine, last, curve, nbytes)


def _rows_of(machine: Machine, scope: Scope, nbytes: float) -> int | None:
    """The working set that rows are read through for a loop over `nbytes`; None where none so large was swept."""
    curve = machine.curve(ROWS, scope)
    if curve is None or not curve.x[0] <= nbytes <= curve.x[-1]:
        return None
    return int(nbytes)


def _places(machine: Machine, last: Level, curve: Curve, nbytes: float) -> list[float]:
    """Working sets of the sweep: that nearest to `nbytes`, one that the last cache holds, one far beyond."""
    nearer = nearer_bytes(machine)
    threads = together(last, curve)
    outside = [each for each in curve.x if each > _CLEAR * nearer]
    if not outside or nbytes <= _CLEAR * nearer:
        # of what lies in the nearer cache, nothing is asked of the last one
        return []
    whole = max(last.capacity_bytes or 0.0, last.reported_capacity_bytes or 0.0) / threads
    held = [each for each in outside if each <= (last.capacity_bytes or 0.0) / threads / 2]
    far = next((each for each in outside if each >= _BEYOND[curve.scope] * whole), outside[-1])
    wanted = {far, held[-1] if held else outside[0]}
    if nbytes < far:
        wanted.add(min(outside, key=lambda each: abs(np.log(each / nbytes))))
    return sorted(wanted)
