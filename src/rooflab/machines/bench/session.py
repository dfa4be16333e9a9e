"""A whole measurement, stage by stage; an interruption keeps what was measured before it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rooflab.machines.bench.experiments import (
    call_overhead,
    core_operations,
    known_kernels,
    latency,
    products,
    rows_apart,
    thread_teams,
    torch_products,
    translations,
)
from rooflab.machines.bench.experiments.bandwidth import (
    STREAM_ROWS,
    StreamCase,
    StreamForm,
    fastest_forms,
    forms_of,
    scaling,
    stream_trial,
    sweep,
)
from rooflab.machines.bench.experiments.disk import measure_disk
from rooflab.machines.bench.experiments.numa import measure_remote
from rooflab.machines.bench.experiments.peaks import PeakForm, measure_peaks, measure_sustained, peak_forms
from rooflab.machines.bench.experiments.verify import verify_all
from rooflab.machines.bench.findings import Findings
from rooflab.machines.bench.kernels.emit import chase_kernel, clock_kernel, ping_pong_kernel, stream_kernel
from rooflab.machines.bench.kernels.jit import compile_kernels, host_features, host_sve_bits, host_target
from rooflab.machines.bench.kernels.rows import READ, STENCIL, StreamRow
from rooflab.machines.bench.kernels.simd import Simd, host_simds
from rooflab.machines.bench.levels.levels import (
    MAIN_MEMORY,
    CoreCache,
    MeasuredLevel,
    in_doubt,
    latency_size,
    measured_levels,
    remeasured,
)
from rooflab.machines.bench.plan import Plan, cpus_to_use, reported_caches, sizes_to_sweep
from rooflab.machines.bench.run.background_load import background_load, cpu_time
from rooflab.machines.bench.run.interruptible import interruptible
from rooflab.machines.bench.run.pinned_threads import PinnedThreads
from rooflab.machines.bench.run.thread_arenas import ThreadArenas
from rooflab.machines.bench.run.trials import Bench, Samples, spread_bound
from rooflab.machines.detect import Host, mappable_bytes
from rooflab.machines.microarchitecture import find as find_microarchitecture
from rooflab.timing import Series
from rooflab.types.machine import Scope

Progress = Callable[[str, float, float], None]
# Register widths worth trying: narrower ones than the two widest never win.
_WIDTHS = 2
_L1_PILOT_BYTES = 16 * 1024
# How often the working sets of a cache that the system reports, but no curve shows, are measured again.
_SECOND_LOOKS = 2
# A stage gets at least this share of its time, however late it is.
_LEAST_PACE = 0.25
# Share of huge pages from which on memory counts as lying in them.
_MOSTLY = 0.9


@dataclass
class Session:
    """What the stages share: the findings they fill, and the tools they use.

    Attributes:
        ends: when all of it should be done, by the monotonic clock.
        pace: what the budgets of the present stage are multiplied by, so that it is.
    """

    findings: Findings
    bench: Bench
    arenas: ThreadArenas
    simds: tuple[Simd, ...]
    peaks: tuple[PeakForm, ...]
    ends: float = math.inf
    pace: float = 1.0

    def set_pace(self, left: float) -> None:
        """Choose the pace of the next stage: below 1 where the share `left` of the work has less than its time."""
        due_s = left * self.findings.plan.whole_s
        self.pace = min(1.0, max(_LEAST_PACE, (self.ends - time.monotonic()) / due_s)) if due_s > 0 else 1.0

    @property
    def cpus(self) -> tuple[int, ...]:
        """The CPUs measured; the first one alone for scope "core"."""
        return self.findings.cpus

    @property
    def scopes(self) -> dict[Scope, tuple[int, ...]]:
        """The CPUs of each scope; with one core granted there is only scope "core"."""
        scopes: dict[Scope, tuple[int, ...]] = {"core": self.cpus[:1]}
        if len(self.cpus) > 1:
            scopes["all"] = self.cpus
        return scopes

    def plain(self, row: StreamRow, working_set: int = _L1_PILOT_BYTES) -> StreamForm:
        """The fastest register width for the plain loop of `row` at `working_set`."""
        forms = [StreamForm(row, simd) for simd in self.simds]
        return fastest_forms(self.bench, self.arenas, forms, self.cpus[0], working_set)[row][0]

    def fastest(
        self, forms: list[StreamForm], level: MeasuredLevel, rounds: int, best: int = 1
    ) -> dict[StreamRow, list[StreamForm]]:
        """Of `forms` the `best` of each row at `level`, on the first core."""
        return fastest_forms(self.bench, self.arenas, forms, self.cpus[0], level.core_bytes, rounds, best)


class Stage(NamedTuple):
    """One part of a measurement; `weight` is its share of a default run's time, `wanted` whether a plan has it."""

    name: str
    weight: float
    measure: Callable[[Session], None]
    wanted: Callable[[Plan], bool] = lambda plan: True


