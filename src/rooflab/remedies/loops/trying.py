"""Changes tried one after the other: run where that takes next to no time, predicted, held against the run."""

from __future__ import annotations

import functools
import itertools
import math
import time as clock
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from rooflab.loops import again, beside
from rooflab.loops.compiled import time
from rooflab.remedies import WORTH
from rooflab.remedies.loops.case import Case, Change, State, Unasked, examined, to_count, to_run
from rooflab.remedies.loops.rules import RULES, Rule
from rooflab.types.loop import Predicted
from rooflab.units import duration, percent

_LEAST_COUNT_S = 2.0  # of one changed loop that was begun in time

# Changes that mend the same: of these the best is advice, another only where it helps beside it.
SAME_CAUSE = ("interchange", "tile", "pad-rows", "by-columns", "structure-of-arrays")


class Tried(NamedTuple):
    """A change with what it takes: predicted, and run where it was."""

    change: Change
    state: State
    after: Predicted
    ran: Runs | None

    @property
    def after_s(self) -> float:
        """Seconds predicted with the change."""
        return self.after.time_s


class Runs(NamedTuple):
    """Measured seconds of the loop as it is and of the changed one, in turns; `same` results or not."""

    before_s: float
    after_s: float
    same: bool = True


def _in_order(case: Case) -> list[tuple[Rule, Change | Unasked]]:
    """What every rule asks, in the order in which it is tried.

    First what is not counted anew, last what is told only after a run; between them what changes no result before
    what does, and what is for the loop's own bound before the rest.
    """
    bound = case.report.bound or ""

    def place(each: tuple[Rule, Change | Unasked]) -> tuple[bool, ...]:
        rule = each[0]
        fits = rule.regime == "any" or bound == "balanced" or bound.removesuffix("-bound") in rule.regime
        return rule.counted, rule.run_first, rule.price, not fits

    return sorted(((rule, change) for rule in RULES for change in rule.ask(case)), key=place)


def over(rule: str, patience_s: float) -> str:
    """That a rule was not asked for the time that it takes, in words."""
    return (
        f"{rule}: not tried, as the {patience_s:g} s for trying changes were over: --advice-time, or advice_s in"
        " Python, gives more"
    )


def within(case: Case, until: float) -> Case:
    """`case` whose counts take no longer than there is time."""
    left_s = max(_LEAST_COUNT_S, until - clock.perf_counter())
    return case._replace(limit_s=left_s if case.limit_s is None else min(case.limit_s, left_s))


def each_of(case: Case, here: bool, patience_s: float, until: float) -> tuple[list[Tried], list[str]]:
    """The changes that were found worth a word, and those that could not be asked, or that a run disproves.

    Where runs take next to no time, a rule's changes are run first: they are compiled for that alone. Then only
    the quickest that saves time is counted too, and the next where that is not predicted to help.
    """
    asked = _in_order(case)
    with _beside(asked, case, here) as (case, states):
        return _each_of(asked, states, case, here, patience_s, until)


def _each_of(
    every: list[tuple[Rule, Change | Unasked]],
    states: dict[int, State | None],
    case: Case,
    here: bool,
    patience_s: float,
    until: float,
) -> tuple[list[Tried], list[str]]:
    """The same; `states`: what changes lead to, by their place among `every`, where that is known."""
    tried: list[Tried] = []
    unasked: list[str] = []
    numbered = [(rule, change, number) for number, (rule, change) in enumerate(every)]
    for rule, found in itertools.groupby(numbered, key=lambda each: each[0]):
        asked = []
        for _, change, number in found:
            if isinstance(change, Unasked):
                unasked.append(f"{change.rule}: {change.reason}")
            elif (state := states[number] if number in states else change.apply(case.state)) is not None:
                asked.append(_Asked(change, state))
        run_first = here and rule.counted and _is_short(case)
        if run_first:
            asked, said = _quickest(asked, case, until, _least(rule, tried))
            unasked += said
        for each in asked:
            if rule.counted and clock.perf_counter() > until:
                unasked.append(over(rule.name, patience_s))
                continue
            one = _tried(each, case, until, here)
            why = one if one is None or isinstance(one, str) else _unsaid(one, rule, case)
            if why is not None:
                unasked.append(why)
            elif isinstance(one, Tried):
                tried.append(one)
                if run_first:
                    break
    return tried, list(dict.fromkeys(unasked))


@contextmanager
def _beside(
    asked: list[tuple[Rule, Change | Unasked]], case: Case, here: bool
) -> Iterator[tuple[Case, dict[int, State | None]]]:
    """`case` with what compiles and counts the loops of changes meanwhile, and the states that these lead to."""
    chosen = [n for n, (rule, change) in enumerate(asked) if rule.counted and isinstance(change, Change)]
    arrays = (each.nbytes for each in case.loop.arguments.arrays().values())
    if not (here and _is_short(case) and len(chosen) > 1 and beside.is_worth_it(sum(arrays))):
        yield case, {}
        return
    changes = {number: change for number in chosen if isinstance(change := asked[number][1], Change)}
    states = {number: change.apply(case.state) for number, change in changes.items()}
    tasks: list[tuple[float, beside.Key, Callable[[], object]]] = []
    for place, (number, state) in enumerate(states.items()):
        if state is None:
            continue
        tasks.append((place, to_run(state), functools.partial(_prepare, changes[number], state, case)))
        # whether it is counted its run decides, which is at hand once the next two are ready to be run;
        # of those that only a run tells of, most are not
        if not asked[number][0].run_first:
            tasks.append((place + 1.5, to_count(state), functools.partial(examined, state, case)))
    ordered = {key: task for _, key, task in sorted(tasks, key=lambda each: each[0])}
    copy = beside.Beside(ordered, ours=list(ordered)[:1])
    try:
        yield case._replace(beside=copy), states
    finally:
        copy.end()


