"""Several functions timed in turns: least seconds of each, and how many turns that takes."""

from __future__ import annotations

import numpy as np

from rooflab.loops.compiled import time


class Given:
    """One array."""

    def __init__(self):
        self.made = 0

    def copied(self):
        self.made += 1
        return (np.zeros(4),)


def steered(monkeypatch, seconds):
    """Seconds of turns as given, by function, and how often each was timed."""
    counts = dict.fromkeys(seconds, 0)

    def turn(function, arguments, fresh):
        def once():
            counts[function] += 1
            return seconds[function][counts[function] - 1]

        return once

    monkeypatch.setattr(time, "_turn", turn)
    return counts


def test_turns_end_where_each_came_near_its_best_twice(monkeypatch):
    counts = steered(monkeypatch, {"a": [1.0, 1.01, 1.0, 1.0, 1.0], "b": [5.0, 4.0, 3.0, 3.01, 9.0]})
    assert time.in_turns([("a", None, False), ("b", None, False)]) == [1.0, 3.0]
    assert counts == {"a": 4, "b": 4}


def test_turns_are_bounded(monkeypatch):
    counts = steered(monkeypatch, {"a": [1.0 / n for n in range(1, 40)]})
    assert time.in_turns([("a", None, False)]) == [1.0 / time.MOST_TURNS]
    assert counts == {"a": time.MOST_TURNS}


def test_what_takes_long_has_two_turns(monkeypatch):
    counts = steered(monkeypatch, {"a": [3.0, 2.0, 1.0]})
    monkeypatch.setattr(time, "TURNS_S", 0.0)
    assert time.in_turns([("a", None, False)]) == [2.0]
    assert counts == {"a": 2}


def test_a_run_that_needs_its_inputs_anew_gets_them():
    calls = []
    given, kept = Given(), Given()
    found = time.in_turns(
        [(lambda a: calls.append(a.fill(1.0)), given, True), (lambda a: calls.append(None), kept, False)]
    )
    assert len(found) == 2
    assert min(found) >= 0
    assert given.made >= time.LEAST_TURNS
    assert kept.made == 1
