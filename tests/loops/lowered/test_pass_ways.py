"""Ways of single passes: blocks run as often as branches go to them, in passes that are walked through."""

from __future__ import annotations

import pytest

from rooflab.loops.lowered import pass_ways
from rooflab.types.loop_code import TURNS


def share(turns: int) -> float:
    return turns.bit_count() / TURNS


def test_a_block_runs_in_the_share_of_passes_in_which_its_branch_goes_there():
    ways = {"head": [("then", 300), ("end", 700)], "then": [("end", 300)], "end": [("head", 999)]}
    head, then, end = pass_ways.turns_of(["head", "then", "end"], "head", frozenset(ways), ways)
    assert (share(head), share(end)) == (1.0, 1.0)
    assert share(then) == pytest.approx(0.3, abs=0.05)


def test_of_two_ways_a_pass_takes_one():
    ways = {"head": [("one", 5), ("other", 5)], "one": [("end", 5)], "other": [("end", 5)], "end": [("head", 10)]}
    _, one, other, _ = pass_ways.turns_of(["head", "one", "other", "end"], "head", frozenset(ways), ways)
    assert one & other == 0
    assert (one | other).bit_count() == TURNS


def test_two_branches_of_one_share_are_taken_apart():
    ways = {
        "head": [("a", 5), ("mid", 5)], "a": [("mid", 5)], "mid": [("b", 5), ("end", 5)], "b": [("end", 5)],
        "end": [("head", 10)],
    }  # fmt: skip
    a, b = pass_ways.turns_of(["a", "b"], "head", frozenset(ways), ways)
    assert share(a & b) == pytest.approx(0.25, abs=0.1)


def test_a_pass_that_leaves_the_loop_is_walked_as_those_that_go_on():
    ways = {"head": [("then", 9), ("out", 1)], "then": [("head", 9)]}
    assert pass_ways.turns_of(["then"], "head", frozenset(ways), ways) == (2**TURNS - 1,)
