"""What a loop takes: runs that were timed, times predicted by level, by loop of the code, over threads."""

from __future__ import annotations

from typing import Literal

import msgspec

from rooflab.types.prediction import Bound

_SEVERAL_RUNS, _DISTURBED = 5, 0.2  # warm runs of which the median may say so; (median − best) / median that does


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


class Scaled(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A warm run on so many threads, each on a core of its own.

    Attributes:
        threads: of them.
        time_s: predicted; `measured_s` of those that were run (`Timed.time_s`), None of others.
        speedup: of one thread's predicted time over `time_s`.
        limit: what keeps it from being as many times as fast: "fork and join", "DRAM", "uneven shares", …; ""
            where nothing takes more than a tenth.
        lost_s: seconds beyond one thread's time ÷ threads, by what takes them.
        memory_bytes: to and from the main memory, of a warm run of so many simulated cores, each with caches of
            its own before the one that all share; None where that was not simulated.
        between_bytes: likewise of lines that a core gets out of another's caches.
    """

    threads: int
    time_s: float
    speedup: float
    limit: str = ""
    lost_s: dict[str, float] = {}
    measured_s: float | None = None
    memory_bytes: int | None = None
    between_bytes: int | None = None


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
        learnt_s: what that would be more if it did not learn by heart what runs on the same data repeat.
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
    learnt_s: float = 0.0
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
        low_s, high_s: where a measured time lies in about four of five cases; None where the compiled code was
            not profiled.
        errors: what makes these bars, by mechanism, the largest first: the logarithm of the factor by which the
            time may be off if nothing else is; they join as independent ones do. Empty without bars.
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
    errors: dict[str, float] = {}
    levels_s: dict[str, float] = {}
    kept_share: float = 0.0
