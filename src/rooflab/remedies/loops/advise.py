"""All that would help a loop: each change simulated, held against a run where the machine is this one, ranked."""

from __future__ import annotations

import math
import time as clock
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from rooflab.errors import RooflabError
from rooflab.loops.read.understood import Understood
from rooflab.machines.cache_levels import Chosen
from rooflab.remedies import PAGE, WORTH
from rooflab.remedies.loops import trying
from rooflab.remedies.loops.case import Case, State, Unasked, examined
from rooflab.remedies.loops.rules import RULES
from rooflab.remedies.loops.trying import SAME_CAUSE, Tried
from rooflab.types.advice import Advice, Advices
from rooflab.types.core_timing import CoreTiming
from rooflab.types.loop import LoopReport
from rooflab.types.machine import Machine
from rooflab.types.team_timing import TeamTiming
from rooflab.units import duration

PATIENCE_S = 10.0


def advise(
    report: LoopReport,
    loop: Understood,
    caches: Chosen,
    *,
    here: bool = True,
    limit_s: float | None = None,
    patience_s: float = PATIENCE_S,
    timing: CoreTiming | None = None,
    team: TeamTiming | None = None,
) -> Advices:
    """What would help `report`.

    Args:
        report: of the loop on a CPU, with a prediction.
        loop: that it is of.
        caches: that it was simulated on.
        here: whether its measured times are of the machine, so that a changed loop can be held against them.
        limit_s: seconds for the count of one changed loop; by default a few times what its own took.
        patience_s: after so many seconds no further change is compiled and counted.
        timing: how long the core's operations take, where that was measured.
        team: how long its teams of threads take to start, where that was measured.
    """
    if report.machine is None or not report.predictions:
        return Advices(unasked=("all: no rates of a machine, so no predicted time",))
    if not report.complete:
        return Advices(unasked=("all: its count was stopped, so that no changed one can be held against it",))
    case = _case(report, loop, caches, report.machine, limit_s, timing, team)
    if isinstance(case, str):
        return Advices(unasked=(f"all: {case}",))
    until = clock.perf_counter() + patience_s
    tried, unasked = trying.each_of(case, here, patience_s, until)
    kept = _best_of_each(tried)
    free = [one for one in kept if one.change.price == "nothing"]
    together, together_s, left = _together(free, case, until)
    unasked += [trying.over("together", patience_s)] if left else []
    return Advices(
        each=tuple(_advice(one, case, _instead(one, free, together)) for one in _apart(free, together)),
        trades=tuple(_advice(one, case, ()) for one in kept if one.change.price != "nothing"),
        together=together,
        together_s=together_s,
        unasked=tuple(unasked),
    )


def _case(
    report: LoopReport,
    loop: Understood,
    caches: Chosen,
    machine: Machine,
    limit_s: float | None,
    timing: CoreTiming | None = None,
    team: TeamTiming | None = None,
) -> Case | str:
    """What rules look at; or why nothing can be predicted."""
    if limit_s is None:
        limit_s = 20.0 + 6.0 * (report.simulation.seconds or 0.0)
    # Without its code, where it was not compiled: the changed ones are, and so is it.
    counted: list[tuple[Understood, bool, LoopReport | str]] = []
    if report.code is not None:
        counted.append((loop, False, report))
    case = Case(report, State(loop), caches, machine, limit_s, counted, timing, team)
    as_is = examined(case.state, case)
    if isinstance(as_is, str) or not as_is.predictions:
        return as_is if isinstance(as_is, str) else "no predicted time"
    return case._replace(report=msgspec.structs.replace(as_is, runs=report.runs, warnings=report.warnings))


class Ratio(NamedTuple):
    """Time after ÷ before of one change: as predicted, the ends that its mechanism allows, as run here."""

    rule: str
    predicted: float
    low: float
    high: float
    run: float

    @property
    def beyond(self) -> float:
        """How far the run lies outside those ends, of ln; 0 within."""
        return max(0.0, math.log(self.run / self.high), math.log(self.low / self.run))