def run(
    host: Host,
    plan: Plan,
    threads: int | None = None,
    progress: Progress | None = None,
    rng: np.random.Generator | None = None,
) -> Findings:
    """Measure this machine by `plan`.

    Args:
        host: what `detect` returned.
        plan: how thoroughly to measure.
        threads: how many hardware threads to measure on; one on each granted core if None.
        progress: called with the stage's name and how much of the whole is done, from 0 to 1.
        rng: decides the order of trials and the jitter.

    Raises:
        MeasureError: more threads than granted, or a kernel with a wrong result.
        KeyboardInterrupt: before anything was measured. Later ones end the run early, with
            `Findings.incomplete` set.
    """
    start = time.monotonic()
    cpus = cpus_to_use(host, threads)
    caches = reported_caches(host, cpus)
    sizes = sizes_to_sweep(plan, caches, cpus, host.memory_granted_bytes, mappable_bytes(host))
    findings = Findings(host, cpus, caches, sizes, plan)
    findings.microarchitecture = find_microarchitecture(host, cpu=cpus[0])
    before = cpu_time(host.allowed_cpus)
    report = progress or _ignore
    with interruptible() as tick, PinnedThreads(cpus) as pinned:
        report("compiling kernels", 0.0, 1.0)
        session = _session(findings, pinned, rng or np.random.default_rng(), tick)
        session.ends = start + plan.whole_s
        run_stages(session, STAGES, report)
        report("done", 1.0, 1.0)
    findings.background_load = background_load(before, cpu_time(host.allowed_cpus), len(host.allowed_cpus))
    findings.seconds = time.monotonic() - start
    return findings


def _ignore(stage: str, done: float, total: float) -> None:
    return


def run_stages(session: Session, stages: Sequence[Stage], report: Progress) -> None:
    """Measure stage by stage, into the findings of `session`; an interruption ends with what there is.

    Raises:
        KeyboardInterrupt: before any sweep was done.
    """
    wanted = [stage for stage in stages if stage.wanted(session.findings.plan)]
    done, whole = 0.0, sum(stage.weight for stage in wanted)
    for name, weight, measure, _ in wanted:
        report(name, done, 1.0)
        try:
            session.bench.tick()
            session.set_pace(1 - done)
            measure(session)
        except KeyboardInterrupt:
            session.findings.incomplete = f"interrupted while measuring {name}"
            if not session.findings.sweeps:
                raise
            return
        done += weight / whole


def _session(
    findings: Findings, pinned: PinnedThreads, rng: np.random.Generator, tick: Callable[[], None]
) -> Session:
    """Kernels compiled and each checked against NumPy, memory touched."""
    features, target = host_features(), host_target()
    simds = host_simds(features, target.machine, host_sve_bits())[:_WIDTHS]
    streams = [form for row in STREAM_ROWS for form in forms_of(row, simds)]
    streams += [StreamForm(STENCIL, simd) for simd in simds]
    peaks = peak_forms(simds, features, target)
    kernels = compile_kernels(
        [
            *(stream_kernel(form.symbol, form.row, form.simd, form.variant) for form in streams),
            *(form.emitted for form in peaks),
            clock_kernel(),
            chase_kernel(),
            ping_pong_kernel(),
        ]
    )
    first, *others = findings.cpus
    arenas = ThreadArenas.touched(
        pinned,
        {
            first: max(findings.sizes.core[-1], findings.sizes.every[-1]),
            **dict.fromkeys(others, findings.sizes.every[-1]),
        },
        *_last_cache(findings.reported),
    )
    bench = Bench(pinned, kernels, rng, tick)
    verify_all(bench, streams, peaks, arenas.by_cpu[first], first)
    latency.chase_check(bench, arenas.by_cpu[first], first)
    findings.huge_share = arenas.by_cpu[first].huge_share()
    return Session(findings, bench, arenas, simds, peaks)


