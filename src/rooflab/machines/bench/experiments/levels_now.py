"""How a shared last cache and the memory stream now, beside what they did when the machine was measured.

Neighbours on the host take lines of a shared cache and a part of the memory's bandwidth, another part at every
moment: on a rented machine both were seen to change by half within a minute. A loop that is timed now meets what
there is now. A few working sets of the measured sweep are streamed through once more, as they were then.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from rooflab.machines.as_now import SWEEPS, Reading, last_cache, nearer_bytes
from rooflab.machines.bench.experiments.bandwidth import StreamCase, StreamForm, stream_trial
from rooflab.machines.bench.kernels.emit import stream_kernel
from rooflab.machines.bench.kernels.jit import compile_kernels, host_features, host_sve_bits, host_target
from rooflab.machines.bench.kernels.rows import READ
from rooflab.machines.bench.kernels.simd import host_simds
from rooflab.machines.bench.run.pinned_threads import PinnedThreads
from rooflab.machines.bench.run.thread_arenas import ThreadArenas
from rooflab.machines.bench.run.trials import Bench, Samples
from rooflab.machines.served_share import together
from rooflab.types.machine import Curve, Level, Machine, Scope

_ROUNDS, _RUN_S, _BUDGET_S = 3, 0.0025, 0.15
_CLEAR, _BEYOND = 1.5, 2.0  # of the nearer cache and of the last one: from there on the other serves


def measure(machine: Machine, nbytes: float, scope: Scope) -> tuple[Reading, ...]:
    """Readings about what `nbytes` of one core meet, and of the memory; empty where no sweep is there to compare.

    Args:
        machine: measured on this host.
        nbytes: that each core goes through.
        scope: one core, or as many as the sweep of all had.
    """
    curve = machine.curve(SWEEPS[0], scope)
    last = last_cache(machine)
    if curve is None or last is None or not hasattr(os, "sched_getaffinity"):
        return ()
    cpus = sorted(os.sched_getaffinity(0))[: (curve.threads or 1) if scope == "all" else 1]
    if scope == "all" and len(cpus) < (curve.threads or 1):
        return ()
    places = _places(machine, last, curve, nbytes)
    if not places:
        return ()
    then = dict(zip(curve.x, curve.best, strict=True))
    now = _streamed([int(each) for each in places], cpus, scope, last)
    return tuple(Reading(each, now[int(each)], then[each]) for each in places)


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
    far = next((each for each in outside if each >= _BEYOND * whole), outside[-1])
    wanted = {far, held[-1] if held else outside[0]}
    if nbytes < far:
        wanted.add(min(outside, key=lambda each: abs(np.log(each / nbytes))))
    return sorted(wanted)


def _streamed(places: Sequence[int], cpus: Sequence[int], scope: Scope, last: Level) -> dict[int, float]:
    simd = host_simds(host_features(), host_target().machine, host_sve_bits())[0]
    form = StreamForm(READ, simd)
    kernels = compile_kernels([stream_kernel(form.symbol, form.row, form.simd, form.variant)])
    reported = last.reported_capacity_bytes or last.capacity_bytes
    with PinnedThreads(cpus) as pinned:
        arenas = ThreadArenas.touched(
            pinned, dict.fromkeys(cpus, max(places)), reported, min(len(cpus), last.shared_by or 1)
        )
        bench = Bench(pinned, kernels, np.random.default_rng(0))
        samples = {
            each: Samples(
                stream_trial(
                    bench, arenas, form, StreamCase(READ, scope, each), cpus, _RUN_S, key=each, settled=True
                )
            )
            for each in places
        }
        bench.take(samples.values(), _ROUNDS, budget_s=_BUDGET_S)
    return {each: found.series.best for each, found in samples.items()}
