"""The kernels of known work: FLOP and bytes as counted by hand, arrays that do not touch each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from rooflab.machines.bench.experiments import known_kernels
from rooflab.machines.bench.experiments.bandwidth import StreamForm
from rooflab.machines.bench.experiments.call_overhead import numba_overhead, numpy_overhead
from rooflab.machines.bench.kernels.rows import STENCIL, STORES
from rooflab.machines.bench.run.arena import Arena
from rooflab.machines.bench.run.pinned_threads import Job, Run
from rooflab.machines.bench.run.thread_arenas import ThreadArenas
from rooflab.machines.bench.run.trials import Bench
from rooflab.units import MIB
from support.machines.workshop import Workshop

ROW = known_kernels.STENCIL_WIDTH * 8


class Recorder:
    """Pinned threads that run nothing, take one second a pass, and remember the jobs."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []

    def run(self, jobs: Sequence[Job]) -> Run:
        self.jobs = list(jobs)
        return Run(1.0, (1.0,) * len(jobs))


@pytest.fixture
def recorder(workshop: Workshop) -> tuple[Recorder, Bench, ThreadArenas]:
    pinned = Recorder()
    arenas = ThreadArenas({cpu: Arena.reserve(6 * MIB) for cpu in (0, 1)})
    return pinned, Bench(pinned, workshop.bench.kernels, np.random.default_rng(0)), arenas  # type: ignore[arg-type]


def test_a_triad_counts_two_flop_and_24_bytes_an_element(
    workshop: Workshop, recorder: tuple[Recorder, Bench, ThreadArenas]
) -> None:
    pinned, bench, arenas = recorder
    form = StreamForm(next(row for row in STORES if row.name == "triad"), workshop.simds[0])
    found = known_kernels.triad(bench, arenas, form, (0, 1), 4 * MIB, 2)
    elements = sum(job.nbytes for job in pinned.jobs) // 8
    # a = b + s·c: 1 addition and 1 multiplication; b and c are read, a is written
    assert found.flop == 2 * elements
    assert found.bytes == 3 * 8 * elements
    assert found.per_s.values == (1.0, 1.0)
    assert found.threads == 2


def test_stencil_counts_and_its_arrays_are_apart(
    workshop: Workshop, recorder: tuple[Recorder, Bench, ThreadArenas]
) -> None:
    pinned, bench, arenas = recorder
    found = known_kernels.stencil(bench, arenas, StreamForm(STENCIL, workshop.simds[0]), (0, 1), 4 * MIB, 2)
    read = written = 0
    for job in pinned.jobs:
        assert job.width == known_kernels.STENCIL_WIDTH
        first, last = job.b - ROW, job.b + job.nbytes + ROW  # one row before and one after are read
        assert job.a + job.nbytes <= first or last <= job.a, "the output overwrites the input"
        arena = arenas.by_cpu[job.cpu]
        assert arena.address <= min(first, job.a)
        assert max(last, job.a + job.nbytes) <= arena.address + arena.nbytes
        read, written = read + last - first, written + job.nbytes
    assert found.bytes == read + written
    assert found.flop == 5 * written // 8  # 4 additions and 1 multiplication


def test_stencil_against_plain_loops(workshop: Workshop) -> None:
    form = StreamForm(STENCIL, workshop.simds[0])
    kernel = workshop.bench.kernels[form.symbol]
    width, rows = 16, 12
    count = width * (rows - 2)
    step = kernel.emitted.step_bytes
    assert count * 8 % step == 0
    grid = workshop.arena.view(np.float64, 0, 8 * width * rows)
    grid[:] = np.random.default_rng(0).integers(-9, 9, grid.size)
    out = workshop.arena.view(np.float64, 1 << 16, 8 * count)
    job = Job(
        workshop.cpu,
        kernel,
        count * 8 // step,
        a=workshop.arena.address + (1 << 16),
        b=workshop.arena.address + 8 * width,
        nbytes=8 * count,
        width=width,
        s=0.5,
    )
    workshop.bench.pinned.run([job])
    for place in range(count):
        at = place + width
        total = grid[at] + grid[at - 1] + grid[at + 1] + grid[at - width] + grid[at + width]
        assert out[place] == 0.5 * total


def test_a_matrix_product_counts_2n3_flop() -> None:
    found = known_kernels.matmul(2, 2, n=16)
    assert found.flop == 2 * 16**3
    assert found.bytes == 3 * 16 * 16 * 8
    assert found.per_s.runs == 2
    assert found.per_s.best > 0


@pytest.mark.parametrize("measured", [numpy_overhead, pytest.param(numba_overhead, marks=pytest.mark.slow)])
def test_empty_calls_cost_something(measured: object) -> None:
    found = measured(2)  # type: ignore[operator]
    assert found.timing.runs == 2
    # An empty call from Python takes tens of nanoseconds; a second would be a wrong unit.
    assert 0 <= found.timing.best_s < 1e-3
    assert found.version.count(".") >= 1


def test_the_blas_library_names_its_kernels(tmp_path) -> None:
    np.ones((2, 2)) @ np.ones((2, 2))
    said = known_kernels.blas_kernels()
    assert said is None or said.startswith("OpenBLAS, kernels for ")
    none_loaded, no_library = tmp_path / "maps", tmp_path / "other"
    none_loaded.write_text("7f00-7f01 r-xp 00000000 00:00 0 /lib/libc.so.6\n")
    no_library.write_text(f"7f00-7f01 r-xp 00000000 00:00 0 {tmp_path}/openblas.txt\n")
    assert known_kernels.blas_kernels(none_loaded) is None
    assert known_kernels.blas_kernels(no_library) is None
    assert known_kernels.blas_kernels(tmp_path / "absent") is None
