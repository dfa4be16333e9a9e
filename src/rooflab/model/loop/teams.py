"""A loop over prange on several cores: shares of its trips, what cores share, teams started and joined.

What lies outside of prange stays on one core (Amdahl, AFIPS 1967). Within it the core's time and the data's way
divide as the trips do: by the largest share of a thread. A level of memory gives no more than it attains with so
many threads; the start and the join of a team come on top, for each entry of each loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from rooflab.model.device.constants import load_family
from rooflab.types.loop import LoopReport, LoopTime, Predicted, Region, Scaled
from rooflab.types.machine import Level, Machine, is_main_memory
from rooflab.types.team_timing import TeamTiming
from rooflab.units import duration

_WORTH_SAYING = 0.1  # of the time on so many threads, from which on what is lost is named
_LONGER = 20.0  # times the start of a pinned team: from then on it is said
_PIECE_S = 1e-8  # asking for a piece of a loop: an atomic change of a word and a call
_TAKEN_AND_GIVEN = 2  # times that a line changes hands for a store: there, and back to who reads it
_STARTED = "call numba_parallel_for"  # numba's own function, once for each loop over prange that is entered
_HANDED_OVER_S = 1e-7  # a line from core to core, where the machine does not say


class Shares(NamedTuple):
    """How one run divides among threads.

    Attributes:
        inside: share of it that lies in prange.
        largest: of that, the share of the thread with the most.
        entries: how often a team starts.
    """

    inside: float
    largest: float
    entries: int


class Crossing(NamedTuple):
    """Seconds of what crosses to a level within prange.

    Attributes:
        one_s: bytes ÷ what one core attains.
        least_s: bytes ÷ what so many threads attain together.
        waiting_s: of one core, for latencies.
        largest: share of the thread with the most.
    """

    one_s: float
    least_s: float
    waiting_s: float
    largest: float

    def seconds(self, threads: int, *, even: bool, limited: bool) -> float:
        """Seconds on so many threads; `even`: each with as much; `limited`: by what they share."""
        share = 1 / threads if even else self.largest
        return max(self.one_s * share, self.least_s if limited else 0.0) + self.waiting_s * share


def of_core(report: LoopReport, loops: Sequence[LoopTime], threads: int) -> Shares:
    """Shares of the core's time: by the lines in which the loops of the compiled code begin."""
    found = [(each, _region(report.regions, each.line)) for each in loops]
    total = sum(each.time_s for each, _ in found)
    entries = sum(each.entries for each in report.regions) if report.regions else 1
    if not report.regions or not total:
        return Shares(1.0, 1 / threads, entries)
    inside = sum(each.time_s for each, region in found if region is not None)
    largest = sum(each.time_s * region.share(threads, each.line) for each, region in found if region is not None)
    return Shares(inside / total, largest / inside if inside else 1 / threads, entries)


def of_level(report: LoopReport, near: str | None, threads: int) -> Shares:
    """Shares of what crosses behind the level `near`: by the lines whose accesses miss in it."""
    entries = sum(each.entries for each in report.regions) if report.regions else 1
    counts = [
        (
            each.accesses if near is None else each.misses.get(near, 0),
            _region(report.regions, each.line),
            each.line,
        )
        for each in report.lines
    ]
    total = sum(count for count, *_ in counts)
    if not report.regions or not total:
        return Shares(1.0, 1 / threads, entries)
    inside = sum(count for count, region, _ in counts if region is not None)
    largest = sum(count * region.share(threads, line) for count, region, line in counts if region is not None)
    return Shares(inside / total, largest / inside if inside else 1 / threads, entries)


def _region(regions: Sequence[Region], line: int) -> Region | None:
    return next((each for each in regions if each.line <= line <= each.last_line), None)


