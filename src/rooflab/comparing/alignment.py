"""Two sequences of operations laid side by side: which is which, in order, and what stands between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

import numpy as np

_MOST_CELLS = 16_000_000  # of an exact table of scores: 64 MB, about a second


class Block(NamedTuple):
    """Places of both sequences that stand for each other: one of each where matched, else what is between."""

    base: tuple[int, ...]
    other: tuple[int, ...]


def aligned(
    base: Sequence[Hashable], other: Sequence[Hashable], score: Callable[[int, int], float]
) -> list[tuple[int, int]]:
    """Pairs of places, both rising, whose scores add up to most.

    Equal keys at both ends are taken first, then those that occur once in each (in the longest run of rising
    order), then what is between is laid out exactly. Where that is too large, it is cut in equal parts.

    Args:
        base, other: a key for each element; equal keys are the same operation.
        score: of a pair of places: how well they fit, 0 for not at all.
    """
    pairs: list[tuple[int, int]] = []
    waiting = [(0, len(base), 0, len(other))]
    while waiting:
        b0, b1, o0, o1 = waiting.pop()
        while b0 < b1 and o0 < o1 and base[b0] == other[o0]:
            pairs.append((b0, o0))
            b0, o0 = b0 + 1, o0 + 1
        while b0 < b1 and o0 < o1 and base[b1 - 1] == other[o1 - 1]:
            b1, o1 = b1 - 1, o1 - 1
            pairs.append((b1, o1))
        if b0 == b1 or o0 == o1:
            continue
        anchors = _anchors(base[b0:b1], other[o0:o1])
        if anchors:
            begin_b, begin_o = b0, o0
            for at, to in anchors:
                pairs.append((b0 + at, o0 + to))
                waiting.append((begin_b, b0 + at, begin_o, o0 + to))
                begin_b, begin_o = b0 + at + 1, o0 + to + 1
            waiting.append((begin_b, b1, begin_o, o1))
            continue
        parts = max(1, round(((b1 - b0) * (o1 - o0) / _MOST_CELLS) ** 0.5 + 0.5))
        for part in range(parts):
            rows = range(b0 + (b1 - b0) * part // parts, b0 + (b1 - b0) * (part + 1) // parts)
            columns = range(o0 + (o1 - o0) * part // parts, o0 + (o1 - o0) * (part + 1) // parts)
            pairs += _best(rows, columns, base, other, score)
    return sorted(pairs)


def blocks(pairs: Sequence[tuple[int, int]], base: int, other: int) -> list[Block]:
    """Each pair as a block, and what lies between pairs as one, in order; `base` and `other` are the lengths."""
    found: list[Block] = []
    begin_b = begin_o = 0
    for at, to in (*pairs, (base, other)):
        if begin_b < at or begin_o < to:
            found.append(Block(tuple(range(begin_b, at)), tuple(range(begin_o, to))))
        if at < base and to < other:
            found.append(Block((at,), (to,)))
        begin_b, begin_o = at + 1, to + 1
    return found


def _anchors(base: Sequence[Hashable], other: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Places of keys that occur once in each, in the longest run that rises in both."""
    in_base, in_other = Counter(base), Counter(other)
    where = {key: place for place, key in enumerate(other) if in_other[key] == 1}
    met = [(at, where[key]) for at, key in enumerate(base) if in_base[key] == 1 and key in where]
    # Patience: `tops` are the ends of the best runs by length, `before` leads back along one.
    tops: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for number, (_, to) in enumerate(met):
        length = int(np.searchsorted(ends, to)) if ends else 0
        before.append(tops[length - 1] if length else -1)
        ends[length : length + 1] = [to]
        tops[length : length + 1] = [number]
    run: list[tuple[int, int]] = []
    at = tops[-1] if tops else -1
    while at >= 0:
        run.append(met[at])
        at = before[at]
    return run[::-1]


def _best(
    rows: range,
    columns: range,
    base: Sequence[Hashable],
    other: Sequence[Hashable],
    score: Callable[[int, int], float],
) -> list[tuple[int, int]]:
    """The pairs of `rows` and `columns`, both rising, whose scores add up to most: an exact table."""
    # Alike elements are scored once: programs repeat their blocks.
    kinds_b, kinds_o = _kinds([base[at] for at in rows]), _kinds([other[to] for to in columns])
    table = np.array(
        [[score(rows[at], columns[to]) for to in kinds_o.first] for at in kinds_b.first], np.float32
    ).reshape(len(kinds_b.first), len(kinds_o.first))
    scores = table[:, kinds_o.number]
    best = np.zeros((len(rows) + 1, len(columns) + 1), np.float32)
    for at, kind in enumerate(kinds_b.number.tolist()):
        taken = np.where(scores[kind] > 0, best[at, :-1] + scores[kind], 0.0)
        best[at + 1, 1:] = np.maximum.accumulate(np.maximum(best[at, 1:], taken))
    pairs = []
    at, to = len(rows), len(columns)
    while at and to:
        if best[at, to] == best[at, to - 1]:
            to -= 1
        elif best[at, to] == best[at - 1, to]:
            at -= 1
        else:
            at, to = at - 1, to - 1
            pairs.append((rows[at], columns[to]))
    return pairs


class _Kinds(NamedTuple):
    """Distinct keys: where each comes first, and the number of each element's."""

    first: list[int]
    number: np.ndarray


def _kinds(keys: Sequence[Hashable]) -> _Kinds:
    numbers: dict[Hashable, int] = {}
    first, number = [], []
    for place, key in enumerate(keys):
        if key not in numbers:
            numbers[key] = len(numbers)
            first.append(place)
        number.append(numbers[key])
    return _Kinds(first, np.array(number, int))