def _last_cache(reported: Sequence[CoreCache]) -> tuple[float | None, int]:
    """The bytes of the largest cache, and how many of the CPUs share it."""
    sizes = [(cache.capacity_bytes, cache.granted_sharers) for cache in reported if cache.capacity_bytes]
    return max(sizes, default=(None, 1))


def _sweep(session: Session) -> None:
    findings, plan = session.findings, session.findings.plan
    form = session.plain(READ)
    for scope, cpus in session.scopes.items():
        if scope == "all" and not plan.all_sweep:
            continue
        working_sets = findings.sizes.core if scope == "core" else findings.sizes.every

        def measured(sizes: list[int], cpus: tuple[int, ...] = cpus, scope: Scope = scope) -> dict:
            return sweep(
                session.bench,
                session.arenas,
                form,
                sizes,
                cpus,
                scope,
                plan.sweep_rounds,
                plan.sweep_run_s,
                session.pace * plan.sweep_budget_s / len(session.scopes),
            )

        findings.sweeps[scope] = remeasured(measured(list(working_sets)), measured)
        findings.levels = located(findings)


def located(findings: Findings) -> tuple[MeasuredLevel, ...]:
    """The levels that the sweeps show, those so far."""
    return measured_levels(
        findings.sweeps["core"],
        findings.sweeps.get("all"),
        findings.reported,
        findings.sizes.every[-1],
        findings.latency,
    )


def _latency(session: Session) -> None:
    """Latency over size, which may show levels that bandwidth does not; then of each level, many times."""
    findings, plan, first = session.findings, session.findings.plan, session.cpus[0]
    arena = session.arenas.by_cpu[first]
    form = session.plain(READ)
    findings.latency = latency.latency(
        session.bench, arena, first, findings.sizes.latency, plan.latency_rounds, plan.latency_run_s
    )
    findings.levels = located(findings)
    for _ in range(_SECOND_LOOKS):
        sizes = in_doubt(findings.levels, findings.reported, findings.sizes.core)
        if not sizes:
            break
        _look_again(session, form, sizes)
        findings.levels = located(findings)
    pairs = zip((None, *findings.levels), findings.levels, strict=False)
    sizes = {place.name: latency_size(findings.latency, place, nearer) for nearer, place in pairs}
    findings.level_latency = latency.level_latency(
        session.bench,
        arena,
        first,
        {name: size for name, size in sizes.items() if size},
        plan.level_latency_runs,
        plan.latency_run_s,
    )


def _rows(session: Session) -> None:
    """Rows that are read side by side, about the last cache and beyond, on the first core and on all."""
    findings, plan = session.findings, session.findings.plan
    for scope, cpus in session.scopes.items():
        if scope == "all" and not plan.all_sweep:
            continue
        swept = findings.sizes.core if scope == "core" else findings.sizes.every
        findings.rows[scope] = rows_apart.sweep(
            session.bench,
            session.arenas,
            StreamForm(STENCIL, session.simds[0]),
            rows_apart.sizes(swept, findings.reported, len(cpus)),
            cpus,
            plan.rows_rounds,
            plan.sweep_run_s,
            session.pace * plan.rows_budget_s / len(session.scopes),
        )


def _look_again(session: Session, form: StreamForm, sizes: list[int]) -> None:
    """More samples of both curves at `sizes`, added to those of the sweeps: the best of all counts."""
    findings, plan, first = session.findings, session.findings.plan, session.cpus[0]
    bench, arenas = session.bench, session.arenas
    streamed = sweep(bench, arenas, form, sizes, (first,), "core", 2, plan.sweep_run_s, plan.sweep_budget_s)
    chased = latency.latency(bench, arenas.by_cpu[first], first, sizes, 1, plan.latency_run_s)
    for size in sizes:
        findings.sweeps["core"][size].taken.extend(streamed[size].taken)
        findings.latency[size] = Series(findings.latency[size].values + chased[size].values)


