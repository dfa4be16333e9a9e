"""The answer to "what did limit the run I profiled?": each operation's count, prediction and measured time."""

from __future__ import annotations

from typing import Any

import msgspec

from rooflab.types.advice import Advices
from rooflab.types.counted import Counted
from rooflab.types.finding import Finding
from rooflab.types.limit import Limit
from rooflab.types.machine import Machine
from rooflab.types.matched import Matching
from rooflab.types.memory import MemoryUse
from rooflab.types.placement import Placement
from rooflab.types.prediction import Bound, Prediction
from rooflab.types.result import Result, convert
from rooflab.types.timeline import Timeline
from rooflab.types.trace import Device, Dropped
from rooflab.types.work import Cost, Phase
from rooflab.units import duration, percent

SCHEMA = 1


class KernelTime(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Kernels of one name that an operation ran: how often, and how long all together."""

    name: str
    runs: int
    time_s: float


class Observation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The measured time of an operation.

    Attributes:
        time_s: on the device, all executions together.
        low_s, high_s: the 10th and 90th percentile of single executions.
        kernels: that it ran, most time first.
    """

    time_s: float
    low_s: float
    high_s: float
    kernels: tuple[KernelTime, ...]


class ProfileRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One operation, as often as it ran with the same arguments; its numbers are those of all of them together.

    Attributes:
        name: as the framework calls it; a kernel's own name where no operation is known for it.
        kind: of its formula; None where there is none.
        shapes: of its arguments, as text.
        dtype: of its first tensor.
        executions: how often it ran.
        observation: measured.
        cost: of one execution; None where it is not known, and `why` says the reason.
        counted: what counters of the hardware said of one execution.
        placement: under the machine's roofs: of what was counted, else of what the shapes ask for.
        prediction: of all executions together, where the machine is known.
        pause_s: of the predicted seconds, the pauses between kernels, which a kernel's measured time leaves out.
        fetch_s: of the predicted seconds, those in which kernels fetch their programs: a measured time shows all
            of them, a part or none.
        module: path of the modules that it ran in: the program's own where one is given with the profile, else as
            the profiler numbers them, where recorded.
        where: source file and line, where a program is given.
        unmatched: why it is no operation of the program that is given, or why no kernel was found for one of the
            program's (`executions` then counts those); None where it is one, or no program is given.
        label: of the program's own range around it, where there is one.
        phase: of training; forward where there is none.
    """

    name: str
    kind: str | None
    shapes: str
    dtype: str
    executions: int
    observation: Observation
    cost: Cost | None = None
    why: str | None = None
    counted: Counted | None = None
    placement: Placement | None = None
    prediction: Prediction | None = None
    pause_s: float = 0.0
    fetch_s: float = 0.0
    module: str = ""
    where: str | None = None
    unmatched: str | None = None
    label: str = ""
    phase: Phase = "forward"

    @property
    def time_s(self) -> float:
        """Measured seconds."""
        return self.observation.time_s

    @property
    def flop(self) -> float | None:
        """FLOP that it asks for, else those that were counted; None where unknown."""
        one = None if self.counted is None else self.counted.total_flop
        if self.cost is not None:
            one = self.cost.total_flop
        return None if one is None else one * self.executions

    @property
    def nbytes(self) -> float | None:
        """Compulsory bytes both ways, else those counted at main memory; None where unknown."""
        memory = None if self.counted is None else self.counted.main_memory
        one = None if memory is None else memory.nbytes
        if self.cost is not None:
            one = self.cost.compulsory.nbytes
        return None if one is None else one * self.executions

    @property
    def intensity(self) -> float | None:
        """FLOP per byte of `nbytes`; None where unknown, or where no byte is moved."""
        return self.flop / self.nbytes if self.flop is not None and self.nbytes else None

    @property
    def flop_per_s(self) -> float | None:
        """FLOP over measured time."""
        return self.flop / self.time_s if self.flop is not None and self.time_s else None

    @property
    def bytes_per_s(self) -> float | None:
        """Compulsory bytes over measured time."""
        return self.nbytes / self.time_s if self.nbytes is not None and self.time_s else None

    @property
    def bound(self) -> Bound | None:
        """What binds it: as counted, else as predicted."""
        if self.placement is not None and self.counted is not None:
            return self.placement.bound
        return None if self.prediction is None else self.prediction.bound

    @property
    def binds(self) -> str | None:
        """The level, engine or overhead behind `bound`."""
        if self.placement is not None and self.counted is not None:
            return self.placement.binds
        return None if self.prediction is None else self.prediction.binds

    @property
    def amplification(self) -> float | None:
        """Counted bytes of main memory over compulsory ones: 1 where each is moved once; None where unknown."""
        memory = None if self.counted is None else self.counted.main_memory
        if memory is None or memory.basis != "counted" or self.cost is None or not self.cost.compulsory.nbytes:
            return None
        return memory.nbytes / self.cost.compulsory.nbytes

    @property
    def of_floor(self) -> float | None:
        """The floor's share of the measured time, 1 where nothing can be faster; above 1 something is wrong."""
        if self.prediction is None or not self.time_s:
            return None
        return self.prediction.floor_s / self.time_s

    @property
    def expected_s(self) -> float | None:
        """Predicted seconds of its kernels without the pauses between them: what `time_s` is held against."""
        return None if self.prediction is None else self.prediction.time_s - self.pause_s

    @property
    def expected_low_s(self) -> float | None:
        """Lower end of the bar of `expected_s`: without the fetching of programs, which may have come before."""
        if self.prediction is None:
            return None
        return max(self.prediction.low_s - self.pause_s - self.fetch_s, 0.0)

    @property
    def expected_high_s(self) -> float | None:
        """Upper end of the bar of `expected_s`."""
        return None if self.prediction is None else max(self.prediction.high_s - self.pause_s, 0.0)

    @property
    def explained_s(self) -> float:
        """Measured seconds that `bound` explains: all where kernels were counted, else up to the upper end."""
        counted = self.placement is not None and self.counted is not None
        if counted or self.expected_high_s is None:
            return self.time_s
        return min(self.time_s, self.expected_high_s)

    @property
    def beyond_s(self) -> float | None:
        """Measured less expected seconds."""
        return None if self.expected_s is None else self.time_s - self.expected_s


class Profile(Result, msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A run as a profiler recorded it, its operations counted and held against the machine.

    Attributes:
        name: of the file.
        source: the format that it was read from.
        rows: operations, most measured time first.
        timeline: where the time went, busy and idle.
        memory: of each device over time, where it was recorded.
        limits: the run's time by what limited it: overhead, then levels of memory, then engines, then unknown.
        bound, binds: the largest of these; None where most of the time is not explained.
        device: as the file describes it.
        machine: that rows are predicted on; None where the device is not known.
        matching: how much of it was found in the program that was given with it; None without one.
        findings: numbers to doubt, and causes of lost time, each with its evidence.
        dropped: events that could not be used.
        warnings: what a reader must know before trusting a number.
        notes: conventions, and what would make the profile say more.
        advice: what would help, measured times less what goes; None where it was not asked for.
    """

    NEWEST = SCHEMA
    WHAT = "a profile"

    name: str
    source: str
    rows: tuple[ProfileRow, ...]
    timeline: Timeline = Timeline(devices=())
    memory: tuple[MemoryUse, ...] = ()
    limits: tuple[Limit, ...] = ()
    bound: Bound | None = None
    binds: str | None = None
    device: Device | None = None
    machine: Machine | None = None
    matching: Matching | None = None
    findings: tuple[Finding, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    advice: Advices | None = None
    schema: int = SCHEMA

    @property
    def time_s(self) -> float:
        """Measured seconds of all rows together."""
        return sum(row.time_s for row in self.rows)

    @property
    def coverage(self) -> float | None:
        """The share of the measured time whose FLOP and bytes are known; None for a profile without any."""
        total = self.time_s
        known = [row.time_s for row in self.rows if row.flop is not None and row.nbytes is not None]
        return sum(known) / total if total else None

    @property
    def flop(self) -> float | None:
        """FLOP of all rows; None unless every row's are known."""
        counts = [row.flop for row in self.rows]
        return None if any(one is None for one in counts) else sum(one for one in counts if one is not None)

    def _summary(self) -> str:
        share = "" if self.coverage is None else f", {percent(self.coverage, 1)} of it counted"
        verdict = f", {self.bound} ({self.binds})" if self.bound else ""
        return f"{self.name}: {duration(self.time_s)} measured{share}{verdict}"

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> Profile:
        """The profile that `to_dict` was called on (see `Result.from_dict`)."""
        return convert(cls, raw)
