"""What is measured beyond the sweeps, and all stages in the order in which they run."""

from __future__ import annotations

from rooflab.machines.bench.experiments import (
    call_overhead,
    core_operations,
    known_kernels,
    latency,
    products,
    thread_teams,
    torch_products,
    translations,
)
from rooflab.machines.bench.experiments.bandwidth import (
    STREAM_ROWS,
    StreamCase,
    StreamForm,
    forms_of,
    scaling,
    stream_trial,
)
from rooflab.machines.bench.experiments.disk import measure_disk
from rooflab.machines.bench.experiments.numa import measure_remote
from rooflab.machines.bench.experiments.peaks import measure_peaks, measure_sustained
from rooflab.machines.bench.kernels.rows import READ, STENCIL
from rooflab.machines.bench.levels.levels import MAIN_MEMORY, MeasuredLevel
from rooflab.machines.bench.run.trials import Samples, spread_bound
from rooflab.machines.bench.session import Session, Stage
from rooflab.machines.bench.sweeps import latencies, over_sizes, side_by_side

# Share of huge pages from which on memory counts as lying in them.
_MOSTLY = 0.9


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
    Stage("read bandwidth over size", 5.0, over_sizes),
    Stage("latency over size", 1.2, latencies),
    Stage("rows side by side", 0.8, side_by_side),
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