def ratios(
    report: LoopReport, loop: Understood, caches: Chosen, timing: CoreTiming | None = None
) -> Iterator[Ratio]:
    """Each change that can be run and helps at both ends; `timing` is how long this core's operations take.

    Raises:
        RooflabError: a report without a predicted time.
    """
    case = "no machine" if report.machine is None else _case(report, loop, caches, report.machine, None, timing)
    if isinstance(case, str):
        raise RooflabError(f"{report.name}: {case}")
    for rule in RULES:
        for change in rule.ask(case):
            state = None if isinstance(change, Unasked) else change.apply(case.state)
            found = "" if state is None else examined(state, case)
            if isinstance(change, Unasked) or state is None or isinstance(found, str) or not found.predictions:
                continue
            after = found.predictions[0]
            predicted = after.time_s / case.predicted.time_s
            low, high = trying.ends(case.predicted, after)
            ran = trying.run(change, state, case) if predicted < 1 - WORTH and high < 1 else None
            if ran is not None and ran.same:
                yield Ratio(rule.name, predicted, low, high, ran.after_s / ran.before_s)


def _best_of_each(tried: list[Tried]) -> list[Tried]:
    """The best change of each rule, most gain first."""
    best: dict[str, Tried] = {}
    for one in tried:
        held = best.get(one.change.rule)
        if held is None or one.after_s < held.after_s:
            best[one.change.rule] = one
    return sorted(best.values(), key=lambda one: one.after_s)


def _together(tried: list[Tried], case: Case, until: float) -> tuple[tuple[str, ...], float | None, bool]:
    """The rules whose changes, one made after the other, each still save time; the time with all of them.

    Last: whether some were left out, as the time was over.
    """
    state, rules, best_s, left = case.state, [], case.predicted.time_s, False
    for one in tried:
        changed = one.change.apply(state)
        if changed is None:
            continue
        if clock.perf_counter() > until and not _is_counted(changed, case):
            left = True
            continue
        found = examined(changed, trying.within(case, until))
        if isinstance(found, str) or not found.predictions:
            continue
        if found.predictions[0].time_s < (1 - WORTH) * best_s:
            state, best_s = changed, found.predictions[0].time_s
            rules.append(one.change.rule)
    return (tuple(rules), best_s, left) if len(rules) > 1 else ((), None, left)


def _is_counted(state: State, case: Case) -> bool:
    return any(loop is state.loop and fastmath == state.fastmath for loop, fastmath, _ in case.counted)


def _apart(free: list[Tried], together: tuple[str, ...]) -> list[Tried]:
    """`free` without those that mend what a better one mends."""
    kept: list[Tried] = []
    for one in free:
        same = one.change.rule in SAME_CAUSE and any(held.change.rule in SAME_CAUSE for held in kept)
        if not same or one.change.rule in together:
            kept.append(one)
    return kept


def _instead(one: Tried, free: list[Tried], together: tuple[str, ...]) -> tuple[str, ...]:
    """What else would mend the same, in words, where `one` is the best of several."""
    if one.change.rule not in SAME_CAUSE:
        return ()
    kept = _apart(free, together)
    others = [each for each in free if each not in kept]
    first = next(each for each in kept if each.change.rule in SAME_CAUSE)
    return tuple(f"or: {each.change.text}: {duration(each.after_s)}" for each in others) if one is first else ()


def _advice(one: Tried, case: Case, instead: tuple[str, ...]) -> Advice:
    change, before_s = one.change, case.predicted.time_s
    told: tuple[str, ...] = ()
    # Both times are of one model: what is uncertain is their ratio.
    low, high = trying.ends(case.predicted, one.after)
    beyond = next(rule.beyond for rule in RULES if rule.name == change.rule)
    times_s = [before_s * high * math.exp(beyond), before_s * low * math.exp(-beyond)]
    if one.ran is not None:
        ran_s = before_s * one.ran.after_s / one.ran.before_s
        told = (
            f"run here the changed loop takes {duration(one.ran.after_s)} instead of {duration(one.ran.before_s)}",
        )
        # The run is a sample of that ratio: it lies between what was predicted and what it shows.
        times_s = sorted((one.after_s, ran_s), reverse=True)
    slower, faster = times_s
    return Advice(
        rule=change.rule,
        change=change.text,
        evidence=(*change.evidence, *told, *instead),
        before_s=before_s,
        after_s=one.after_s,
        gain_low_s=before_s - slower,
        gain_high_s=before_s - faster,
        effort=change.effort,
        price=change.price,
        code=change.code,
        page=PAGE + change.rule,
    )
