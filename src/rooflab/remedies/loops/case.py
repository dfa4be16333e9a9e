"""A loop as rules see it, changes to it, and what it takes with some of them made."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from rooflab.errors import RooflabError
from rooflab.loops import again
from rooflab.loops.beside import Beside
from rooflab.loops.read.understood import Understood
from rooflab.machines.cache_levels import Chosen
from rooflab.model.loop import placement, times, waiting
from rooflab.types.advice import Effort, Price
from rooflab.types.core_timing import CoreTiming
from rooflab.types.loop import LoopReport, Predicted
from rooflab.types.machine import Machine
from rooflab.types.simulation import Simulation
from rooflab.types.team_timing import TeamTiming


class State(NamedTuple):
    """A loop with changes made to it.

    Attributes:
        loop: its source and arguments.
        fastmath: whether sums may be added up in another order.
        threads: that share its trips.
        past_caches: arrays that are written by non-temporal stores.
        huge_pages: whether its arrays lie in huge pages, which the system did not grant so far.
    """

    loop: Understood
    fastmath: bool = False
    threads: int = 1
    past_caches: tuple[str, ...] = ()
    huge_pages: bool = False


class Case(NamedTuple):
    """What rules look at.

    Attributes:
        report: of the loop as it is, on a machine.
        state: the loop as it is.
        caches: that it was simulated on.
        machine: a CPU.
        limit_s: seconds for the count of one changed loop.
        counted: loops that were counted already, with what that gave.
        timing: how long its core's operations take, where that was measured.
        team: how long its teams of threads take to start, where that was measured.
        beside: what compiles and counts changed loops meanwhile; None where nothing does.
    """

    report: LoopReport
    state: State
    caches: Chosen
    machine: Machine
    limit_s: float | None
    counted: list[tuple[Understood, bool, LoopReport | str]]
    timing: CoreTiming | None = None
    team: TeamTiming | None = None
    beside: Beside | None = None

    @property
    def loop(self) -> Understood:
        """Its source and arguments."""
        return self.state.loop

    @property
    def predicted(self) -> Predicted:
        """As it is."""
        return self.report.predictions[0]


class Change(NamedTuple):
    """One change, before it is predicted.

    Attributes:
        rule, text, evidence, effort, price, code: as in `Advice` (`text` is its `change`).
        apply: makes it, in any state; None where that state leaves nothing to change.
        runnable: whether the changed loop can be run here to see whether it holds what is predicted.
    """

    rule: str
    text: str
    evidence: tuple[str, ...]
    apply: Callable[[State], State | None]
    effort: Effort = "line"
    price: Price = "nothing"
    code: str = ""
    runnable: bool = True


class Unasked(NamedTuple):
    """Why a rule cannot say anything of a loop."""

    rule: str
    reason: str


def to_run(state: State) -> tuple[object, ...]:
    """What the task is called that makes a loop in that state ready to be run."""
    return "run", id(state.loop), state.fastmath


def to_count(state: State) -> tuple[object, ...]:
    """What the task is called that counts a loop in that state."""
    return "count", id(state.loop), state.fastmath


def examined(state: State, case: Case) -> LoopReport | str:
    """The loop in that state, counted, compiled and placed on the machine; or why it could not be."""
    report = _counted(state, case)
    if isinstance(report, str):
        return report
    if state.past_caches:
        report = past_caches(report, state.past_caches)
    machine = (waiting.with_huge_pages(case.machine) if state.huge_pages else None) or case.machine
    placed = placement.place_on(report, machine, case.timing, case.team)
    predicted = times.predict(
        report,
        machine,
        state.threads,
        past_caches=bool(state.past_caches),
        timing=case.timing,
        team=case.team,
    )
    return msgspec.structs.replace(placed, predictions=() if predicted is None else (predicted,))


def _counted(state: State, case: Case) -> LoopReport | str:
    """The counts and the code of the loop in that state, from an earlier time where there was one."""
    for loop, fastmath, held in case.counted:
        if loop is state.loop and fastmath == state.fastmath:
            return held
    if case.beside is not None:
        case.beside.claim(to_count(state))
    try:
        report: LoopReport | str = again.report(
            state.loop,
            case.caches,
            time_limit_s=case.limit_s,
            time=False,
            code=True,
            fastmath=state.fastmath,
            # as the loop itself was: both sides are predicted alike
            profile=bool(case.report.core_loops),
            # said of the loop as it is alone
            why=state.loop is case.loop and not state.fastmath,
        )
    except RooflabError as error:
        report = str(error)
    if isinstance(report, LoopReport) and not report.complete:
        report = f"counting the changed loop takes more than {case.limit_s:.0f} s"
    elif isinstance(report, LoopReport) and case.report.warm is not None and report.warm is None:
        # One begins with empty caches, the other with full ones: their times are not of the same run.
        report = f"counting the changed loop twice takes more than {case.limit_s:.0f} s"
    case.counted.append((state.loop, state.fastmath, report))
    return report


def past_caches(report: LoopReport, arrays: tuple[str, ...]) -> LoopReport:
    """`report` with the stores of `arrays`, which nothing reads, crossing to the memory alone."""
    return msgspec.structs.replace(
        report,
        simulation=_past(report.simulation, arrays),
        warm=None if report.warm is None else _past(report.warm, arrays),
    )


def _past(simulation: Simulation, arrays: tuple[str, ...]) -> Simulation:
    levels = []
    for number, level in enumerate(simulation.levels):
        own = [each for each in level.arrays if each.name in arrays]
        read = sum(each.read_bytes for each in own)
        # What is written goes to the memory itself: nearer levels pass nothing on. Each line that was missed is
        # stored to, and leaves once; write-backs are counted with the access that makes them, not with the array.
        last = number == len(simulation.levels) - 1
        write = 0 if last else min(sum(each.misses for each in own) * level.cache.line_bytes, level.write_bytes)
        levels.append(
            msgspec.structs.replace(
                level, read_bytes=level.read_bytes - read, write_bytes=level.write_bytes - write
            )
        )
    return msgspec.structs.replace(simulation, levels=tuple(levels))
