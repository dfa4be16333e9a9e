"""All rules about profiles, and what they give: measured times less what goes, ranked by what that saves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from rooflab.remedies import PAGE, WORTH
from rooflab.remedies.profiles import kernels, waiting
from rooflab.remedies.profiles.case import Change, Unasked
from rooflab.remedies.profiles.words import WORDS
from rooflab.types.advice import Advice, Advices
from rooflab.types.profile import Profile


class Rule(NamedTuple):
    """A rule: its name (`Advice.rule`), the regime that it is a remedy for, and what asks a profile."""

    name: str
    regime: str
    ask: Callable[[Profile], Iterator[Change | Unasked]]

    @property
    def price(self) -> bool:
        """Whether what it tells to do has a price."""
        return WORDS[self.name].price != "nothing"


# Of the whole run: each takes out time in which the device does nothing else, so that these add up.
WAITING: tuple[Rule, ...] = (
    Rule("graph", "overhead-bound", waiting.launches),
    Rule("synchronise-less", "overhead-bound", waiting.synchronisation),
    Rule("prefetch-data", "overhead-bound", waiting.loader),
    Rule("overlap-copies", "transfers", waiting.copies),
    Rule("overlap-collectives", "transfers", waiting.collectives),
)
KERNELS: tuple[Rule, ...] = (
    Rule("coalesce", "memory-bound", kernels.coalesce),
    Rule("bank-conflicts", "memory-bound", kernels.bank_conflicts),
    Rule("tile-kernel", "memory-bound", kernels.amplification),
    Rule("occupancy", "latency", kernels.occupancy),
    Rule("tensor-cores", "compute-bound", kernels.tensor_cores),
)
RULES = (*WAITING, *KERNELS)


def advise(profile: Profile) -> Advices:
    """What would help the run that `profile` is of."""
    device = waiting.busiest(profile)
    before_s = profile.time_s if device is None else device.span_s
    if not before_s:
        return Advices(unasked=("all: no measured time",))
    found: list[Change] = []
    unasked = []
    for rule in RULES:
        for change in rule.ask(profile):
            if isinstance(change, Unasked):
                unasked.append(f"{change.rule}: {change.reason}")
            elif change.saving.best_s >= WORTH * before_s:
                found.append(change)
    if profile.machine is None:
        unasked.append("kernels: no machine is known, so no roofs to put them under; give --machine")
    elif not any(row.counted is not None for row in profile.rows):
        unasked.append("kernels: it has no counters; Nsight Compute or rocprof count accesses, conflicts, warps")
    found.sort(key=lambda change: -change.saving.best_s)
    gaps = [change for change in found if change.rule in {rule.name for rule in WAITING}]
    together_s = None
    if len(gaps) > 1 and device is not None:
        longest = max(device.compute_s, device.copy_s, device.collective_s)
        together_s = max(longest, before_s - sum(change.saving.best_s for change in gaps))
    return Advices(
        each=tuple(_advice(change, before_s) for change in found if WORDS[change.rule].price == "nothing"),
        trades=tuple(_advice(change, before_s) for change in found if WORDS[change.rule].price != "nothing"),
        together=tuple(change.rule for change in gaps) if together_s is not None else (),
        together_s=together_s,
        unasked=tuple(unasked),
    )


def _advice(change: Change, before_s: float) -> Advice:
    saving, words = change.saving, WORDS[change.rule]
    return Advice(
        rule=change.rule,
        change=words.change,
        evidence=change.evidence,
        rows=change.rows,
        before_s=before_s,
        after_s=before_s - saving.best_s,
        gain_low_s=saving.low_s,
        gain_high_s=saving.high_s,
        effort=words.effort,
        price=words.price,
        code=words.code,
        page=PAGE + change.rule,
    )
