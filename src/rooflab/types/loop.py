"""What limits a loop: its work, its traffic at every cache level, its times, its place under each roof."""

from __future__ import annotations

from typing import Any

import msgspec

from rooflab.errors import UnknownNameError
from rooflab.types.advice import Advices
from rooflab.types.loop_code import Code, CoreLoop, FlowStep, LoopShare, Region
from rooflab.types.loop_counts import LineCounts, Static, Trips, Walk
from rooflab.types.loop_times import LoopTime, Point, Predicted, Scaled, Timed
from rooflab.types.machine import Machine
from rooflab.types.prediction import Bound
from rooflab.types.result import Result, convert
from rooflab.types.shared_lines import SharedLines
from rooflab.types.simulation import Simulation
from rooflab.types.work import Flop, Traffic
from rooflab.units import si

# A report's parts can be had from here too: who reads one need not know in which file each stands.
__all__ = [
    "Code",
    "CoreLoop",
    "FlowStep",
    "LineCounts",
    "LoopReport",
    "LoopShare",
    "LoopTime",
    "Point",
    "Predicted",
    "Region",
    "Scaled",
    "Static",
    "Timed",
    "Trips",
    "Walk",
]

SCHEMA = 1


class LoopReport(Result, msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What limits one loop.

    Attributes:
        name, where: of the function; "FILE:LINE".
        arguments: what it ran on, by name: "fp64 2048 × 2048".
        flop_by: FLOP by engine and number format; a multiply-add is 2.
        accesses, accessed_bytes: loads and stores as the source names them; `stored_bytes` of the stores.
        simulation: counts from empty caches, what is left dirty at the end written back.
        warm: the same for a run after a run; None where that was not simulated.
        lines, loops: the counts by line of the source, and the trips of its loops.
        code: what the compiler left; None where it could not be compiled or read.
        core_loops: the loops of the compiled code with what a core does in them; empty where it was not profiled.
        team_loops: the same of the code for a team of threads, all of it run by one: numba compiles a loop over
            prange anew, as a function of its own; empty where that was not profiled, or is `core_loops`.
        runs: measured times.
        strided, gathered, chased: misses of a warm run, by cache level, of accesses that step over lines in the
            innermost loop (and of the first of each row of a tile, which ends before it is foreseen), of those
            whose place data decide (x[idx[k]]), and of those that wait for the one before (i = following[i]).
        jumps: the same of the first lines of rows that do not follow the row before, of accesses in order.
        walks: the accesses that step over lines one by one, with their strides.
        scattered_bytes: of the arrays that are gathered from or chased through.
        footprint_bytes: that the loop touches, lines once each; 0 where that is not known.
        side_by_side: places of one array that the innermost loop which misses most goes through at once, such as
            rows of a grid, those within a few lines of each other counted once; 0 where that is not known.
        parallel: over which loop prange or OpenMP ran, or why it did not.
        regions: the loops over prange, with how their trips divide; empty where none ran.
        points: at each level, one core, warm; cache-aware at L1.
        predictions: for one core, and for all where prange ran.
        shared_lines: cache lines that threads take from one another; empty where none does, and where each thread
            of prange has many trips, or a run too many accesses to look.
        scaling: the same over numbers of threads, from one to all cores of the machine; empty without prange.
        static: formulas where the nest is affine.
        checks: what the compiled loop's results were compared with.
        complete: False where a time bound stopped the count: all counts are then of what ran, until `stopped_at`.
        unseen: what is called and cannot be looked into; all counts are of the rest then, and so are times that
            are predicted.
        sampled: that counts were scaled from a part, with the error; None for exact ones.
        caches: what was simulated.
        warnings: what a reader must know.
        source: line numbers and text of the whole function.
        advice: what would help, each change simulated again; None where it was not asked for.
    """

    NEWEST = SCHEMA
    WHAT = "a loop report"
    DERIVED = ("totals",)

    name: str
    where: str
    arguments: dict[str, str]
    flop_by: tuple[Flop, ...]
    accesses: int
    accessed_bytes: int
    stored_bytes: int
    simulation: Simulation
    warm: Simulation | None = None
    lines: tuple[LineCounts, ...] = ()
    loops: tuple[Trips, ...] = ()
    code: Code | None = None
    core_loops: tuple[CoreLoop, ...] = ()
    team_loops: tuple[CoreLoop, ...] = ()
    runs: tuple[Timed, ...] = ()
    strided: dict[str, int] = {}
    gathered: dict[str, int] = {}
    chased: dict[str, int] = {}
    jumps: dict[str, int] = {}
    walks: tuple[Walk, ...] = ()
    scattered_bytes: int = 0
    footprint_bytes: int = 0
    side_by_side: int = 0
    parallel: str = ""
    regions: tuple[Region, ...] = ()
    points: tuple[Point, ...] = ()
    predictions: tuple[Predicted, ...] = ()
    scaling: tuple[Scaled, ...] = ()
    shared_lines: tuple[SharedLines, ...] = ()
    static: Static | None = None
    checks: tuple[str, ...] = ()
    machine: Machine | None = None
    complete: bool = True
    stopped_at: str = ""
    unseen: tuple[str, ...] = ()
    sampled: str | None = None
    caches: str = ""
    warnings: tuple[str, ...] = ()
    conventions: tuple[str, ...] = ()
    source: tuple[tuple[int, str], ...] = ()
    advice: Advices | None = None
    schema: int = SCHEMA

    @property
    def is_whole(self) -> bool:
        """Whether the counts are of all that the function does."""
        return self.complete and not self.unseen

    @property
    def flop(self) -> int:
        """All FLOP."""
        return int(sum(each.count for each in self.flop_by))

    @property
    def traffic(self) -> tuple[Traffic, ...]:
        """Bytes that each level behind L1 was asked for, from empty caches (basis "simulated")."""
        return self.simulation.traffic

    @property
    def memory_bytes(self) -> int:
        """Bytes to and from the main memory, from empty caches, dirty lines written back at the end."""
        return self.simulation.memory_read_bytes + self.simulation.memory_write_bytes

    @property
    def intensity(self) -> float | None:
        """FLOP per byte of main memory; None where no byte crosses."""
        return self.flop / self.memory_bytes if self.memory_bytes else None

    @property
    def prediction(self) -> Predicted | None:
        """For one core; None without a machine whose rates are known."""
        return next((each for each in self.predictions if each.threads == 1), None)

    @property
    def bound(self) -> Bound | None:
        """What binds it on one core; None without a machine."""
        return None if self.prediction is None else self.prediction.bound

    @property
    def binds(self) -> str | None:
        """The level or the part of the core behind `bound`."""
        return None if self.prediction is None else self.prediction.binds

    @property
    def time_s(self) -> float | None:
        """Measured seconds of a warm run on one core, the median; None where it was not run."""
        run = self.run()
        return None if run is None else run.median_s

    @property
    def spread_by(self) -> str:
        """What spreads it over threads: "OpenMP" in C, else "prange"."""
        return "OpenMP" if "OpenMP" in self.parallel else "prange"

    def run(self, threads: int = 1, cache: str = "warm") -> Timed | None:
        """The measured time of that way of running; any number of threads above 1 means prange."""
        for each in self.runs:
            if each.cache == cache and (each.threads > 1) == (threads > 1):
                return each
        return None

    def point(self, level: str) -> Point:
        """The point at that level.

        Raises:
            UnknownNameError: no such level, with those that are.
        """
        for each in self.points:
            if each.level.casefold() == level.casefold():
                return each
        raise UnknownNameError(f"level of {self.name}", level, [each.level for each in self.points])

    def _summary(self) -> str:
        bound = f", {self.bound} ({self.binds})" if self.bound else ""
        time = f", {si(self.time_s, 's')} measured" if self.time_s is not None else ""
        return f"{self.name}: {si(self.flop, 'FLOP')}, {si(self.memory_bytes, 'B')} of main memory{time}{bound}"

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionaries, lists and numbers, as the JSON file holds them; read back by `from_dict`."""
        return {**super().to_dict(), "totals": {name: getattr(self, name) for name in _TOTALS}}

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> LoopReport:
        """The report that `to_dict` was called on (see `Result.from_dict`)."""
        return convert(cls, raw)


_TOTALS = ("flop", "memory_bytes", "intensity", "bound", "binds", "time_s")
