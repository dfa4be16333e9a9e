"""How many accesses at picked places are under way at once: buffers, the window, chains, rare long ones."""

from __future__ import annotations

import pytest

from rooflab.model.loop import in_flight
from rooflab.model.loop.in_flight import Picked


def picked(served, chained=0.0, cycles=1.0, instructions=1.0):
    return Picked(served=tuple(served), chained=chained, cycles=cycles, instructions=instructions)


def test_as_many_wait_at_once_as_there_are_buffers():
    # 24 of 240 cycles: one each 10 cycles, one of which is the core's own
    assert in_flight.waited(picked([(1.0, 240.0)]), 1e6, 24) == pytest.approx(9.0, rel=0.02)


def test_as_many_wait_at_once_as_the_window_holds():
    # 100 instructions, 25 from one to the next
    assert in_flight.waited(picked([(1.0, 200.0)], instructions=25.0), 100.0, 24) == pytest.approx(49.0, rel=0.03)


def test_what_the_core_does_meanwhile_hides_them():
    assert in_flight.waited(picked([(1.0, 240.0)], cycles=12.0), 1e6, 24) == pytest.approx(0.0, abs=0.05)


def test_accesses_in_a_chain_wait_one_after_the_other():
    assert in_flight.waited(picked([(1.0, 80.0)], chained=1.0), 1e6, 24) == pytest.approx(79.0, rel=0.01)


def test_chains_that_end_go_on_beside_the_next():
    whole = in_flight.waited(picked([(1.0, 80.0)], chained=1.0), 1e6, 24)
    # each of ten accesses
    pieces = in_flight.waited(picked([(1.0, 80.0)], chained=0.9), 1e6, 24)
    assert pieces < whole / 5


def test_rare_long_ones_hold_up_what_is_behind_them_but_wait_together_within_a_window():
    one_after_the_other = 0.1 * 600.0
    # 40 fit in the window: the next long one comes 10 later, and these enter while it waits: one wait for each 50
    together = in_flight.waited(picked([(0.1, 600.0)], instructions=10.0), 400.0, 24)
    alone = in_flight.waited(picked([(0.1, 600.0)], instructions=400.0), 400.0, 24)
    assert alone == pytest.approx(one_after_the_other, rel=0.05)
    assert together == pytest.approx(600.0 / 50 - 1.0, rel=0.15)


def test_shares_are_drawn_as_they_are():
    drawn = in_flight.drawn(((0.25, 10.0), (0.5, 50.0)), 1000)
    assert sorted(set(drawn)) == [0.0, 10.0, 50.0]
    assert [drawn.count(each) for each in (0.0, 10.0, 50.0)] == [250, 250, 500]
