"""Where levels are: bandwidth and latency over size, measured again where in doubt, rows side by side."""

from __future__ import annotations

from rooflab.machines.bench.experiments import latency, rows_apart
from rooflab.machines.bench.experiments.bandwidth import StreamForm, sweep
from rooflab.machines.bench.findings import Findings
from rooflab.machines.bench.kernels.rows import READ, STENCIL
from rooflab.machines.bench.levels.levels import MeasuredLevel, in_doubt, latency_size, measured_levels, remeasured
from rooflab.machines.bench.session import Session
from rooflab.timing import Series
from rooflab.types.machine import Scope

# How often the working sets of a cache that the system reports, but no curve shows, are measured again.
_SECOND_LOOKS = 2


def over_sizes(session: Session) -> None:
    """Read bandwidth over size, on the first core and on all, into `findings.sweeps`; the levels that it shows."""
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


def latencies(session: Session) -> None:
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


def side_by_side(session: Session) -> None:
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
