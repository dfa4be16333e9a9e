"""What limits a loop: its work, its traffic at every cache level, its times, its place under each roof."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from rooflab.errors import UnknownNameError
from rooflab.types.advice import Advices
from rooflab.types.machine import Machine
from rooflab.types.prediction import Bound
from rooflab.types.result import Result, convert
from rooflab.types.shared_lines import SharedLines
from rooflab.types.simulation import Simulation
from rooflab.types.work import Flop, Traffic
from rooflab.units import si

SCHEMA = 1
_SEVERAL_RUNS, _DISTURBED = 5, 0.2  # warm runs of which the median may say so; (median − best) / median that does


class LineCounts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one line of the source did, from empty caches.

    Attributes:
        line: its number in the file; `text` what it says.
        flop: of all its executions.
        accesses: loads and stores as written.
        misses: by cache level.
        compulsory, capacity, conflict: kinds of those misses, by cache level; None unless classified.
        decided: of the misses, those of accesses whose place what their loop found decides, by cache level: nobody
            can begin them ahead. None where that is not known.
    """

    line: int
    text: str
    flop: int
    accesses: int
    misses: dict[str, int]
    compulsory: dict[str, int] | None = None
    capacity: dict[str, int] | None = None
    conflict: dict[str, int] | None = None
    decided: dict[str, int] | None = None