def _rates(session: Session) -> None:
    """Every kind of stream at every level, all rounds interleaved, the clock taken around each sample."""
    findings, plan, trials = session.findings, session.findings.plan, []
    forms: list[StreamForm] = []
    for number, level in enumerate(findings.levels):
        if number < plan.piloted_caches or level.name == MAIN_MEMORY or not forms:
            forms = _forms(session, level)
        for form in forms:
            for scope, cpus in session.scopes.items():
                size = level.core_bytes if scope == "core" else level.all_bytes
                case = StreamCase(form.row, scope, size, level.name, form.name)
                run_s = plan.rate_run_s if level.name == MAIN_MEMORY else plan.cached_run_s
                tolerance = spread_bound(level.name)
                trials.append(
                    stream_trial(
                        session.bench, session.arenas, form, case, cpus, run_s, tolerance=tolerance, led=True
                    )
                )
    findings.rates = {trial.key: Samples(trial) for trial in trials if isinstance(trial.key, StreamCase)}
    clocked = session.arenas.by_cpu[session.cpus[0]]
    session.bench.take(findings.rates.values(), plan.rate_rounds, clocked, session.pace * plan.rate_budget_s)


def _forms(session: Session, level: MeasuredLevel) -> list[StreamForm]:
    """What is measured at `level`: of every row the ways to write it that a pilot finds fastest there.

    First the register width of the plain loop, then the other ways in that width. A quick run leaves these
    out for main memory, where a single pass takes long and the ways differ least.
    """
    rounds = session.findings.plan.pilot_rounds
    wide = session.fastest([StreamForm(row, simd) for row in STREAM_ROWS for simd in session.simds], level, rounds)
    if level.name == MAIN_MEMORY and not session.findings.plan.memory_variants:
        return [form for forms in wide.values() for form in forms]
    tried = [form for row, forms in wide.items() for form in forms_of(row, [forms[0].simd])]
    finalists = 1 if level.name == MAIN_MEMORY else session.findings.plan.finalists
    best = session.fastest(tried, level, rounds, finalists)
    return [form for row in STREAM_ROWS for form in best[row]]


def _peaks(session: Session) -> None:
    findings, plan = session.findings, session.findings.plan
    findings.peaks = measure_peaks(
        session.bench,
        session.peaks,
        session.arenas,
        session.cpus,
        plan.peak_rounds,
        plan.peak_run_s,
        session.pace * plan.peak_budget_s,
    )


def _cores(session: Session) -> None:
    """What cores do to each other: threads that saturate memory, a line handed over, loaded latency, nodes."""
    findings, bench, arenas, cpus = session.findings, session.bench, session.arenas, session.cpus
    first, size = cpus[0], findings.sizes.every[-1]
    form = session.plain(READ, findings.sizes.core[-1])
    if len(cpus) > 1:
        # One core alone has all of a shared cache, and a working set to match.
        working_sets = (findings.sizes.core[-1], size)
        findings.scaling = scaling(bench, arenas, form, working_sets, cpus, findings.plan.together_rounds, 0.02)
        findings.core_to_core = latency.core_to_core(
            bench, arenas.by_cpu[first], cpus, findings.plan.hand_over_runs
        )
        streams = [
            arenas.stream_job(cpu, bench.kernels[form.symbol], 1, size, form.variant.places) for cpu in cpus[1:]
        ]
        chased = findings.sizes.core[-1]
        findings.loaded = latency.loaded_latency(
            bench, arenas.by_cpu[first], first, chased, streams, findings.plan.together_rounds, 0.02
        )
    last = max((cache.capacity_bytes or 0 for cache in findings.reported), default=0)
    findings.remote = measure_remote(bench, findings.host, cpus, form, last, findings.sizes.core[-1])


