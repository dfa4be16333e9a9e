"""What would help a loop of C: other flags, with which it is compiled, counted, predicted and run again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from rooflab.errors import RooflabError
from rooflab.loops.c import examine, flags
from rooflab.machines.cache_levels import Chosen
from rooflab.model.loop import placement
from rooflab.remedies import PAGE, WORTH
from rooflab.types.advice import Advice, Advices, Effort, Price
from rooflab.types.core_timing import CoreTiming
from rooflab.types.loop import LoopReport, Predicted
from rooflab.units import duration

_MORE, _SHARE = 1.2, 0.1  # a chain ÷ the operations beside it; of the time: from there on it is asked
_SUMS = ("addition", "multiply-add", "product")  # of floating point: what may be done in another order


class Flags(NamedTuple):
    """Other flags.

    Attributes:
        rule, text, evidence, price: as in `Advice` (`text` is its `change`).
        more: behind those that there are.
    """

    rule: str
    text: str
    evidence: tuple[str, ...]
    more: tuple[str, ...]
    price: Price = "nothing"


def reordered(report: LoopReport, given: flags.Flags) -> Flags | None:
    """Sums in several parts, where each addition waits for the one before."""
    one = report.predictions[0]
    found = [each for each in one.loops if each.chain_s > _MORE * each.ports_s and _of_sums(each.chain)]
    worst = max(found, key=lambda each: each.time_s, default=None)
    if worst is None or worst.time_s < _SHARE * one.time_s or {"-ffast-math", "-Ofast"} & set(given.given):
        return None
    said = f"line {worst.line}: {worst.chain} takes {duration(worst.chain_s)}, its operations"
    return Flags(
        "accumulators",
        "Let the compiler add up in several sums at once (-ffast-math), or write four sums by hand",
        (f"{said} {duration(worst.ports_s)} ({worst.busiest})",),
        ("-ffast-math",),
        "numbers",
    )


def optimised(report: LoopReport, given: flags.Flags) -> Flags | None:
    """Flags that let the compiler use all of this processor, where they are missing."""
    more = [] if any(each in ("-O3", "-Ofast", "-O4") for each in given.given) else ["-O3"]
    more += [] if any(each.startswith(("-march=", "-mcpu=")) for each in given.given) else ["-march=native"]
    if not more:
        return None
    return Flags(
        "compiler-flags",
        f"Compile with {' '.join(more)}",
        (f"compiled with {' '.join(given.given) or 'no flags'}",),
        tuple(more),
    )


def _of_sums(chain: str) -> bool:
    return any(each in chain for each in _SUMS)


class Rule(NamedTuple):
    """A rule: name and regime as of the other loops' rules, what asks a loop, whether it has a price."""

    name: str
    regime: str
    ask: Callable[[LoopReport, flags.Flags], Flags | None]
    price: bool = False


RULES = (
    Rule("compiler-flags", "any", optimised),
    Rule("accumulators", "compute-bound", reordered, price=True),
)


def advise(
    report: LoopReport,
    function: examine.Target,
    args: Sequence[Any],
    caches: Chosen,
    cflags: str | None,
    timing: CoreTiming | None,
) -> Advices:
    """What would help `report`, which was timed on the machine that it is placed on.

    Args:
        report: of the function, with a prediction.
        function: that it is of.
        args: that it was called with.
        caches: that it was simulated on.
        cflags: as given.
        timing: how long the core's operations take.
    """
    if report.machine is None or not report.predictions or report.run() is None or not report.complete:
        return Advices(unasked=("all: other flags are held against a predicted and a measured time",))
    if function.path.suffix in flags.IR:
        return Advices(unasked=("all: LLVM IR has no flags",))
    given = flags.of(function.path, cflags)
    told: list[Advice] = []
    unasked: list[str] = []
    for rule in RULES:
        change = rule.ask(report, given)
        if change is None:
            continue
        try:
            other = examine.report(function, args, caches, cflags=cflags, more=change.more)
        except RooflabError as error:
            unasked.append(f"{rule.name}: {error}")
            continue
        after = placement.place_on(other, report.machine, timing).predictions
        # in turns: a busy moment of the host then spoils not one of them alone
        once_more = [
            examine.report(function, args, caches, cflags=cflags, more=each) for each in ((), change.more)
        ]
        runs = [(report, once_more[0]), (other, once_more[1])]
        found = _told(report, change, after[0] if after else None, [_best(each) for each in runs])
        (unasked if isinstance(found, str) else told).append(found)  # type: ignore[arg-type]
    told.sort(key=lambda one: one.after_s or 0.0)
    return Advices(
        each=tuple(one for one in told if one.price == "nothing"),
        trades=tuple(one for one in told if one.price != "nothing"),
        unasked=tuple(unasked),
    )


def _best(reports: Sequence[LoopReport]) -> float | None:
    """The least seconds of a warm run in any of them; None where none ran."""
    found = [run.best_s for each in reports if (run := each.run()) is not None]
    return min(found, default=None)


def _told(
    report: LoopReport, change: Flags, after: Predicted | None, runs: Sequence[float | None]
) -> Advice | str:
    """The advice; or why a prediction or a run says that it is none; `runs`: seconds as it is, and changed."""
    before_s, (as_is_s, changed_s) = report.predictions[0].time_s, runs
    text = change.text[0].lower() + change.text[1:]
    if after is None or as_is_s is None or changed_s is None:
        return f"{change.rule}: {text}: it was not run"
    predicted = f"predicted {duration(after.time_s)} instead of {duration(before_s)}"
    if after.time_s >= (1 - WORTH) * before_s:
        return f"{change.rule}: {text}: {predicted}"
    run = f"takes {duration(changed_s)} instead of {duration(as_is_s)}"
    if changed_s >= (1 - WORTH) * as_is_s:
        return f"{change.rule}: {text}: {predicted}, but run here it {run}"
    ran_s = before_s * changed_s / as_is_s
    slower, faster = sorted((after.time_s, ran_s), reverse=True)
    effort: Effort = "setting"
    return Advice(
        rule=change.rule,
        change=change.text,
        evidence=(*change.evidence, f"run here, the function compiled so {run}"),
        before_s=before_s,
        after_s=after.time_s,
        gain_low_s=before_s - slower,
        gain_high_s=before_s - faster,
        effort=effort,
        price=change.price,
        code=f'--cflags "… {" ".join(change.more)}"',
        page=PAGE + change.rule,
    )