def rate_of(level: Level, machine: Machine, threads: int, one: float, every: float | None) -> float:
    """Bytes/s that so many threads attain of `level`: of one that they share no less than one attains.

    Args:
        level: of `machine`.
        machine: it.
        threads: each on a core of its own.
        one: bytes/s of one.
        every: of all, as many as the rate says; None where that is not known. Less than `one` of a level that is
            shared only says that something disturbed it.
    """
    most = max((each.threads or 0 for each in level.rates if each.scope == "all"), default=0)
    if every is None or most < 2:
        return one * threads if level.shared_by == 1 else one
    if level.shared_by == 1:
        # of its own: what all attain, each its part
        return every * threads / most
    every = max(one, every)
    if threads >= most:
        return every
    curve = machine.curve("thread scaling")
    if is_main_memory(level) and curve is not None:
        several, all_of_them = np.interp([threads, most], curve.x, curve.best)
        return max(one, min(one * threads, every * float(several / all_of_them)))
    return min(one * threads, every)


def crowding(machine: Machine, threads: int) -> float:
    """How much longer arithmetic takes where so many threads compute at once: cores that are shared, lower clocks.

    From the peaks measured on one core and on all: 1 where all attain as many times as much. Siblings of one core
    are found by it, also where a hypervisor hides them.
    """
    worst = 1.0
    for dtype in ("fp64", "fp32"):
        rates = {
            (each.scope, each.engine): each
            for each in machine.peaks
            if each.dtype == dtype and each.basis == "attained" and each.what == "fma"
        }
        one, every = rates.get(("core", "vector")), rates.get(("all", "vector"))
        if one is not None and every is not None and (every.threads or 0) > 1:
            most = every.threads or 1
            slower = most * one.value / every.value
            worst = max(worst, 1 + (slower - 1) * min(1.0, (threads - 1) / (most - 1)))
    return worst


def slowed_by(loops: Sequence[LoopTime], factor: float) -> float:
    """How much longer all loops take where what they issue takes `factor` times as long; chains wait as before."""
    total = sum(each.time_s for each in loops)
    if not total:
        return factor
    slower = sum(
        each.time_s + max(busy_s * factor, each.chain_s) - max(busy_s, each.chain_s)
        for each in loops
        for busy_s in (each.ports_s + sum(each.calls_s.values()),)
    )
    return slower / total


def divided(report: LoopReport, loops: Sequence[LoopTime], threads: int, crowded: float) -> tuple[LoopTime, ...]:
    """The loops as the thread with the most runs them; those outside of prange as they are."""
    found = []
    for each in loops:
        region = _region(report.regions, each.line)
        if region is None and report.regions:
            found.append(each)
            continue
        part = crowded * (1 / threads if region is None else region.share(threads, each.line))
        found.append(
            replace(
                each,
                time_s=each.time_s * part,
                ports_s=each.ports_s * part,
                chain_s=each.chain_s * part,
                calls_s={name: seconds * part for name, seconds in each.calls_s.items()},
                missed_s=each.missed_s * part,
                learnt_s=each.learnt_s * part,
                apart_s=each.apart_s * part,
            )
        )
    return tuple(sorted(found, key=lambda each: -each.time_s))


def with_own_code(
    several: Predicted | None, one: Predicted | None, alone: Predicted | None, spread_by: str
) -> Predicted | None:
    """`several` threads, and what they lose as a team's code is another than that of `one` core.

    `alone` is one thread of the team. numba hands arrays to such code apart, so that it keeps sums in registers
    that it stored before; and it knows no more where trips begin, so that it tells indices from those that count
    from an array's end, and loads by gathers.
    """
    if several is None or one is None or alone is None:
        return several
    longer_s = (alone.time_s - alone.team_s - one.time_s) / several.threads
    if longer_s <= 0:
        return several
    return replace(several, lost_s={**several.lost_s, f"code for {spread_by}": longer_s})


def fork_s(machine: Machine, threads: int, team: TeamTiming | None) -> float:
    """Seconds of starting and joining a team once: measured now, else those of the machine, else usual ones.

    A thread more than were measured adds what a barrier takes to hand one line to it.
    """
    if threads == 1:
        return 0.0
    team = team or machine.team
    further = _handed_over_s(machine)
    if team is not None:
        known = float(np.interp(threads, team.threads, team.pinned_s))
        return known + max(0, threads - team.threads[-1]) * further
    return load_family("cpu")("cpu.team_s") + (threads - 2) * further


