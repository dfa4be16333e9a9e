"""What is shown of the ranks of one run: whom they waited for, and the time of each."""

from __future__ import annotations

from rooflab.types.ranks import Ranks
from rooflab.units import duration, percent
from rooflab.views.common.table import Table, lasting, without_empty

_MOSTLY = 0.5  # of all waiting, from where it is one rank's
_IN_STEP = 0.01  # of the ranks' time that they may wait and still be said to be in step
_ALIKE = 0.02  # of the mean that computing may differ by


def sentences(ranks: Ranks) -> list[str]:
    """The verdict: for whom the ranks waited, how long, and whether one computes longer."""
    return [line for line in (_waited(ranks), _computed(ranks)) if line]


def _waited(ranks: Ranks) -> str:
    waits = [one.waited_s for one in ranks.ranks if one.waited_s is not None]
    slow = ranks.straggler
    if not waits or slow is None:
        return ""
    spans = sum(one.span_s for one in ranks.ranks)
    if sum(waits) <= _IN_STEP * spans:
        return f"The ranks are in step: they waited {percent(sum(waits) / spans, 1)} of their time for each other."
    all_s = sum(one.awaited_s for one in ranks.ranks)
    share = slow.awaited_s / all_s
    last = f"it came last to {slow.last} of {ranks.collectives} collectives"
    if share >= _MOSTLY:
        others = "The other rank" if len(ranks.ranks) == 2 else "All other ranks"
        return f"{others} waited {_a_step(ranks, slow.awaited_s)} for rank {slow.rank}: {last}."
    waited, of_it = _a_step(ranks, all_s), percent(share)
    return f"The ranks waited {waited} for each other, {of_it} of it for rank {slow.rank}: {last}."


def _a_step(ranks: Ranks, seconds: float) -> str:
    return f"{duration(seconds / ranks.steps)} a step" if ranks.steps else f"{duration(seconds)} of the run"


def _computed(ranks: Ranks) -> str:
    imbalance = ranks.imbalance
    if imbalance is None:
        return ""
    most = max(ranks.ranks, key=lambda one: one.compute_s)
    if imbalance <= _ALIKE:
        return f"They compute alike: the most, rank {most.rank}, {percent(imbalance, 1)} longer than the mean."
    return f"Rank {most.rank} computes longest, {percent(imbalance, 1)} longer than the mean."


def table(ranks: Ranks) -> Table:
    """A line for each rank."""
    rows = [
        (
            str(one.rank),
            one.name,
            duration(one.span_s),
            duration(one.busy_s),
            duration(one.compute_s),
            duration(one.exposed_collective_s),
            duration(one.exposed_copy_s),
            duration(one.idle_s),
            lasting(one.waited_s),
            lasting(one.exposed_waited_s),
            str(one.last),
            duration(one.awaited_s),
        )
        for one in ranks.ranks
    ]
    columns = (
        "rank",
        "file",
        "time",
        "busy",
        "computes",
        "collectives alone",
        "copies alone",
        "idle",
        "waited",
        "waited alone",
        "came last",
        "others waited for it",
    )
    note = "Waited: in collectives, until the last rank had come; alone: beside nothing that computes."
    if ranks.ends_apart_s is not None:
        note += f" Ends of collectives differ by {duration(ranks.ends_apart_s)} (median), the error of each."
    return without_empty("Ranks", columns, rows, words=2, note=note)
