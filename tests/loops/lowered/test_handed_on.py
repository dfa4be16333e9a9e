"""Loops that go on with what the other has stored, against the store that each waits for."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from rooflab.loops.lowered import core_loops, handed_on
from rooflab.loops.lowered.ir_text import Instruction

LOAD, STORE = "  %x = load double, ptr %p, align 8", "  store double %y, ptr %p, align 8"
OTHER = "  store double %v, ptr %q, align 8"
ITS_LOAD = "  %u = load double, ptr %q, align 8"


def instruction(text, result=""):
    opcode = "load" if "load" in text else "store"
    return Instruction(text, result, opcode, -1)


def held():
    return [[instruction(LOAD, "%x"), instruction(STORE)]]


def function():
    return [instruction(LOAD, "%x"), instruction(ITS_LOAD, "%u")]


def test_a_store_of_the_loop_itself_is_its_link():
    (link,) = handed_on.links({"%x": (STORE, 1.0, 2.0)}, held(), {}, 0.5)
    assert (link.store, link.load, link.passes) == (STORE, "%x", 2)


def test_loops_that_take_turns_wait_as_for_their_own_store():
    # %x finds what the other stored a pass before, %u of the other what this one stored in the same pass
    forwarded = {"%x": (OTHER, 1.0, 1.0), "%u": (STORE, 1.0, 0.0)}
    link = next(each for each in handed_on.links(forwarded, held(), {}, 0.5, function()) if each.load == "%x")
    assert (link.store, link.passes) == (STORE, 1)


@pytest.mark.parametrize(
    "forwarded",
    [
        {"%x": (OTHER, 1.0, 1.0)},  # nobody goes on with what this loop stores
        {"%x": (OTHER, 1.0, 1.0), "%u": (STORE, 0.1, 0.0)},  # or seldom
        {"%x": (OTHER, 1.0, 1.0), "%z": (STORE, 1.0, 0.0)},  # or one that is not where %x comes from
    ],
)
def test_what_does_not_come_back_is_no_wait_of_the_loop(forwarded):
    link = next(each for each in handed_on.links(forwarded, held(), {}, 0.5, function()) if each.load == "%x")
    assert link.store == OTHER


def test_three_loops_in_turn_wait_round_all_of_them():
    third, its = "  store double %t, ptr %r, align 8", "  %w = load double, ptr %r, align 8"
    forwarded = {"%x": (OTHER, 1.0, 1.0), "%u": (third, 1.0, 2.0), "%w": (STORE, 1.0, 3.0)}
    every = [*function(), instruction(its, "%w")]
    link = next(each for each in handed_on.links(forwarded, held(), {}, 0.5, every) if each.load == "%x")
    assert (link.store, link.passes) == (STORE, 6)


@pytest.mark.slow
def test_a_loop_does_not_wait_for_itself_through_one_that_writes_anew():
    def in_a_line(a, b):
        for i in range(len(a)):
            for j in range(a.shape[1]):
                a[i, j] = b[j]
            for j in range(a.shape[1]):
                a[i, j] = a[i, j] / b[j]
            for j in range(a.shape[1]):
                a[i, j] += b[i]

    found = core_loops.found_in(numba.njit(in_a_line), (np.ones((300, 5)), np.ones(300)))
    inner = [each for each in found if each.innermost and each.passes >= 1000]
    assert inner
    for loop in inner:
        assert not any(kind.startswith("store forward") for kind in loop.chain), loop.chain


@pytest.mark.slow
def test_two_loops_over_one_row_wait_for_each_other():
    def in_turns(row, by, times):
        for _ in range(times):
            for j in range(len(row)):
                row[j] += by[j]
            for j in range(len(row)):
                row[j] *= by[j]

    found = core_loops.found_in(numba.njit(in_turns), (np.ones(32), np.ones(32), 1000))
    inner = [each for each in found if each.innermost and each.passes >= 1000]
    assert len(inner) == 2
    for loop in inner:
        assert any(kind.startswith("store forward") for kind in loop.chain), loop.chain
