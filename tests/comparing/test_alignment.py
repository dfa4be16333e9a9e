"""Two sequences laid side by side: exact where small, ends and single keys first, everything exactly once."""

from __future__ import annotations

import random

import pytest

from rooflab.comparing import alignment
from rooflab.comparing.alignment import Block, aligned, blocks


def same(base, other):
    return lambda b, o: 1.0 if base[b] == other[o] else 0.0


@pytest.mark.parametrize(
    ("base", "other", "pairs"),
    [
        ("abc", "abc", [(0, 0), (1, 1), (2, 2)]),
        ("abc", "abxc", [(0, 0), (1, 1), (2, 3)]),  # one put in
        ("abxc", "abc", [(0, 0), (1, 1), (3, 2)]),  # one taken out
        ("aaab", "ab", [(0, 0), (3, 1)]),  # equal ones: the first stays the first
        ("abc", "xyz", []),
        ("", "abc", []),
        ("ab", "ba", [(1, 0)]),  # only one of two that swapped places can rise in both
    ],
)
def test_small_sequences(base, other, pairs):
    found = aligned(base, other, same(base, other))
    assert len(found) == len(pairs)
    if (base, other) != ("ab", "ba"):
        assert found == pairs


def longest_common(base, other):
    """The textbook table, cell by cell."""
    best = [[0] * (len(other) + 1) for _ in range(len(base) + 1)]
    for at, one in enumerate(base):
        for to, two in enumerate(other):
            best[at + 1][to + 1] = best[at][to] + 1 if one == two else max(best[at][to + 1], best[at + 1][to])
    return best[-1][-1]


def test_without_single_keys_as_many_match_as_can():
    rng = random.Random(1)
    for _ in range(40):
        # Two letters, each several times: no key occurs once, so all is in the exact table but equal ends.
        base = "".join(rng.choice("ab") for _ in range(rng.randint(6, 20)))
        other = "".join(rng.choice("ab") for _ in range(rng.randint(6, 20)))
        found = aligned(base, other, same(base, other))
        assert all(base[b] == other[o] for b, o in found)
        assert len(found) == longest_common(base, other)


def test_pairs_rise_and_blocks_hold_each_place_once():
    rng = random.Random(2)
    base = [rng.randint(0, 60) for _ in range(300)]
    other = [key for key in base if rng.random() > 0.2]
    for _ in range(30):
        other.insert(rng.randrange(len(other)), rng.randint(0, 80))
    found = aligned(base, other, same(base, other))
    assert found == sorted(found)
    assert len({b for b, _ in found}) == len({o for _, o in found}) == len(found)
    laid = blocks(found, len(base), len(other))
    assert [b for block in laid for b in block.base] == list(range(len(base)))
    assert [o for block in laid for o in block.other] == list(range(len(other)))


def test_a_weak_pair_is_taken_where_nothing_better_is():
    scores = {("a", "b"): 2.0}
    base, other = "xay", "xby"
    assert aligned(base, other, lambda b, o: scores.get((base[b], other[o]), 0.0)) == [(0, 0), (1, 1), (2, 2)]


def test_blocks_between_pairs():
    assert blocks([(1, 1)], 3, 2) == [Block((0,), (0,)), Block((1,), (1,)), Block((2,), ())]


def test_what_is_too_large_is_cut_and_still_laid(monkeypatch):
    monkeypatch.setattr(alignment, "_MOST_CELLS", 100)
    base, other = "ab" * 40, "ba" * 40
    found = aligned(base, other, same(base, other))
    assert len(found) >= 60
    assert found == sorted(found)
