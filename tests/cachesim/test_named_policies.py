"""Policies that have a name of their own, beside the plain rule that their papers give."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rooflab.cachesim.level import hierarchy
from rooflab.cachesim.run import replay
from rooflab.types.simulation import Cache

WAYS = 4


def srrip(ages: list[int], way: int | None) -> int:
    """Age after use of `way`, a hit, or the way that a miss fills: two bits, hit priority."""
    if way is not None:
        ages[way] = 0
        return way
    while 3 not in ages:
        ages[:] = [age + 1 for age in ages]
    victim = ages.index(3)
    ages[victim] = 2
    return victim


def nru(unused: list[int], way: int | None) -> int:
    """The same of one bit a way: the first that was not used since all others were."""
    victim = unused.index(3) if way is None else way
    unused[victim] = 0
    if 3 not in unused:
        unused[:] = [3] * len(unused)
        unused[victim] = 0
    return victim


def misses(rule, lines, sets):
    held = [[None] * WAYS for _ in range(sets)]
    state = [[3] * WAYS for _ in range(sets)]
    missed = 0
    for line in lines:
        place, own = line % sets, held[line % sets]
        hit = line in own
        missed += not hit
        # a set that is not full takes its first empty way, which is as old as can be
        own[rule(state[place], own.index(line) if hit else None)] = line
    return missed


@pytest.mark.slow
@pytest.mark.parametrize(("policy", "rule"), [("srrip", srrip), ("nru", nru)])
@given(lines=st.lists(st.integers(0, 13), min_size=1, max_size=200), sets=st.sampled_from([1, 2, 3]))
@settings(max_examples=200)
def test_a_named_policy_gives_up_what_its_rule_says(policy, rule, lines, sets):
    built = hierarchy.build([Cache(sets * WAYS * 64, WAYS, policy=policy)])
    addresses = np.array(lines, np.int64) * 64
    same = np.zeros(len(lines), np.int64)
    replay.replay(built.address, same, addresses, same + 8, same)
    assert built.result("lines").levels[0].misses == misses(rule, lines, sets)


def test_a_named_policy_is_kept_as_what_it_is():
    assert Cache(1024, 4, policy="srrip") == Cache(1024, 4, policy="qlru_h00_m2_r0_u0_umo")
