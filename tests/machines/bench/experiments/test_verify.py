"""Every kernel of this host computes what NumPy does; a kernel that does not is caught before it is timed."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rooflab.errors import MeasureError
from rooflab.machines.bench.experiments.bandwidth import StreamForm
from rooflab.machines.bench.experiments.latency import chase_check
from rooflab.machines.bench.experiments.peaks import PeakForm
from rooflab.machines.bench.experiments.verify import verify_all, verify_clock, verify_peak, verify_stream
from rooflab.machines.bench.kernels.emit import clock_kernel, peak_kernel, stream_kernel
from rooflab.machines.bench.kernels.expression import Expression
from rooflab.machines.bench.kernels.ir import Emitted
from rooflab.machines.bench.kernels.jit import compile_kernels
from rooflab.machines.bench.kernels.rows import PEAKS, READ, STENCIL, STORES, Chain, StreamRow
from rooflab.machines.bench.run.arena import Arena
from rooflab.machines.bench.run.pinned_threads import Job
from rooflab.machines.bench.run.thread_arenas import ThreadArenas
from rooflab.machines.bench.run.trials import Bench
from support.machines.workshop import Workshop

STREAMS = (READ, *STORES, STENCIL)


def test_every_kernel_of_this_host(workshop: Workshop) -> None:
    verify_all(workshop.bench, workshop.streams, workshop.peaks, workshop.arena, workshop.cpu)
    chase_check(workshop.bench, workshop.arena, workshop.cpu)
    # Every row is there in every width: none was left out by mistake.
    assert {(form.row, form.simd) for form in workshop.streams} == {
        (row, simd) for row in STREAMS for simd in workshop.simds
    }
    assert {form.row.what for form in workshop.peaks} >= {"add"}


def bench_with(workshop: Workshop, kernel: Emitted) -> Bench:
    """The workshop's bench with one kernel put in another's place."""
    return replace(workshop.bench, kernels={**workshop.bench.kernels, **compile_kernels([kernel])})


WRONG_STREAMS = [
    ("copy", "a[i] = b[i+1]"),
    ("copy", "a[i] = s"),
    ("write", "a[i] = t"),
    ("triad", "a[i] = b[i] + t * c[i]"),
    ("triad", "a[i] = b[i] + s * b[i]"),
    ("triad", "a[i] = b[i] - s * c[i]"),
    ("stencil", "a[i] = s * (b[i] + b[i-1] + b[i+1] + b[i-w] + b[i-w])"),
    ("stencil", "a[i] = s * (b[i] + b[i-1] + b[i+1] + b[i-1] + b[i+w])"),
    ("read", "x ^= a[i+1]"),
]


@pytest.mark.parametrize(("what", "wrong"), WRONG_STREAMS)
def test_a_wrong_stream_is_caught(workshop: Workshop, what: str, wrong: str) -> None:
    row = next(row for row in STREAMS if row.name == what)
    form = StreamForm(row, workshop.simds[0])
    kernel = stream_kernel(form.symbol, replace(row, expression=Expression(wrong)), form.simd)
    with pytest.raises(MeasureError, match=f"kernel {form.symbol}: wrong result .*nothing was measured"):
        verify_stream(bench_with(workshop, kernel), form, workshop.arena, workshop.cpu)


def copied_with(workshop: Workshop, lines: list[str]) -> tuple[Bench, StreamForm]:
    """A copy kernel whose loop is `lines`, and the form that it claims to be."""
    form, kernel = _copy(workshop)
    return bench_with(workshop, replace(kernel, loop=replace(kernel.loop, lines=lines))), form


def _copy(workshop: Workshop) -> tuple[StreamForm, Emitted]:
    row = next(row for row in STORES if row.name == "copy")
    form = StreamForm(row, workshop.simds[0])
    return form, stream_kernel(form.symbol, row, form.simd)


def test_a_unit_that_reads_the_same_element_again_is_caught(workshop: Workshop) -> None:
    lines = list(_copy(workshop)[1].loop.lines)
    assert lines[0].endswith("i64 %i")
    lines[0] = lines[0].removesuffix("%i") + "0"
    bench, form = copied_with(workshop, lines)
    with pytest.raises(MeasureError, match="wrong result"):
        verify_stream(bench, form, workshop.arena, workshop.cpu)


def test_a_unit_without_its_store_is_caught(workshop: Workshop) -> None:
    lines = list(_copy(workshop)[1].loop.lines)
    lines.remove(next(line for line in lines if line.startswith("store")))
    bench, form = copied_with(workshop, lines)
    with pytest.raises(MeasureError, match="wrong result"):
        verify_stream(bench, form, workshop.arena, workshop.cpu)


@pytest.mark.parametrize("wrong", ["x = x + t", "x = x - s", "x = s * s + x"])
def test_one_wrong_chain_of_a_peak_is_caught(workshop: Workshop, wrong: str) -> None:
    row = next(row for row in PEAKS if row.name == "add fp64")
    mixed = (Chain(Expression("x = x + s"), 7), Chain(Expression(wrong), 1))
    right = (Chain(Expression("x = x + s"), 8),)
    simd = next(form for form in workshop.peaks if form.row == row).simd
    kernel = peak_kernel("peak", replace(row, wide=mixed, narrow=mixed), simd)
    form = PeakForm(replace(row, wide=right, narrow=right), simd, kernel)
    with pytest.raises(MeasureError, match="kernel peak chain 7: wrong result"):
        verify_peak(bench_with(workshop, kernel), form, workshop.arena, workshop.cpu)


def test_a_peak_that_skips_steps_is_caught(workshop: Workshop) -> None:
    row = next(row for row in PEAKS if row.name == "add fp64")
    simd = workshop.simds[0]
    lazy = peak_kernel("peak", replace(row, repeat=row.repeat - 1), simd)
    with pytest.raises(MeasureError, match="kernel peak chain 0: wrong result"):
        verify_peak(bench_with(workshop, lazy), PeakForm(row, simd, lazy), workshop.arena, workshop.cpu)


def test_a_folded_clock_is_caught(workshop: Workshop) -> None:
    # 127 steps in 128 iterations' name: what a compiler that folds two of them would leave.
    kernel = replace(clock_kernel(length=127), operations=128)
    with pytest.raises(MeasureError, match="kernel clock: wrong result"):
        verify_clock(bench_with(workshop, kernel), workshop.arena, workshop.cpu)


@pytest.mark.parametrize("row", STREAMS, ids=lambda row: row.name)
def test_nothing_is_written_outside_the_target(workshop: Workshop, row: StreamRow) -> None:
    form = next(form for form in workshop.streams if form.row == row)
    kernel = workshop.bench.kernels[form.symbol]
    job = ThreadArenas({workshop.cpu: workshop.arena}).stream_job(
        workshop.cpu, kernel, len(row.expression.streams), 96 * 1024
    )
    job = replace(job, a=job.a + 8192, b=job.b + 8192, c=job.c + 8192, width=256, iterations=2 * job.iterations)
    whole = workshop.arena.view(np.uint8, 0, 512 * 1024)
    whole[:] = np.random.default_rng(0).integers(0, 60, whole.size)
    before = whole.copy()
    workshop.bench.pinned.run([job])
    first = job.a - workshop.arena.address
    outside = np.ones(whole.size, bool)
    if row.expression.writes:
        outside[first : first + job.nbytes] = False
        assert not np.array_equal(whole[~outside], before[~outside])
    assert np.array_equal(whole[outside], before[outside])


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.integers(1, 9), iterations=st.integers(1, 40))
def test_the_offset_wraps_at_the_end(workshop: Workshop, steps: int, iterations: int) -> None:
    """A read of `iterations` steps over `steps` steps' worth of memory visits them round and round."""
    form = next(form for form in workshop.streams if form.row == READ)
    kernel = workshop.bench.kernels[form.symbol]
    nbytes = steps * kernel.emitted.step_bytes
    data = workshop.arena.view(np.int64, 0, nbytes)
    data[:] = np.random.default_rng(steps).integers(-(2**62), 2**62, data.size)
    # What lies behind must not be read.
    workshop.arena.view(np.int64, nbytes, 4096)[:] = -1
    workshop.bench.pinned.run([Job(workshop.cpu, kernel, iterations, a=workshop.arena.address, nbytes=nbytes)])
    lanes = kernel.emitted.results * form.simd.lanes("int64")
    got = np.bitwise_xor.reduce(workshop.bench.pinned.results(workshop.cpu, np.int64, lanes))
    expected = 0
    for step in range(iterations):
        expected ^= int(np.bitwise_xor.reduce(data.reshape(steps, -1)[step % steps]))
    assert int(got) == expected


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kib=st.integers(1, 900),
    row=st.sampled_from(STREAMS),
)
def test_the_streams_of_a_job_do_not_overlap(workshop: Workshop, kib: int, row: StreamRow) -> None:
    form = next(form for form in workshop.streams if form.row == row)
    kernel, streams = workshop.bench.kernels[form.symbol], len(row.expression.streams)
    arenas = ThreadArenas({workshop.cpu: Arena.reserve(4 << 20)})
    job = arenas.stream_job(workshop.cpu, kernel, streams, kib * 1024)
    starts = sorted([job.a, job.b, job.c][:streams])
    assert job.nbytes * streams <= max(kib * 1024, streams * kernel.emitted.step_bytes)
    assert job.iterations * kernel.emitted.step_bytes == job.nbytes
    for near, far in itertools.pairwise(starts):
        assert far - near >= job.nbytes
    assert all(start % 64 == 0 for start in starts)
