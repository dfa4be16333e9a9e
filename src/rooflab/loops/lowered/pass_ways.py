"""Ways of single passes through a loop whose passes run different blocks: as often as in the run, each walked.

Each branch goes either way in the share of its runs in which it did, evenly spread over the passes and apart from
the other branches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from rooflab.types.loop_code import TURNS

_MOST_BLOCKS = 1000  # of a pass: a walk through no innermost loop would not end
_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)  # whose roots spread each branch's turns in their own way

Ways = Mapping[str, Sequence[tuple[str, float]]]  # where each block leads to, and how often


def turns_of(labels: Sequence[str], head: str, inside: frozenset[str], ways: Ways) -> tuple[int, ...]:
    """Of each of the blocks `labels` in which of `TURNS` passes it runs: a bit each, the first pass the lowest.

    Args:
        labels: of blocks.
        head: of the loop, in which each pass begins.
        inside: all of its blocks.
        ways: of each, where it leads to and how often.
    """
    found = dict.fromkeys(labels, 0)
    branches: dict[str, Callable[[], float]] = {}
    for turn in range(TURNS):
        at = head
        for _ in range(_MOST_BLOCKS):
            if at in found:
                found[at] |= 1 << turn
            on = [(to, count) for to, count in ways.get(at, ()) if to in inside and to != head and count > 0]
            if not on:
                break
            at = on[0][0] if len(on) == 1 else _chosen(on, branches.setdefault(at, _spread(len(branches)))())
    return tuple(found[each] for each in labels)


def _spread(number: int) -> Callable[[], float]:
    """Numbers from 0 to 1 that fill it evenly, as multiples of a root do; each `number` in its own way."""
    step, state = math.sqrt(_PRIMES[number % len(_PRIMES)]), [0]

    def following() -> float:
        state[0] += 1
        return state[0] * step % 1.0

    return following


def _chosen(on: Sequence[tuple[str, float]], place: float) -> str:
    """The way at that `place` of all, from 0 to 1."""
    left = place * sum(count for _, count in on)
    for to, count in on:
        if left < count:
            return to
        left -= count
    return on[-1][0]