def _known_kernels(session: Session) -> None:
    findings, bench, arenas, cpus = session.findings, session.bench, session.arenas, session.cpus
    size, rounds = findings.sizes.every[-1], findings.plan.known_rounds
    form = session.plain(next(row for row in STREAM_ROWS if row.name == "triad"), findings.sizes.core[-1])
    findings.known_kernels = [
        known_kernels.triad(bench, arenas, form, cpus, size, rounds),
        known_kernels.stencil(bench, arenas, StreamForm(STENCIL, session.simds[0]), cpus, size, rounds),
        known_kernels.matmul(len(findings.host.allowed_cpus), rounds),
    ]


def _disk(session: Session) -> None:
    seconds = session.pace * session.findings.plan.disk_s
    session.findings.disk = measure_disk(seconds=seconds, rng=session.bench.rng, tick=session.bench.tick)


def _core_operations(session: Session) -> None:
    session.bench.tick()
    session.findings.core = core_operations.afresh()


def _teams(session: Session) -> None:
    """Teams of numba's threads, which are kept on the granted CPUs and let go of."""
    session.bench.tick()
    session.findings.team = thread_teams.afresh()


def _call_overhead(session: Session) -> None:
    rounds = session.findings.plan.overhead_rounds
    session.findings.call_overheads = [call_overhead.numpy_overhead(rounds)]
    if session.findings.plan.numba_overhead:
        session.findings.call_overheads.append(call_overhead.numba_overhead(rounds))


def _translations(session: Session) -> None:
    """How far translations of addresses reach, for ordinary pages and where they are granted for huge ones."""
    findings, bench, first = session.findings, session.bench, session.cpus[0]
    arena = session.arenas.by_cpu[first]
    findings.translations.append(translations.small_pages(bench, arena, first, findings.sizes.core[-1]))
    if (findings.huge_share or 0.0) > _MOSTLY:
        findings.translations.append(translations.huge_pages(bench, arena, first))
        findings.translations.append(translations.small_steps(bench, arena, first))


def _numpy_products(session: Session) -> None:
    """Half of the time for NumPy's products: a second call times the same ones again, seconds later."""
    findings, plan = session.findings, session.findings.plan
    if plan.products_s:
        before = findings.libraries[0].timed if findings.libraries else ()
        timed = products.numpy_timed(plan.products_s / 2, len(findings.cpus), session.bench.tick, before)
        findings.libraries[:1] = [timed]


def _products(session: Session) -> None:
    """Products of matrices in the installed libraries, by as many threads as they take of the granted CPUs."""
    findings, plan, tick = session.findings, session.findings.plan, session.bench.tick
    _numpy_products(session)
    if plan.torch_products_s:
        timed = torch_products.timed_in_a_child(plan.torch_products_s, len(findings.cpus), tick)
        findings.libraries += [timed] if timed is not None else []


def _sustained(session: Session) -> None:
    plan = session.findings.plan
    if plan.sustained_s:
        form = next(
            (form for form in session.peaks if form.row.dtype == "fp64" and form.row.form == "vector"), None
        )
        if form is None:
            return
        session.findings.sustained = measure_sustained(
            session.bench, form, session.arenas, session.cpus, plan.sustained_s
        )


# In the order in which they run.
STAGES = (
    Stage("read bandwidth over size", 5.0, _sweep),
    Stage("latency over size", 1.2, _latency),
    Stage("rows side by side", 0.8, _rows),
    Stage("streams at every level", 5.5, _rates),
    Stage("arithmetic peaks", 2.5, _peaks),
    Stage("products in NumPy", 1.2, _numpy_products),
    Stage("cores together", 0.6, _cores),
    Stage("translations of addresses", 0.3, _translations, lambda plan: plan.translations),
    Stage("known kernels", 0.8, _known_kernels),
    Stage("disk", 1.6, _disk, lambda plan: plan.disk_s > 0),
    Stage("operations of a core", 1.5, _core_operations, lambda plan: plan.core_operations),
    Stage("teams of threads", 0.4, _teams, lambda plan: plan.core_operations),
    Stage("call overhead", 1.0, _call_overhead),
    Stage("products in libraries", 1.6, _products),
    Stage("sustained peak", 0.0, _sustained, lambda plan: plan.sustained_s > 0),
)
