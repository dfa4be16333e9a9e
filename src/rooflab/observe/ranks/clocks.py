"""Clocks of ranks held against each other by the ends of their collectives, which all ranks reach at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rooflab.observe.ranks.matched import Match
from rooflab.observe.ranks.seen import Seen

Array = NDArray[np.float64]

_LEAST = 8  # collectives, to tell a clock that runs faster from one that is off


def zeros_of(seen: list[Seen], matches: list[Match]) -> list[float | None]:
    """What each rank's trace calls 0, on the clock of the first; None for one that shares nothing."""
    zeros: list[float | None] = [None] * len(seen)
    zeros[0] = 0.0
    ends = [{rank: seen[rank].end_s(at) for rank, at in match.places} for match in matches]
    found = True
    while found:
        found = False
        for rank, zero in enumerate(zeros):
            shared = [
                one[other] + known - one[rank]
                for one in ends
                if zero is None and rank in one
                for other, known in enumerate(zeros)
                if known is not None and other in one
            ]
            if shared:
                zeros[rank], found = float(np.median(np.concatenate(shared))), True
    return zeros


def apart(seen: list[Seen], match: Match) -> Array:
    """For each collective of `match` by how much its ends differ between ranks, clocks being aligned."""
    (first, at), *others = match.places
    reference = seen[first].end_s(at)
    rest = [np.zeros(len(at))]
    for rank, mine in others:
        off = seen[rank].end_s(mine) - reference
        rest.append(off - _line(reference, off))
    return np.ptp(np.stack(rest), axis=0)


def _line(times: Array, off: Array) -> Array:
    """How far a clock is off at `times`: the median, and what it gains between the halves."""
    middle = float(np.median(off))
    if len(times) < _LEAST:
        return np.full(len(times), middle)
    order = np.argsort(times, kind="stable")
    early, late = order[: len(order) // 2], order[len(order) // 2 :]
    long = float(np.median(times[late]) - np.median(times[early]))
    gain = float(np.median(off[late]) - np.median(off[early])) / long if long > 0 else 0.0
    return middle + gain * (times - float(np.median(times)))
