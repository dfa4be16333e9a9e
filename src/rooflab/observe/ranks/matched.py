"""The collectives of several ranks matched: by group and sequence number, else by their order."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rooflab.observe.ranks.seen import Seen

# They end on all ranks at once, so that who was in one shortest came last. Others have a root, or two ranks alone.
_TOGETHER = frozenset({"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier"})

Key = tuple[str, str, int | None]  # kind, group, size


class Match(NamedTuple):
    """Collectives of one kind and group: for each rank its place among the ranks, and the numbers of its own."""

    places: list[tuple[int, NDArray[np.int64]]]


class Matches(NamedTuple):
    """What was matched.

    Attributes:
        matches: by kind and group.
        lost: kernels of collectives without a counterpart.
        rooted: kernels that are not matched, for they do not end together.
        grouped: whether the files say between which ranks each is.
    """

    matches: list[Match]
    lost: int
    rooted: int
    grouped: bool


def matched(seen: list[Seen]) -> Matches:
    """The collectives that are the same on several ranks."""
    groups: dict[Key, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    rooted = 0
    for rank, one in enumerate(seen):
        for at, told in enumerate(one.told):
            if told.name in _TOGETHER:
                groups[told.name, told.group, told.size][rank].append(at)
            else:
                rooted += 1
    matches, lost = [], 0
    for (_, _, size), ranks in groups.items():
        several = _several(seen, ranks, size)
        matches += several
        lost += sum(map(len, ranks.values())) - sum(len(at) for match in several for _, at in match.places)
    return Matches(matches, lost, rooted, grouped=all(group or size for _, group, size in groups))


def _several(seen: list[Seen], ranks: dict[int, list[int]], size: int | None) -> list[Match]:
    """What `ranks` did of one kind in one group: by sequence number where all have one, else by order."""
    # More ranks than the group has: several groups of one name, and which rank is in which is not recorded.
    if len(ranks) < 2 or (size is not None and len(ranks) > size):
        return []
    tokens = {rank: [_token(seen[rank], at) for at in places] for rank, places in ranks.items()}
    if all(number is not None for several in tokens.values() for number, *_ in several):
        return _by_sequence(ranks, tokens)
    # Without numbers: as many, of the same sizes, in the same order.
    first = next(iter(tokens.values()))
    if any(several != first for several in tokens.values()):
        return []
    return [Match([(rank, np.array(places)) for rank, places in ranks.items()])]


_Token = tuple[int | None, int | None, str]


def _token(seen: Seen, at: int) -> _Token:
    told = seen.told[at]
    return told.sequence, told.elements if told.name == "all_reduce" else None, told.dtype


def _by_sequence(ranks: dict[int, list[int]], tokens: dict[int, list[_Token]]) -> list[Match]:
    """Those that all ranks have under the same number, as often."""
    by_number: dict[int, dict[_Token, list[int]]] = {}
    for rank, places in ranks.items():
        found: dict[_Token, list[int]] = defaultdict(list)
        for at, token in zip(places, tokens[rank], strict=True):
            found[token].append(at)
        by_number[rank] = found
    shared = set.intersection(*(set(found) for found in by_number.values()))
    chosen: dict[int, list[int]] = {rank: [] for rank in ranks}
    for token in sorted(shared, key=str):
        if len({len(found[token]) for found in by_number.values()}) == 1:
            for rank, found in by_number.items():
                chosen[rank] += found[token]
    if not chosen[next(iter(ranks))]:
        return []
    return [Match([(rank, np.array(places)) for rank, places in chosen.items()])]
