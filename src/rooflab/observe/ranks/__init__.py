"""Many ranks at once: their collectives matched, what each waited for, which one came last."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rooflab.observe.ranks.clocks import apart, zeros_of
from rooflab.observe.ranks.matched import Match, Matches, matched
from rooflab.observe.ranks.seen import Seen
from rooflab.types.ranks import Ranks, RankTime
from rooflab.units import duration

_NO_GROUP = (
    "the files do not say between which ranks collectives are, and taken as between all they do not end at once: "
    "they are not matched"
)
# How far ends of one collective may differ: what the kernels of a ring leave each other by, and clocks' ticks.
_APART_S, _APART = 20e-6, 0.1
_LEAST = 3  # collectives, to tell that they end at once


def ranks_of(seen: list[Seen]) -> Ranks | None:
    """The ranks of one run; None where the traces are not of several ranks of one.

    Ranks are those that the traces name. Where they name none, traces whose collectives all match and end at once
    are taken for ranks in the order of files.
    """
    named = {one.rank for one in seen}
    if len(seen) < 2 or (None in named and len(named) > 1):
        return None
    if named == {None}:
        found = matched(seen)
        if not found.matches or found.lost or not _at_once(seen, found):
            return None
        return _told(seen, found, ("the files name no ranks: they are numbered in the order given",))
    if len(named) < len(seen) or len({one.size for one in seen}) > 1:
        return None
    seen = sorted(seen, key=lambda one: one.rank or 0)
    found = matched(seen)
    if found.grouped or _at_once(seen, found):
        return _told(seen, found, ())
    lost = found.lost + sum(len(at) for match in found.matches for _, at in match.places)
    return _told(seen, Matches([], lost, found.rooted, grouped=False), (_NO_GROUP,))


def _at_once(seen: list[Seen], found: Matches) -> bool:
    """Whether what was matched ends on its ranks as one collective does."""
    return all(
        len(match.places[0][1]) >= _LEAST
        and np.median(apart(seen, match)) <= max(_APART_S, _APART * np.median(_durations(seen, match)))
        for match in found.matches
    )


def _durations(seen: list[Seen], match: Match) -> NDArray[np.float64]:
    return np.stack([seen[rank].duration_s[at] for rank, at in match.places])


class Waiting:
    """What each rank waited, and was waited for, summed over collectives."""

    def __init__(self, ranks: int) -> None:
        self.waited_s, self.exposed_s, self.awaited_s = np.zeros(ranks), np.zeros(ranks), np.zeros(ranks)
        self.matched, self.last = np.zeros(ranks, int), np.zeros(ranks, int)

    def add(self, match: Match, seen: list[Seen]) -> None:
        """Add the collectives of `match`, which end on all ranks at once: who came last was in it shortest."""
        durations = _durations(seen, match)
        waits = durations - durations.min(axis=0)
        last = durations.argmin(axis=0)
        others = len(match.places) - 1
        for place, (rank, at) in enumerate(match.places):
            start = seen[rank].start_s[at]
            self.waited_s[rank] += waits[place].sum()
            beside = seen[rank].computing_within(at, start, start + waits[place])
            self.exposed_s[rank] += (waits[place] - beside).sum()
            mine = last == place
            self.last[rank] += np.count_nonzero(mine)
            self.awaited_s[rank] += waits[:, mine].sum() / others
            self.matched[rank] += len(at)


def _told(seen: list[Seen], found: Matches, notes: tuple[str, ...]) -> Ranks:
    waiting = Waiting(len(seen))
    for match in found.matches:
        waiting.add(match, seen)
    zeros = zeros_of(seen, found.matches)
    rows = [
        RankTime(
            rank=at if one.rank is None else one.rank,
            name=one.name,
            span_s=one.span_s,
            busy_s=one.busy_s,
            compute_s=one.compute_s,
            exposed_collective_s=one.exposed_collective_s,
            exposed_copy_s=one.exposed_copy_s,
            idle_s=one.span_s - one.busy_s,
            waited_s=float(waiting.waited_s[at]) if waiting.matched[at] else None,
            exposed_waited_s=float(waiting.exposed_s[at]) if waiting.matched[at] else None,
            last=int(waiting.last[at]),
            awaited_s=float(waiting.awaited_s[at]),
            zero_s=zeros[at],
        )
        for at, one in enumerate(seen)
    ]
    every = np.concatenate([np.empty(0), *(apart(seen, match) for match in found.matches)])
    apart_s = float(np.median(every)) if len(every) > 1 else None
    steps = {one.steps for one in seen}
    return Ranks(
        ranks=tuple(rows),
        size=seen[0].size,
        collectives=len(every),
        unmatched=found.lost + found.rooted,
        steps=steps.pop() if len(steps) == 1 else None,
        ends_apart_s=apart_s,
        warnings=_doubts(rows, len(every), apart_s),
        notes=(*notes, *_said(seen, found)),
    )


def _doubts(rows: list[RankTime], collectives: int, apart_s: float | None) -> tuple[str, ...]:
    """Why the waiting may not be believed."""
    waited_s = max((one.waited_s or 0.0 for one in rows), default=0.0)
    if apart_s is None or apart_s <= _APART_S or apart_s * collectives <= waited_s / 2:
        return ()
    return (
        f"ends of collectives differ by {duration(apart_s)} between ranks, clocks being aligned: what ranks "
        "waited is no more certain than that; are the files of one run?",
    )


def _said(seen: list[Seen], found: Matches) -> list[str]:
    """What was assumed, and what was left out."""
    notes = []
    size = seen[0].size
    if size is not None and size > len(seen):
        notes.append(f"files of {len(seen)} of the run's {size} ranks: who came last is the last of these")
    if found.rooted:
        notes.append(
            f"{found.rooted} transfers with a root or between two ranks are not matched: they do not end on all "
            "ranks at once"
        )
    if found.lost:
        notes.append(f"{found.lost} kernels of collectives have no counterpart that is certain, and are left out")
    if found.matches:
        notes.append("clocks of ranks differ: a collective is taken to end on all of its ranks at once")
    else:
        notes.append("no collectives were matched across ranks: who waited for whom is not known")
    return notes
