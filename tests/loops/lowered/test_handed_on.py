"""Loops that go on with what the other has stored, against the store that each waits for."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from rooflab.loops.lowered import core_loops, handed_on
from rooflab.loops.lowered.ir_text import Instruction

LOAD, STORE = "  %x = load double, ptr %p, align 8", "  store double %y, ptr %p, align 8"
OTHER = "  store double %v, ptr %q, align 8"


def instruction(text, result=""):
    opcode = "load" if "load" in text else "store"
    return Instruction(text, result, opcode, -1)


def held():
    return [[instruction(LOAD, "%x"), instruction(STORE)]]


def test_a_store_of_the_loop_itself_is_its_link():
    (link,) = handed_on.links({"%x": (STORE, 1.0, 2.0)}, held(), {}, 0.5)
    assert (link.store, link.load, link.passes) == (STORE, "%x", 2)


def test_loops_that_take_turns_wait_as_for_their_own_store():
    # %x finds what the other stored a pass before, %u of the other what this one stored in the same pass
    forwarded = {"%x": (OTHER, 1.0, 1.0), "%u": (STORE, 1.0, 0.0)}
    link = next(each for each in handed_on.links(forwarded, held(), {}, 0.5) if each.load == "%x")
    assert (link.store, link.passes) == (STORE, 1)


@pytest.mark.parametrize(
    "forwarded",
    [
        {"%x": (OTHER, 1.0, 1.0)},  # nobody goes on with what this loop stores
        {"%x": (OTHER, 1.0, 1.0), "%u": (STORE, 0.1, 0.0)},  # or seldom
    ],
)
def test_what_does_not_come_back_is_no_wait_of_the_loop(forwarded):
    (link,) = handed_on.links(forwarded, held(), {}, 0.5)
    assert link.store == OTHER


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
