"""Pinned threads, memory and every kernel compiled: what tests that run kernels need."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from rooflab.machines.bench.experiments.bandwidth import STREAM_ROWS, StreamForm
from rooflab.machines.bench.experiments.peaks import PeakForm, peak_forms
from rooflab.machines.bench.kernels.emit import chase_kernel, clock_kernel, ping_pong_kernel, stream_kernel
from rooflab.machines.bench.kernels.jit import compile_kernels, host_features, host_sve_bits, host_target
from rooflab.machines.bench.kernels.rows import STENCIL
from rooflab.machines.bench.kernels.simd import Simd, host_simds
from rooflab.machines.bench.run.arena import Arena
from rooflab.machines.bench.run.pinned_threads import PinnedThreads
from rooflab.machines.bench.run.trials import Bench
from rooflab.machines.detect import detect, granted_cores


@dataclass(frozen=True)
class Workshop:
    """What the tests of kernels need; `streams` and `peaks` are in every register width of this host."""

    bench: Bench
    arena: Arena
    cpus: tuple[int, ...]
    simds: tuple[Simd, ...]
    streams: tuple[StreamForm, ...]
    peaks: tuple[PeakForm, ...]

    @property
    def cpu(self) -> int:
        return self.cpus[0]


@contextmanager
def opened() -> Iterator[Workshop]:
    """A workshop on up to two granted cores; its threads end with it."""
    features, target = host_features(), host_target()
    simds = host_simds(features, target.machine, host_sve_bits())
    streams = tuple(StreamForm(row, simd) for row in (*STREAM_ROWS, STENCIL) for simd in simds)
    peaks = peak_forms(simds, features, target)
    kernels = compile_kernels(
        [
            *(stream_kernel(form.symbol, form.row, form.simd) for form in streams),
            *(form.emitted for form in peaks),
            clock_kernel(),
            chase_kernel(),
            ping_pong_kernel(),
        ]
    )
    cpus = granted_cores(detect(gpus=False))[:2]
    affinity = os.sched_getaffinity(0)
    with PinnedThreads(cpus) as pinned:
        arena = Arena.reserve(8 << 20)
        arena.touch()
        yield Workshop(Bench(pinned, kernels, np.random.default_rng(0)), arena, cpus, simds, streams, peaks)
    assert os.sched_getaffinity(0) == affinity, "a pinned worker has pinned the main thread too"
