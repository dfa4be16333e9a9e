"""What the stages of a measurement share: kernels compiled and checked, memory touched, the findings they fill."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rooflab.machines.bench.experiments import latency
from rooflab.machines.bench.experiments.bandwidth import STREAM_ROWS, StreamForm, fastest_forms, forms_of
from rooflab.machines.bench.experiments.peaks import PeakForm, peak_forms
from rooflab.machines.bench.experiments.verify import verify_all
from rooflab.machines.bench.findings import Findings
from rooflab.machines.bench.kernels.emit import chase_kernel, clock_kernel, ping_pong_kernel, stream_kernel
from rooflab.machines.bench.kernels.jit import compile_kernels, host_features, host_sve_bits, host_target
from rooflab.machines.bench.kernels.rows import STENCIL, StreamRow
from rooflab.machines.bench.kernels.simd import Simd, host_simds
from rooflab.machines.bench.levels.levels import CoreCache, MeasuredLevel
from rooflab.machines.bench.plan import Plan
from rooflab.machines.bench.run.pinned_threads import PinnedThreads
from rooflab.machines.bench.run.thread_arenas import ThreadArenas
from rooflab.machines.bench.run.trials import Bench
from rooflab.types.machine import Scope

# Register widths worth trying: narrower ones than the two widest never win.
_WIDTHS = 2
_L1_PILOT_BYTES = 16 * 1024
# A stage gets at least this share of its time, however late it is.
_LEAST_PACE = 0.25


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


def opened(
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
