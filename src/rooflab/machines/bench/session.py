"""A whole measurement, stage by stage; an interruption keeps what was measured before it."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType

import numpy as np

from rooflab.machines.bench.experiments import call_overhead, known_kernels, latency
from rooflab.machines.bench.experiments.bandwidth import (
    STREAM_ROWS,
    At,
    Form,
    fastest_forms,
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
from rooflab.machines.bench.levels.levels import MAIN_MEMORY, Place, places, remeasured
from rooflab.machines.bench.plan import Plan, cpus_to_use, reported_caches, sizes_to_sweep
from rooflab.machines.bench.run.background_load import background, usage
from rooflab.machines.bench.run.pinned_threads import Crew
from rooflab.machines.bench.run.thread_arenas import Memory
from rooflab.machines.bench.run.trials import Bench, Samples, spread_bound
from rooflab.machines.detect import Host
from rooflab.machines.microarchitecture import find as find_microarchitecture
from rooflab.types.machine import Scope

Progress = Callable[[str, float, float], None]
# Register widths worth trying: narrower ones than the two widest never win.
_WIDTHS = 2
_L1_PILOT_BYTES = 16 * 1024


@dataclass
class Session:
    """What the stages share: the findings they fill, and the tools they use."""

    found: Findings
    bench: Bench
    memory: Memory
    simds: tuple[Simd, ...]
    peaks: tuple[PeakForm, ...]

    @property
    def cpus(self) -> tuple[int, ...]:
        """The CPUs measured; the first one alone for scope "core"."""
        return self.found.cpus

    @property
    def scopes(self) -> dict[Scope, tuple[int, ...]]:
        """The CPUs of each scope; with one core granted there is only scope "core"."""
        found: dict[Scope, tuple[int, ...]] = {"core": self.cpus[:1]}
        if len(self.cpus) > 1:
            found["all"] = self.cpus
        return found

    def form(self, row: StreamRow, working_set: int = _L1_PILOT_BYTES) -> Form:
        """The fastest register width for `row` at `working_set`."""
        return fastest_forms(self.bench, self.memory, [row], self.simds, self.cpus[0], working_set)[row]


def run(
    host: Host,
    plan: Plan,
    threads: int | None = None,
    progress: Progress | None = None,
    rng: np.random.Generator | None = None,
) -> Findings:
    """Measure this machine by `plan`.

    Args:
        progress: called with the stage's name and how much of the whole is done, from 0 to 1.

    Raises:
        MeasureError: more threads than granted, or a kernel with a wrong result.
        KeyboardInterrupt: before anything was measured. Later ones end the run early, with
            `Findings.incomplete` set.
    """
    start = time.monotonic()
    cpus = cpus_to_use(host, threads)
    caches = reported_caches(host, cpus)
    found = Findings(host, cpus, caches, sizes_to_sweep(plan, caches, cpus, host.memory_granted_bytes), plan)
    found.microarchitecture = find_microarchitecture(host, cpu=cpus[0])
    before = usage(host.allowed_cpus)
    report = progress or (lambda stage, done, total: None)
    with interruptible() as tick, Crew(cpus) as crew:
        report("compiling kernels", 0.0, 1.0)
        session = _session(found, crew, rng or np.random.default_rng(), tick)
        done = 0.0
        for name, weight, stage in _STAGES:
            report(name, done, 1.0)
            try:
                tick()
                stage(session)
            except KeyboardInterrupt:
                found.incomplete = f"interrupted while measuring {name}"
                if not found.sweeps:
                    raise
                break
            done += weight / _TOTAL_WEIGHT
        report("done", 1.0, 1.0)
    found.background = background(before, usage(host.allowed_cpus), len(host.allowed_cpus))
    found.seconds = time.monotonic() - start
    return found


@contextlib.contextmanager
def interruptible() -> Iterator[Callable[[], None]]:
    """A function that raises KeyboardInterrupt once Ctrl-C was pressed, and does nothing before.

    Kernels wait for each other at barriers: an exception between two starts would leave one waiting for
    ever. So the signal is noted, and raised between runs; a second Ctrl-C is Python's own again.
    """
    pressed = threading.Event()

    def tick() -> None:
        if pressed.is_set():
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield tick
        return

    def note(number: int, frame: FrameType | None) -> None:
        pressed.set()
        signal.signal(signal.SIGINT, previous)

    previous = signal.signal(signal.SIGINT, note)
    try:
        yield tick
    finally:
        signal.signal(signal.SIGINT, previous)


def _session(found: Findings, crew: Crew, rng: np.random.Generator, tick: Callable[[], None]) -> Session:
    """Kernels compiled and each checked against NumPy, memory touched."""
    features, target = host_features(), host_target()
    simds = host_simds(features, target.machine, host_sve_bits())[:_WIDTHS]
    streams = [Form(row, simd) for row in (*STREAM_ROWS, STENCIL) for simd in simds]
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
    first, *others = found.cpus
    memory = Memory.touched(
        crew,
        {first: max(found.sizes.core[-1], found.sizes.every[-1]), **dict.fromkeys(others, found.sizes.every[-1])},
    )
    bench = Bench(crew, kernels, rng, tick)
    verify_all(bench, streams, peaks, memory.arenas[first], first)
    latency.chase_check(bench, memory.arenas[first], first)
    found.huge_share = memory.arenas[first].huge_share()
    return Session(found, bench, memory, simds, peaks)


def _sweep(session: Session) -> None:
    found, plan = session.found, session.found.plan
    form = session.form(READ)
    for scope, cpus in session.scopes.items():
        if scope == "all" and not plan.all_sweep:
            continue
        working_sets = found.sizes.core if scope == "core" else found.sizes.every

        def measured(sizes: list[int], cpus: tuple[int, ...] = cpus, scope: Scope = scope) -> dict:
            return sweep(
                session.bench,
                session.memory,
                form,
                sizes,
                cpus,
                scope,
                plan.sweep_rounds,
                plan.sweep_run_s,
                plan.sweep_budget_s / len(session.scopes),
            )

        found.sweeps[scope] = remeasured(measured(list(working_sets)), measured)
        found.places = places(found.sweeps["core"], found.sweeps.get("all"), found.reported, found.sizes.every[-1])


def _latency(session: Session) -> None:
    found, plan, first = session.found, session.found.plan, session.cpus[0]
    arena = session.memory.arenas[first]
    found.latency = latency.latency(
        session.bench, arena, first, found.sizes.latency, plan.latency_rounds, plan.latency_run_s
    )


def _rates(session: Session) -> None:
    """Every kind of stream at every level, all rounds interleaved, the clock taken around each sample."""
    found, plan, trials = session.found, session.found.plan, []
    for place in found.places:
        for form in _forms(session, place):
            for scope, cpus in session.scopes.items():
                size = place.core_bytes if scope == "core" else place.all_bytes
                at = At(form.row, scope, size, place.name, form.simd.name)
                run_s = plan.rate_run_s if place.name == MAIN_MEMORY else plan.cached_run_s
                tolerance = spread_bound(place.name)
                trials.append(
                    stream_trial(session.bench, session.memory, form, at, cpus, run_s, tolerance=tolerance)
                )
    found.rates = {trial.key: Samples(trial) for trial in trials if isinstance(trial.key, At)}
    clocked = session.memory.arenas[session.cpus[0]]
    session.bench.take(found.rates.values(), plan.rate_rounds, clocked, plan.rate_budget_s)


def _forms(session: Session, place: Place) -> list[Form]:
    """What is measured at `place`: reads in every register width, the other rows in the width a pilot prefers."""
    others = [row for row in STREAM_ROWS if row is not READ]
    first, rounds = session.cpus[0], session.found.plan.pilot_rounds
    chosen = fastest_forms(session.bench, session.memory, others, session.simds, first, place.core_bytes, rounds)
    return [*(Form(READ, simd) for simd in session.simds), *chosen.values()]


def _peaks(session: Session) -> None:
    found, plan = session.found, session.found.plan
    found.peaks = measure_peaks(
        session.bench,
        session.peaks,
        session.memory.arenas,
        session.cpus,
        plan.peak_rounds,
        plan.peak_run_s,
        plan.peak_budget_s,
    )


def _cores(session: Session) -> None:
    """What cores do to each other: threads that saturate memory, a line handed over, loaded latency, nodes."""
    found, bench, memory, cpus = session.found, session.bench, session.memory, session.cpus
    first, size = cpus[0], found.sizes.every[-1]
    if len(cpus) > 1:
        form = session.form(READ, size)
        found.scaling = scaling(bench, memory, form, size, cpus, found.plan.together_rounds, 0.02)
        found.core_to_core = latency.core_to_core(bench, memory.arenas[first], cpus, found.plan.together_rounds)
        streams = [memory.stream_job(cpu, bench.kernels[form.symbol], 1, size) for cpu in cpus[1:]]
        chased = size
        found.loaded = latency.loaded_latency(
            bench, memory.arenas[first], first, chased, streams, found.plan.together_rounds, 0.02
        )
    last = max((cache.capacity_bytes or 0 for cache in found.reported), default=0)
    reading = session.form(READ, size)
    found.remote = measure_remote(bench, found.host, cpus, reading, last, found.sizes.core[-1])


def _known(session: Session) -> None:
    found, bench, memory, cpus = session.found, session.bench, session.memory, session.cpus
    size, rounds = found.sizes.every[-1], found.plan.known_rounds
    triad_row = next(row for row in STREAM_ROWS if row.name == "triad")
    found.known = [
        known_kernels.triad(bench, memory, session.form(triad_row, size), cpus, size, rounds),
        known_kernels.stencil(bench, memory, Form(STENCIL, session.simds[0]), cpus, size, rounds),
        known_kernels.matmul(len(found.host.allowed_cpus), rounds),
    ]


def _disk(session: Session) -> None:
    plan = session.found.plan
    if plan.disk_s:
        session.found.disk = measure_disk(seconds=plan.disk_s, rng=session.bench.rng, tick=session.bench.tick)


def _overhead(session: Session) -> None:
    rounds = session.found.plan.overhead_rounds
    session.found.overheads = [call_overhead.numpy_overhead(rounds), call_overhead.numba_overhead(rounds)]


def _sustained(session: Session) -> None:
    plan = session.found.plan
    if plan.sustained_s:
        form = next(
            (form for form in session.peaks if form.row.dtype == "fp64" and form.row.form == "vector"), None
        )
        if form is None:
            return
        session.found.sustained = measure_sustained(
            session.bench, form, session.memory.arenas, session.cpus, plan.sustained_s
        )


# In the order in which they run; the weight is each one's share of a default run's time.
_STAGES: tuple[tuple[str, float, Callable[[Session], None]], ...] = (
    ("read bandwidth over size", 5.0, _sweep),
    ("latency over size", 1.2, _latency),
    ("streams at every level", 5.5, _rates),
    ("arithmetic peaks", 2.5, _peaks),
    ("cores together", 0.6, _cores),
    ("known kernels", 0.8, _known),
    ("disk", 2.5, _disk),
    ("call overhead", 1.0, _overhead),
    ("sustained peak", 0.0, _sustained),
)
_TOTAL_WEIGHT = sum(weight for _, weight, _ in _STAGES)
