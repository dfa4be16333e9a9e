"""Rows that are read side by side: which sizes are swept, and what a sample of them goes through."""

from __future__ import annotations

from rooflab.machines.bench.experiments import rows_apart
from rooflab.machines.bench.experiments.bandwidth import StreamForm
from rooflab.machines.bench.kernels.rows import STENCIL
from rooflab.machines.bench.levels.levels import CoreCache
from rooflab.machines.bench.run.arena import Arena
from rooflab.machines.bench.run.thread_arenas import ThreadArenas
from rooflab.units import KIB, MIB
from support.machines.workshop import Workshop

CACHES = (CoreCache("L1", 32 * KIB, 1, 1, 64, 8), CoreCache("L3", 16 * MIB, 2, 2, 64, 16))


def test_sizes_lie_about_the_last_cache_and_not_too_close() -> None:
    swept = (4 * KIB, MIB, 2 * MIB, round(2.5 * MIB), 4 * MIB, 8 * MIB, 16 * MIB, 32 * MIB)
    assert rows_apart.sizes(swept, CACHES) == [2 * MIB, 4 * MIB, 8 * MIB, 16 * MIB, 32 * MIB]
    assert rows_apart.sizes(swept, ()) == []
    # of a small cache only what holds some rows of 16 KiB
    small = (CoreCache("L2", 128 * KIB, 1, 1, 64, 8),)
    assert rows_apart.sizes((16 * KIB, 64 * KIB, 256 * KIB, MIB), small) == [256 * KIB, MIB]


def test_a_small_sweep_runs_and_counts_two_arrays(workshop: Workshop) -> None:
    simd = next(form.simd for form in workshop.streams if form.row is STENCIL)
    arenas = ThreadArenas({workshop.cpu: Arena.reserve(4 * MIB)}, 16.0 * MIB, 2)
    swept = rows_apart.sweep(
        workshop.bench, arenas, StreamForm(STENCIL, simd), [MIB, 2 * MIB], [workshop.cpu], 1, 1e-4, 1.0
    )
    assert list(swept) == [MIB, 2 * MIB]
    assert (
        rows_apart.sweep(workshop.bench, arenas, StreamForm(STENCIL, simd), [], [workshop.cpu], 1, 1e-4, 1.0) == {}
    )
    for size, samples in swept.items():
        (job,) = samples.trial.jobs
        assert samples.trial.per_pass == 2 * job.nbytes <= size
        assert samples.series.best > 0
