"""Bandwidth: a fine sweep of reads, then every kind of stream at the plateaus it found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rooflab.machines.bench.kernels.rows import READ, STORES, StreamRow
from rooflab.machines.bench.kernels.simd import Simd
from rooflab.machines.bench.run.thread_arenas import ThreadArenas
from rooflab.machines.bench.run.trials import Bench, Samples, Trial
from rooflab.types.machine import Scope

STREAM_ROWS = (READ, *STORES)
_PILOT_RUN_S = 0.003
_PILOT_ROUNDS = 3


@dataclass(frozen=True)
class StreamForm:
    """A row compiled for one register width."""

    row: StreamRow
    simd: Simd

    @property
    def symbol(self) -> str:
        """The kernel's name in the compiled module."""
        return f"{self.row.name.replace(' ', '_')}_{self.simd.bits}"


@dataclass(frozen=True)
class StreamCase:
    """One measurement: a row at a working set per core, on one core or all; `simd` is the registers' name."""

    row: StreamRow
    scope: Scope
    working_set: int
    level: str | None = None
    simd: str | None = None


def stream_trial(
    bench: Bench,
    arenas: ThreadArenas,
    form: StreamForm,
    case: StreamCase,
    cpus: Sequence[int],
    run_s: float,
    key: object = None,
    tolerance: float | None = None,
) -> Trial:
    """The trial for `case` on `cpus`: all of them stream through memory of their own."""
    kernel = bench.kernels[form.symbol]
    streams = len(form.row.expression.streams)
    jobs = tuple(arenas.stream_job(cpu, kernel, streams, case.working_set) for cpu in cpus)
    per_pass = sum(job.nbytes for job in jobs) * form.row.expression.streamed_elements
    return Trial(key or case, jobs, per_pass, run_s, tolerance=tolerance)


def fastest_forms(
    bench: Bench,
    arenas: ThreadArenas,
    rows: Iterable[StreamRow],
    simds: Sequence[Simd],
    cpu: int,
    working_set: int,
    rounds: int = _PILOT_ROUNDS,
) -> dict[StreamRow, StreamForm]:
    """For each row the register width that streams fastest through `working_set`, by a short pilot.

    The widest is not always the fastest: some cores split wide stores or clock down.
    """
    rows = list(rows)
    trials = [
        stream_trial(bench, arenas, form, StreamCase(row, "core", working_set), (cpu,), _PILOT_RUN_S, key=form)
        for row in rows
        for form in (StreamForm(row, simd) for simd in simds)
    ]
    samples = bench.interleave(trials, rounds)
    return {
        row: max(
            (form for form in samples if isinstance(form, StreamForm) and form.row == row),
            key=lambda form: samples[form].series.best,
        )
        for row in rows
    }


def sweep(
    bench: Bench,
    arenas: ThreadArenas,
    form: StreamForm,
    working_sets: Sequence[int],
    cpus: Sequence[int],
    scope: Scope,
    rounds: int,
    run_s: float,
    budget_s: float,
) -> dict[int, Samples]:
    """Bandwidth of `form` over working-set size, the rounds interleaved over the sizes."""
    trials = [
        stream_trial(bench, arenas, form, StreamCase(form.row, scope, size), cpus, run_s, key=size)
        for size in working_sets
    ]
    samples = bench.interleave(trials, rounds, budget_s=budget_s)
    return {size: samples[size] for size in working_sets}


def scaling(
    bench: Bench,
    arenas: ThreadArenas,
    form: StreamForm,
    working_set: int,
    cpus: Sequence[int],
    rounds: int,
    run_s: float,
) -> dict[int, Samples]:
    """Bandwidth of `form` by number of threads: 1, 2, 4, … and all."""
    counts = sorted({*(2**k for k in range(len(cpus).bit_length())), len(cpus)} - {0})
    counts = [count for count in counts if count <= len(cpus)]
    trials = [
        stream_trial(bench, arenas, form, StreamCase(form.row, "all", working_set), cpus[:count], run_s, key=count)
        for count in counts
    ]
    samples = bench.interleave(trials, rounds)
    return {count: samples[count] for count in counts}