def _prepare(change: Change, state: State, case: Case) -> None:
    """Do what comes before a changed loop is timed."""
    if change.runnable and change.price == "nothing":
        again.same_results((case.loop, False), (state.loop, state.fastmath))
    if change.runnable:
        again.compiled(state.loop, state.fastmath)


class _Asked(NamedTuple):
    """A change that can be made, the loop with it, and its run where it was run before anything else."""

    change: Change
    state: State
    ran: Runs | None = None

    @property
    def ratio(self) -> float:
        """Time after ÷ before; of what was not run, or gives other results, more than any."""
        return math.inf if self.ran is None or not self.ran.same else self.ran.after_s / self.ran.before_s


def _is_short(case: Case) -> bool:
    """Whether the loop ran here, and takes so little time that a changed one may be run before it is predicted."""
    ran = case.report.run()
    return ran is not None and ran.best_s < time.LONG_S


def _least(rule: Rule, tried: list[Tried]) -> float:
    """Time after ÷ before of what was found to mend the same as `rule` does."""
    same = [_Asked(one.change, one.state, one.ran).ratio for one in tried if one.change.rule in SAME_CAUSE]
    return min(same, default=math.inf) if rule.name in SAME_CAUSE else math.inf


def _quickest(asked: list[_Asked], case: Case, until: float, least: float) -> tuple[list[_Asked], list[str]]:
    """Changes of one rule, quickest first, without those that a run here shows to save nothing.

    Nor do those stay that save less than `least`, the time after ÷ before of what mends the same. Beside them what
    is said where none is left. What was not run, as it cannot be or the time is over, stays.
    """
    ran = [
        each._replace(ran=run(each.change, each.state, case)) if clock.perf_counter() <= until else each
        for each in asked
    ]
    kept = [each for each in ran if each.ran is None or (_saves(each.ran) and each.ratio < least)]
    for each in ran:
        if case.beside is not None and each not in kept:
            case.beside.leave(to_count(each.state))
    best = min(ran, key=lambda each: each.ratio, default=None)
    if kept or best is None or best.ran is None:
        return sorted(kept, key=lambda each: each.ratio), []
    better = f", and what mends the same {percent(least)} of that" if _saves(best.ran) else ""
    return [], [f"{_said_of_run(best.change, best.ran)}{better}"]


def _tried(each: _Asked, case: Case, until: float, here: bool) -> Tried | str | None:
    """A change predicted and run; why it could not be predicted; None where it is not predicted to help."""
    found = examined(each.state, within(case, until))
    if isinstance(found, str):
        return f"{each.change.rule}: {found}"
    if not found.predictions or found.predictions[0].time_s >= (1 - WORTH) * case.predicted.time_s:
        return None
    ran = each.ran or (run(each.change, each.state, case) if here else None)
    return Tried(each.change, each.state, found.predictions[0], ran)


def _unsaid(one: Tried, rule: Rule, case: Case) -> str | None:
    """Why what is predicted to help is not advice; None where it is."""
    if one.ran is None and rule.run_first:
        return (
            f"{rule.name}: predicted to help, which is said only where a run bears it out: timed, on "
            "the machine itself"
        )
    if one.ran is None and ends(case.predicted, one.after)[1] >= 1:
        return (
            f"{rule.name}: predicted to save {percent(1 - one.after_s / case.predicted.time_s)} or"
            " nothing, by how much of it is hidden: said only where a run bears it out, on the machine"
            " itself"
        )
    if one.ran is None or _saves(one.ran):
        return None
    predicted = f"predicted {duration(one.after_s)} instead of {duration(case.predicted.time_s)}, but "
    return _said_of_run(one.change, one.ran, predicted)


def _saves(runs: Runs) -> bool:
    return runs.same and runs.after_s < (1 - WORTH) * runs.before_s


def _said_of_run(change: Change, runs: Runs, predicted: str = "") -> str:
    """What a run of a changed loop showed, in words."""
    text = change.text[0].lower() + change.text[1:]
    if not runs.same:
        return f"{change.rule}: {text}: its results would differ"
    return (
        f"{change.rule}: {text}: {predicted}run here it takes {duration(runs.after_s)} instead "
        f"of {duration(runs.before_s)}"
    )


def run(change: Change, state: State, case: Case) -> Runs | None:
    """Both loops run here, where the changed one can be, which numba may refuse."""
    ran = case.report.run()
    if not change.runnable or ran is None:
        return None
    pairs = ((case.loop, False), (state.loop, state.fastmath))
    if case.beside is not None:
        case.beside.claim(to_run(state))
    try:
        if change.price == "nothing" and not again.same_results(*pairs):
            return Runs(0.0, 0.0, same=False)
        if case.beside is None:
            return Runs(*again.in_turns(*pairs, ran.best_s))
        again.compiled(*pairs[1])
        with case.beside.still():
            return Runs(*again.in_turns(*pairs, ran.best_s))
    except time.refusals():
        # said where it is counted
        return None


def ends(before: Predicted, after: Predicted) -> tuple[float, float]:
    """The least and the most of after ÷ before: with all terms side by side, in turn, and as best guessed.

    Whether a core's arithmetic and the levels overlap is the same before and after, but not known.
    """
    every = [
        getattr(after, name) / getattr(before, name)
        for name in ("overlapped_s", "serial_s", "time_s")
        if getattr(before, name)
    ]
    return min(every), max(every)
