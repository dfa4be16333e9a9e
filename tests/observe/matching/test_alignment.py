"""One run of a program laid beside many in a trace: repeated, cut, with more and with less in it."""

from __future__ import annotations

import random

import numpy as np
import pytest

from rooflab.observe.matching.alignment import align

KINDS = 12
SCORES = np.eye(KINDS + 1)[:KINDS] * 8  # the last kind of the trace fits nothing


def program(length, seed=0):
    """Layers that repeat between a beginning and an end of their own."""
    rng = random.Random(seed)
    layer = [rng.randrange(2, KINDS) for _ in range(9)]
    return [0, *(layer * (length // 9)), 1]


def test_runs_follow_each_other():
    one = program(90)
    pairs = align(one, one * 3, SCORES)
    assert pairs == [(at, at) for at in range(3 * len(one))]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("length", [18, 90, 1800])
def test_what_is_put_in_or_left_out_costs_itself_alone(seed, length):
    """Every element that was not put in is found at its place, but for neighbours of the same kind."""
    one, rng = program(length, seed), random.Random(seed)
    trace, truth = [], []
    for place, kind in enumerate(one * 4):
        if rng.random() < 0.02:
            trace.append(KINDS)
            truth.append(None)
        if rng.random() < 0.98:
            trace.append(kind)
            truth.append(place)
    found = {element: place for place, element in align(one, trace, SCORES)}
    wanted = {element: place for element, place in enumerate(truth) if place is not None}
    right = sum(found.get(element, -1) % len(one) == place % len(one) for element, place in wanted.items())
    assert not any(trace[element] == KINDS for element in found)
    assert right >= 0.97 * len(wanted)


def test_a_trace_that_begins_within_a_run_and_has_something_before_it():
    one = program(90)
    pairs = align(one, [KINDS] * 700 + one[-20:] + one * 2, SCORES)
    last = [pair for pair in pairs if pair.element >= 720]
    assert len(last) == 2 * len(one)
    assert [pair.place % len(one) for pair in last] == [*range(len(one))] * 2


def test_pairs_rise_on_both_sides_whatever_is_given():
    rng = random.Random(5)
    for _ in range(200):
        one = [rng.randrange(KINDS) for _ in range(rng.randrange(1, 30))]
        trace = [rng.randrange(KINDS + 1) for _ in range(rng.randrange(120))]
        pairs = align(one, trace, SCORES, window=rng.choice([3, 16, 512]))
        places, elements = [pair.place for pair in pairs], [pair.element for pair in pairs]
        assert places == sorted(set(places))
        assert elements == sorted(set(elements))
        assert all(SCORES[one[place % len(one)], trace[element]] > 0 for place, element in pairs)


def test_a_weak_fit_is_not_worth_most_of_a_run():
    """The first element is a little like the program's first; to take it, nine others would be left out."""
    scores = np.hstack((np.eye(10) * 8, np.eye(10)[:, :1]))
    pairs = align(list(range(10)), [10, *range(10)], scores)
    assert pairs == [(at, at + 1) for at in range(10)]


def test_nothing_fits_nothing():
    assert align([0, 1], [KINDS, KINDS], SCORES) == []
    assert align([], [0], SCORES) == []
    assert align([0], [], SCORES) == []