def alone_s(report: LoopReport, machine: Machine, team: TeamTiming | None) -> float:
    """Seconds of one run, by one thread, for what its code does before and after each loop over prange.

    Of code that numba compiled for a team alone: it asks for a schedule, and lets go of the interpreter's lock.
    """
    starts = sum(each.operations.get(_STARTED, 0.0) for each in report.core_loops)
    if not starts:
        return 0.0
    known = [each.alone_s for each in (team, machine.team) if each is not None and each.alone_s is not None]
    return starts * (known[0] if known else load_family("cpu")("cpu.team_alone_s"))


def handed_out_s(report: LoopReport, threads: int, team: TeamTiming | None) -> float:
    """Seconds that a thread takes to ask for the pieces of loops that are handed out, as OpenMP's dynamic ones.

    One thread alone gets all of a loop at once.
    """
    chunks = sum(each.chunks for each in report.regions)
    if threads == 1 or not chunks:
        return 0.0
    piece_s = None if team is None else team.piece_s
    return chunks / threads * (_PIECE_S if piece_s is None else piece_s)


def shared_lines_s(report: LoopReport, machine: Machine, threads: int) -> float:
    """Seconds that threads wait for lines that they take from one another: a line from core to core each, in turn.

    Counted with one number of threads; with more, a line goes round among all of them, as often in all. Accesses
    are the source's: where numba keeps in a register what they go to, a line is taken by the stores that are left.
    """
    if threads == 1:
        return 0.0
    in_turn = 0.0
    for each in report.shared_lines:
        region = _region(report.regions, each.line)
        most = float("inf")
        if report.core_loops and region is not None and report.spread_by == "prange":
            most = _TAKEN_AND_GIVEN * sum(
                count
                for loop in report.core_loops
                if region.line <= loop.line <= region.last_line
                for kind, count in loop.operations.items()
                if kind.startswith("store")
            )
        in_turn += min(each.in_turn, most)
    return in_turn * _handed_over_s(machine)


def _handed_over_s(machine: Machine) -> float:
    """A line from core to core, one way."""
    links = [each for each in machine.links if each.name == "core to core" and each.latency_s]
    return min((each.latency_s or _HANDED_OVER_S for each in links), default=_HANDED_OVER_S)


def left_to_the_scheduler(report: LoopReport, team: TeamTiming | None) -> tuple[str, ...]:
    """A sentence where threads that nobody pins were seen to wait much longer for each other than pinned ones."""
    if team is None or not report.regions or team.free_s is None or team.free_s < _LONGER * team.pinned_s[-1]:
        return ()
    how = {"omp": "OMP_PROC_BIND=true"}.get(team.layer, "taskset, or one pinned process a core")
    return (
        f"threads left to the scheduler took {duration(team.free_s)} to start and join here, pinned ones"
        f" {duration(team.pinned_s[-1])}: two may be put on one core; times here are of pinned ones ({how})",
    )


def scaling(
    report: LoopReport,
    machine: Machine,
    predict: Callable[[int], Predicted | None],
    most_threads: int | None = None,
) -> tuple[Scaled, ...]:
    """Predicted times over numbers of threads, beside those measured: up to the machine's cores, or so many.

    `predict` says what so many threads take.
    """
    one = predict(1)
    if one is None or not report.regions or not one.time_s:
        return ()
    run = report.run(threads=2)
    most = most_threads or max(machine.compute_units or 1, 1 if run is None else run.threads)
    counts = sorted(
        {1, most, *(2**n for n in range(1, most.bit_length())), *(() if run is None else (run.threads,))}
    )
    found = []
    for threads in sorted(counts):
        predicted = one if threads == 1 else predict(threads)
        if predicted is None:
            continue
        measured = next(
            (each.time_s for each in report.runs if each.threads == threads and each.cache == "warm"), None
        )
        lost = {name: seconds for name, seconds in predicted.lost_s.items() if seconds > 0}
        worst = max(lost, key=lambda name: lost[name], default="")
        found.append(
            Scaled(
                threads=threads,
                time_s=predicted.time_s,
                speedup=one.time_s / predicted.time_s,
                limit=worst if worst and lost[worst] > _WORTH_SAYING * predicted.time_s else "",
                lost_s=lost,
                measured_s=measured,
            )
        )
    return tuple(found)
