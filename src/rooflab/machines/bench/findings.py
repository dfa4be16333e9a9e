"""Everything a run has measured so far; what is missing was not reached, or does not exist here."""

from __future__ import annotations

from dataclasses import dataclass, field

from rooflab.machines.bench.experiments.bandwidth import StreamCase
from rooflab.machines.bench.experiments.call_overhead import CallOverhead
from rooflab.machines.bench.experiments.disk import Disk
from rooflab.machines.bench.experiments.known_kernels import KnownKernel
from rooflab.machines.bench.experiments.peaks import PeakForm
from rooflab.machines.bench.experiments.products import TimedLibrary
from rooflab.machines.bench.experiments.translations import Translations
from rooflab.machines.bench.levels.levels import CoreCache, MeasuredLevel
from rooflab.machines.bench.plan import Plan, Sizes
from rooflab.machines.bench.run.background_load import BackgroundLoad
from rooflab.machines.bench.run.trials import Samples
from rooflab.machines.detect import Host
from rooflab.machines.microarchitecture import Microarchitecture
from rooflab.timing import Series
from rooflab.types.core_timing import CoreTiming
from rooflab.types.machine import Scope
from rooflab.types.team_timing import TeamTiming


@dataclass(frozen=True)
class RemoteMemory:
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
    reported: tuple[CoreCache, ...]
    sizes: Sizes
    plan: Plan
    microarchitecture: Microarchitecture | None = None
    sweeps: dict[Scope, dict[int, Samples]] = field(default_factory=dict)
    rows: dict[Scope, dict[int, Samples]] = field(default_factory=dict)
    latency: dict[int, Series] = field(default_factory=dict)
    level_latency: dict[str, Series] = field(default_factory=dict)
    levels: tuple[MeasuredLevel, ...] = ()
    rates: dict[StreamCase, Samples] = field(default_factory=dict)
    peaks: dict[tuple[PeakForm, Scope], Samples] = field(default_factory=dict)
    scaling: dict[int, Samples] = field(default_factory=dict)
    core_to_core: dict[tuple[int, int], Series] = field(default_factory=dict)
    loaded: Series | None = None
    remote: list[RemoteMemory] = field(default_factory=list)
    sustained: list[tuple[float, float]] = field(default_factory=list)
    known_kernels: list[KnownKernel] = field(default_factory=list)
    disk: Disk | str | None = None
    core: CoreTiming | None = None
    team: TeamTiming | None = None
    call_overheads: list[CallOverhead] = field(default_factory=list)
    translations: list[Translations] = field(default_factory=list)
    libraries: list[TimedLibrary] = field(default_factory=list)
    background_load: BackgroundLoad | None = None
    huge_share: float | None = None
    incomplete: str | None = None
    seconds: float = 0.0

    @property
    def clocks_hz(self) -> list[float]:
        """Every clock reading taken beside a sample."""
        samples = [*self.rates.values(), *self.peaks.values()]
        return [one.clock_hz for each in samples for one in each.taken if one.clock_hz]