class Trips(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A loop of the source and how often its body ran; `variable` is "" for while."""

    line: int
    variable: str
    trips: int
    depth: int


class Walk(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An access of a loop that steps over lines by a constant, as down a column of a matrix.

    Attributes:
        line: of the source.
        text: of the access there, as "A[i, j]".
        loop: the innermost loop that it stands in, as the number of one of `loops`; None outside of all.
        stride_bytes: of its steps.
        misses: in the first level, of a warm run.
        kind: what becomes of its lines: "read" only, "changed" after they were read, or "stored" into unread.
        stage: of those of one access whose steps change in the course of a run, which; 0 of all others.
    """

    line: int
    text: str
    loop: int | None
    stride_bytes: int
    misses: int
    kind: Literal["read", "changed", "stored"]
    stage: int = 0


class Code(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the compiler left of the innermost loop after keeping values in registers.

    Attributes:
        lanes: elements that one instruction computes; 1 where the loop is not vectorised.
        loads, stores: instructions of one pass of the compiled loop.
        flop: of one pass.
        read_bytes, write_bytes: that all its passes move between registers and L1, with those of the lines
            around it; None where the compiled loop cannot be matched to one of the source.
        why_not: why it is not vectorised; None where it is.
        gathers: loads of scattered elements in one pass.
        chain: operations that must wait for one another, in all passes together.
        calls: functions that it calls, such as "exp".
        instructions: of one pass, in the compiler's intermediate form.
        passes: that the trips of the source's innermost loop come to; None where it has several such loops.
        trips, entries: of the source's innermost loop, and how often it was entered.
    """

    lanes: int
    loads: int
    stores: int
    flop: int
    read_bytes: float | None
    write_bytes: float | None
    why_not: str | None
    gathers: int = 0
    chain: int = 0
    calls: tuple[str, ...] = ()
    instructions: int = 0
    passes: float | None = None
    trips: int = 0
    entries: int = 0

    @property
    def vectorised(self) -> bool:
        """Whether its arithmetic is on vectors."""
        return self.lanes > 1


class FlowStep(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """One operation of a pass of a compiled loop, and what it waits for.

    Attributes:
        kind: of it ("fp add", "load").
        count: how many of it, as a vector may be several of the core's own.
        after: operations whose results it takes: their places in the pass, and how many passes before they ran.
        handed: the store whose value a load finds, likewise; None where it finds none that is recent.
        how: the kind of that way from a store to a load.
        crossed: pieces of it that lie across two lines of a cache, in the mean.
    """

    kind: str
    count: float
    after: tuple[tuple[int, int], ...] = ()
    handed: tuple[int, int] | None = None
    how: str = ""
    crossed: float = 0.0


class CoreLoop(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A loop of the code that runs, as a core sees it: counted in one run of it, without what loops inside do.

    Attributes:
        line: where it begins in the source; 0 of what lies in no loop, or where that is not known.
        passes, entries: of the compiled loop, a pass of which may be many trips of the source's.
        operations: of all passes, by kind ("fp add", "load"): vectors in pieces of the widest that there are.
        chain: operations a pass that wait for one another from pass to pass, by kind; "store forward" where a load
            waits for a store before it. Empty where nothing is carried round.
        chain_lines: lines of those.
        branches: conditional branches that ran; `missed` those that a simulated predictor foretold wrongly, most
            of them in `missed_line`, where `missed_share` of the branches were. `tested_lines`: where what most of
            them test was loaded.
        innermost: whether it holds no other loop.
        collided: loads that a core started before an older store to the same address was done, and had to undo:
            those that seldom find what was stored a few passes before.
        chain_kept: share of the passes that run all blocks of the chain: in others it is broken.
        depth: operations of the longest way through one pass, by kind.
        restarts: how often the chain begins anew, which may be less often than the loop is entered.
        flow: the operations of a pass in order, where nearly all passes run the same ones and none of them loops.
        missed_after: operations, by kind, that a missed branch waits for in its pass, in the mean.
        dearer: how many times as long mathematical functions take for what the run gave them as for usual
            arguments, by kind ("call sin fp64"; "latency call sin fp64" where one waits for the other; "ordered …"
            of both, where no branch of theirs is foretold wrongly), as measured where the loop was counted.
        within: the place among all loops of the function of the one around; None of an outermost.
    """

    line: int
    passes: int
    entries: int
    operations: dict[str, float]
    chain: dict[str, float] = {}
    chain_lines: tuple[int, ...] = ()
    branches: int = 0
    missed: int = 0
    missed_line: int = 0
    tested_lines: tuple[int, ...] = ()
    missed_share: float = 0.0
    innermost: bool = True
    collided: float = 0.0
    restarts: int = 0
    chain_kept: float = 1.0
    depth: dict[str, float] = {}
    flow: tuple[FlowStep, ...] = ()
    missed_after: dict[str, float] = {}
    dearer: dict[str, float] = {}
    within: int | None = None


class Timed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One way of running the compiled loop, timed.

    Attributes:
        threads: 1, or those of prange.
        cache: "warm": run again and again; "cold": everything displaced from the caches before each run.
        best_s, median_s, spread, runs: of the runs; spread is (median − best) / median.
    """

    threads: int
    cache: Literal["warm", "cold"]
    best_s: float
    median_s: float
    spread: float
    runs: int

    @property
    def disturbed(self) -> bool:
        """Whether half of several warm runs took a quarter longer than the best: something else ran beside."""
        return self.cache == "warm" and self.runs >= _SEVERAL_RUNS and self.spread > _DISTURBED

    @property
    def time_s(self) -> float:
        """What is held against a prediction, which is of cores at rest: the median; of disturbed runs the best."""
        return self.best_s if self.disturbed else self.median_s


class Region(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A loop over prange, or a parallel region of OpenMP's, and how its work divides among threads.

    Attributes:
        line, last_line: of it in the source.
        variable: its own.
        entries, trips: how often it was entered, each time a team starts and joins; trips of all entries.
        threads, shares: numbers of threads, and the share of its work that the thread with the most has, where
            each gets one block of as many trips, or what OpenMP's schedule gives it: 1 / threads where all trips
            are alike.
        chunks: pieces that threads ask for one by one (OpenMP's dynamic and guided schedules).
    """

    line: int
    last_line: int
    variable: str
    entries: int
    trips: int
    threads: tuple[int, ...] = ()
    shares: tuple[float, ...] = ()
    chunks: int = 0

    def share(self, threads: int) -> float:
        """The largest share of so many threads, which may be smaller than that of more: blocks divide elsewhere.

        Between the numbers that were counted, its imbalance is theirs, and it is taken to be no smaller than that
        of more threads: a trip that takes long is not divided.
        """
        if threads == 1 or not self.threads:
            return 1 / threads
        if threads in self.threads:
            return self.shares[self.threads.index(threads)]
        known = [(n, share * n) for n, share in zip(self.threads, self.shares, strict=True)]
        below = max((each for each in known if each[0] <= threads), default=known[0])
        least = max((imbalance / n for n, imbalance in known if n >= threads), default=0.0)
        return min(1.0, max(least, below[1] / threads))


class Scaled(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A warm run on so many threads, each on a core of its own.

    Attributes:
        threads: of them.
        time_s: predicted; `measured_s` of those that were run (`Timed.time_s`), None of others.
        speedup: of one thread's predicted time over `time_s`.
        limit: what keeps it from being as many times as fast: "fork and join", "DRAM", "uneven shares", …; ""
            where nothing takes more than a tenth.
        lost_s: seconds beyond one thread's time ÷ threads, by what takes them.
    """

    threads: int
    time_s: float
    speedup: float
    limit: str = ""
    lost_s: dict[str, float] = {}
    measured_s: float | None = None


class Point(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The loop at one memory level of the machine.

    Attributes:
        level: that serves the bytes.
        read_bytes, write_bytes: that cross to and from it in one warm run.
        bytes_per_s: what the level attains on that mix of reads and writes; None where not known.
        time_s: bytes ÷ bytes_per_s, and the latencies that irregular accesses wait for.
        intensity: FLOP per byte of this level (the hierarchical roofline); None where no byte crosses.
        roof_flop_per_s: the lower of intensity × bytes_per_s and the peak; None without FLOP or rate.
        share: FLOP/s measured ÷ roof; without FLOP the bytes/s measured ÷ bytes_per_s.
    """

    level: str
    read_bytes: float
    write_bytes: float
    bytes_per_s: float | None = None
    time_s: float | None = None
    intensity: float | None = None
    roof_flop_per_s: float | None = None
    share: float | None = None

    @property
    def nbytes(self) -> float:
        """Bytes both ways."""
        return self.read_bytes + self.write_bytes


class LoopTime(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the core takes for one loop of the compiled code, without the loops inside.

    Attributes:
        line: where it begins; 0 of what lies in no loop.
        time_s: the longer of the two below, and what comes on top.
        busiest, ports_s: the resource that is busy longest, and for how long.
        chain, chain_s: what waits for itself from pass to pass, "" where nothing does, and how long.
        calls_s: functions that it calls, by name.
        missed_s: branches that were foretold wrongly.
        collided_s: loads that overtook a store to their address and ran again.
        missed_line, missed_share: the line that most of those are on, 0 where there is none; of its branches.
        chain_lines: of the chain.
        apart_s: what the chain would take if no entry of the loop, and no piece of it, went on beside another.
    """

    line: int
    time_s: float
    busiest: str
    ports_s: float
    chain: str = ""
    chain_s: float = 0.0
    calls_s: dict[str, float] = {}
    missed_s: float = 0.0
    collided_s: float = 0.0
    missed_share: float = 0.0
    missed_line: int = 0
    chain_lines: tuple[int, ...] = ()
    apart_s: float = 0.0


class Predicted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a warm run would take, from the counts and the machine's attained rates.

    Attributes:
        threads: 1, or those of prange.
        core_s: arithmetic and dependence in the core.
        core_why: what of it binds: "fp64 vector", "a chain of additions", …
        overlapped_s: the longest of the core and all levels, with its walks of page tables: everything overlaps.
        serial_s: the sum of all of them: nothing overlaps.
        time_s: the best guess between these.
        low_s, high_s: where a measured time should lie, from the errors of what takes the time; None where the
            compiled code was not profiled.
        bound, binds: the longest term.
        loops: what the core takes for each loop, where the compiled code was profiled; the longest first.
        core_measured: whether its operations were timed on this core, or are those of a usual one.
        team_s: of it, starting and joining teams of threads.
        lost_s: seconds beyond one core's time ÷ threads, by what takes them; empty for one core.
        levels_s: seconds of each level behind L1 by name, of the bytes that are expected to cross there.
        kept_share: of what misses the simulated last cache, the share that the real one is expected to serve
            still: it keeps a part of larger data, as a sweep of the machine showed; 0 where that is not known.
    """

    threads: int
    core_s: float
    core_why: str
    overlapped_s: float
    serial_s: float
    time_s: float
    bound: Bound
    binds: str
    loops: tuple[LoopTime, ...] = ()
    core_measured: bool = False
    team_s: float = 0.0
    lost_s: dict[str, float] = {}
    low_s: float | None = None
    high_s: float | None = None
    levels_s: dict[str, float] = {}
    kept_share: float = 0.0


class Static(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What follows from the source alone, where all bounds and indices are affine.

    Attributes:
        flop, accessed_bytes: formulas in the sizes, such as "2·n³".
        conditions: layer conditions: what must fit in a cache for which loop's reuse.
        traffic_bytes: by level that serves them, from the layer conditions at these sizes.
        agrees: whether FLOP and accessed bytes equal what the twin counted.
        stride_bytes: from one trip of the innermost loop to the next, of the accesses that step over lines: that
            whose lines fall into the fewest sets of a cache; 0 where none does.
        reason: why there is no formula; the others are then empty.
    """

    flop: str = ""
    accessed_bytes: str = ""
    conditions: tuple[str, ...] = ()
    traffic_bytes: dict[str, float] = {}
    agrees: bool | None = None
    stride_bytes: int = 0
    reason: str | None = None


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
