"""A whole measurement, stage by stage; an interruption keeps what was measured before it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from rooflab.machines.bench.findings import Findings
from rooflab.machines.bench.plan import Plan, cpus_to_use, reported_caches, sizes_to_sweep
from rooflab.machines.bench.run.background_load import background_load, cpu_time
from rooflab.machines.bench.run.interruptible import interruptible
from rooflab.machines.bench.run.pinned_threads import PinnedThreads
from rooflab.machines.bench.session import Session, Stage, opened
from rooflab.machines.bench.stages import STAGES
from rooflab.machines.detect import Host, mappable_bytes
from rooflab.machines.microarchitecture import find as find_microarchitecture

Progress = Callable[[str, float, float], None]


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
        session = opened(findings, pinned, rng or np.random.default_rng(), tick)
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
