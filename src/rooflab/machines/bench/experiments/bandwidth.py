"""Bandwidth: a fine sweep of reads, then every kind of stream at the plateaus it found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rooflab.machines.bench.kernels.rows import READ, STORES, StreamRow
from rooflab.machines.bench.kernels.simd import Simd
from rooflab.machines.bench.kernels.variants import PLAIN, Variant, variants
from rooflab.machines.bench.run.thread_arenas import ThreadArenas
from rooflab.machines.bench.run.trials import Bench, Samples, Trial
from rooflab.types.machine import Scope

STREAM_ROWS = (READ, *STORES)
_PILOT_RUN_S = 0.001
# Passes after which a cache holds what it will of a stream about as large as it: on Zen 4's L3, 4 to 8 until the
# bandwidth changes no more. Of working sets from a quarter of the last cache to three times it.
SETTLING, _ABOUT_AS_LARGE = 8, (0.25, 3.0)
# A form this far behind the best of its row after one short run is not tried again.
_MAY_WIN = 0.85
_PILOT_ROUNDS = 3


@dataclass(frozen=True)
class StreamForm:
    """A row compiled for one register width, its loop written in one way."""

    row: StreamRow
    simd: Simd
    variant: Variant = PLAIN

    @property
    def symbol(self) -> str:
        """The kernel's name in the compiled module."""
        return f"{self.row.name.replace(' ', '_')}_{self.simd.bits}{self.variant.symbol}"

    @property
    def name(self) -> str:
        """How the loop is written: "AVX2, plain"."""
        return f"{self.simd.name}, {self.variant.name}"


@dataclass(frozen=True)
class StreamCase:
    """One measurement: a row at a working set per core, on one core or all; `form` is how its loop is written."""

    row: StreamRow
    scope: Scope
    working_set: int
    level: str | None = None
    form: str | None = None


def stream_trial(
    bench: Bench,
    arenas: ThreadArenas,
    form: StreamForm,
    case: StreamCase,
    cpus: Sequence[int],
    run_s: float,
    key: object = None,
    tolerance: float | None = None,
    led: bool = False,
    settled: bool = False,
) -> Trial:
    """The trial for `case` on `cpus`: all of them stream through memory of their own.

    With `led`, beyond the last cache, each sample begins in a cache that the same stream has filled; without, what
    it drives out is what the sample before it left, which is the same where all samples only read. With `settled`,
    what is about as large as the last cache is gone through until the cache holds what it can of it.
    """
    kernel = bench.kernels[form.symbol]
    streams, places = len(form.row.expression.streams), form.variant.places
    settling = settled and about_as_large(arenas, case.working_set, len(cpus))
    window = case.working_set if settling else arenas.window_bytes(case.working_set, len(cpus))
    jobs = tuple(arenas.stream_job(cpu, kernel, streams, window, places) for cpu in cpus)
    per_pass = sum(job.nbytes for job in jobs) * form.row.expression.streamed_elements * places
    return Trial(
        key or case,
        jobs,
        per_pass,
        run_s,
        tolerance=tolerance,
        windows=case.working_set // window,
        window_bytes=window,
        lead=arenas.lead(case.working_set, len(cpus)) if led else 0,
        settling=SETTLING if settling else 1,
    )


def about_as_large(arenas: ThreadArenas, working_set: int, cpus: int) -> bool:
    """Whether so much of each of so many CPUs is about as large as what they have of the last cache."""
    share = arenas.share_bytes(cpus)
    return share is not None and _ABOUT_AS_LARGE[0] <= working_set / share <= _ABOUT_AS_LARGE[1]


def forms_of(row: StreamRow, simds: Iterable[Simd]) -> list[StreamForm]:
    """Every way to write `row` that is worth trying."""
    return [StreamForm(row, simd, variant) for simd in simds for variant in variants(row, simd)]


def fastest_forms(
    bench: Bench,
    arenas: ThreadArenas,
    forms: Iterable[StreamForm],
    cpu: int,
    working_set: int,
    rounds: int = _PILOT_ROUNDS,
    best: int = 1,
) -> dict[StreamRow, list[StreamForm]]:
    """For each row those `best` of `forms` that stream fastest through `working_set`, fastest first, by trying.

    No table says which: some cores split wide stores or clock down, some follow two streams at once but
    not four, some stop to prefetch at a page's end. A first round drops all that are far behind.
    """
    listed = list(forms)
    at = {
        form: Samples(
            stream_trial(
                bench, arenas, form, StreamCase(form.row, "core", working_set), (cpu,), _PILOT_RUN_S, key=form
            )
        )
        for form in listed
    }
    bench.take(at.values(), 1)
    for _ in range(rounds):
        bench.again([at[form] for form in _near_the_best(at)])
    ranked = sorted(listed, key=lambda form: at[form].series.best, reverse=True)
    chosen: dict[StreamRow, list[StreamForm]] = {form.row: [] for form in listed}
    for form in ranked:
        if len(chosen[form.row]) < best:
            chosen[form.row].append(form)
    return chosen


def _near_the_best(at: Mapping[StreamForm, Samples]) -> list[StreamForm]:
    """Of each row the forms that may still turn out the fastest."""
    best: dict[StreamRow, float] = {}
    for form, samples in at.items():
        best[form.row] = max(best.get(form.row, 0.0), samples.series.best)
    return [form for form, samples in at.items() if samples.series.best >= _MAY_WIN * best[form.row]]


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
        stream_trial(bench, arenas, form, StreamCase(form.row, scope, size), cpus, run_s, key=size, settled=True)
        for size in working_sets
    ]
    samples = bench.interleave(trials, rounds, budget_s=budget_s)
    return {size: samples[size] for size in working_sets}


def scaling(
    bench: Bench,
    arenas: ThreadArenas,
    form: StreamForm,
    working_sets: tuple[int, int],
    cpus: Sequence[int],
    rounds: int,
    run_s: float,
) -> dict[int, Samples]:
    """Bandwidth of `form` by number of threads: 1, 2, 4, … and all.

    Args:
        working_sets: bytes that the first thread streams through alone, and each of several.
    """
    counts = sorted({*(2**k for k in range(len(cpus).bit_length())), len(cpus)} - {0})
    counts = [count for count in counts if count <= len(cpus)]
    sizes = {count: working_sets[min(count, 2) - 1] for count in counts}
    trials = [
        stream_trial(bench, arenas, form, StreamCase(form.row, "all", size), cpus[:count], run_s, key=count)
        for count, size in sizes.items()
    ]
    samples = bench.interleave(trials, rounds)
    return {count: samples[count] for count in counts}
