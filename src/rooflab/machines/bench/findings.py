"""Everything a run has measured so far; what is missing was not reached, or does not exist here."""

from __future__ import annotations

from dataclasses import dataclass, field

from rooflab.machines.bench.experiments.bandwidth import At
from rooflab.machines.bench.experiments.call_overhead import Overhead
from rooflab.machines.bench.experiments.disk import Disk
from rooflab.machines.bench.experiments.known_kernels import Known
from rooflab.machines.bench.experiments.peaks import PeakForm
from rooflab.machines.bench.levels.levels import Place, Reported
from rooflab.machines.bench.plan import Plan, Sizes
from rooflab.machines.bench.run.background_load import Background
from rooflab.machines.bench.run.trials import Samples
from rooflab.machines.detect import Host
from rooflab.machines.microarchitecture import Microarchitecture
from rooflab.timing import Series
from rooflab.types.machine import Scope


@dataclass(frozen=True)
class Remote:
    """One core's view of a memory node: bandwidth and loads per second.

    Attributes:
        node: the core's own; `home` is the memory's.
        working_set: bytes read, `beyond_cache` where they are twice the last cache or more.
    """

    node: int
    home: int
    read: Series
    loads: Series
    working_set: int
    beyond_cache: bool


@dataclass
class Findings:
    """One run's results, filled stage by stage."""

    host: Host
    cpus: tuple[int, ...]
    reported: tuple[Reported, ...]
    sizes: Sizes
    plan: Plan
    microarchitecture: Microarchitecture | None = None
    sweeps: dict[Scope, dict[int, Samples]] = field(default_factory=dict)
    latency: dict[int, Series] = field(default_factory=dict)
    places: tuple[Place, ...] = ()
    rates: dict[At, Samples] = field(default_factory=dict)
    peaks: dict[tuple[PeakForm, Scope], Samples] = field(default_factory=dict)
    scaling: dict[int, Samples] = field(default_factory=dict)
    core_to_core: dict[tuple[int, int], Series] = field(default_factory=dict)
    loaded: Series | None = None
    remote: list[Remote] = field(default_factory=list)
    sustained: list[tuple[float, float]] = field(default_factory=list)
    known: list[Known] = field(default_factory=list)
    disk: Disk | str | None = None
    overheads: list[Overhead] = field(default_factory=list)
    background: Background | None = None
    huge_share: float | None = None
    incomplete: str | None = None
    seconds: float = 0.0

    @property
    def clocks_hz(self) -> list[float]:
        """Every clock reading taken beside a sample."""
        samples = [*self.rates.values(), *self.peaks.values()]
        return [one.clock_hz for each in samples for one in each.taken if one.clock_hz]
