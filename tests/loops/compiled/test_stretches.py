"""Stretches of timed runs: a disturbed one is told by the next, and the undisturbed ones stand."""

from __future__ import annotations

import pytest

from rooflab.loops.compiled import stretches
from rooflab.timing import Timing


def stretch(best_s, median_s=None):
    median_s = median_s or best_s
    return Timing(best_s, median_s, (median_s - best_s) / median_s, 3, 10)


@pytest.fixture
def taken(monkeypatch):
    """Stretches that come next, the pauses between them left out; those still there at the end were not taken."""
    monkeypatch.setattr(stretches.time, "sleep", lambda seconds: None)
    coming = []

    def steadied(first, *others):
        coming[:] = map(stretch, others)
        return stretches.steadied(stretch(first), lambda: coming.pop(0)), len(coming)

    return steadied


def test_two_stretches_that_agree_are_enough(taken):
    timing, left = taken(1e-3, 1.05e-3, 9e-3)
    assert left == 1
    assert timing.best_s == 1e-3
    assert timing.runs == 6


def test_a_disturbed_first_stretch_does_not_stand(taken):
    timing, left = taken(5e-3, 1e-3, 1.02e-3, 9e-3)
    assert left == 1
    assert timing.best_s == 1e-3
    # of the medians 1, 1.02 and 5 ms
    assert timing.median_s == pytest.approx(1.02e-3)
    assert timing.spread == pytest.approx(0.02 / 1.02)


def test_a_machine_that_never_settles_is_not_waited_for_for_ever(taken):
    timing, left = taken(9e-3, 8e-3, 6e-3, 4e-3, 2e-3, 1e-3, 0.5e-3, 0.2e-3)
    assert left == 2
    assert timing.best_s == 1e-3


class Watch:
    """Notes each look, and what came between."""

    def __init__(self):
        self.noted = []

    def look(self, threads):
        self.noted.append(threads)

    def seen(self):
        return list(self.noted)

    def see(self, seen):
        self.noted.extend(seen)


def test_the_watch_looks_between_stretches(taken):
    watch = Watch()
    with stretches.watched(watch):
        taken(5e-3, 1e-3, 1.02e-3, 9e-3)
    # between the first and the second of three, and between the second and the third
    assert watch.noted == [1, 1]
    taken(1e-3, 1e-3)
    assert watch.noted == [1, 1]


def test_what_a_watch_has_seen_can_be_handed_over():
    one, other = Watch(), Watch()
    with stretches.watched(one):
        stretches.look(2)
        what = stretches.seen()
    with stretches.watched(other):
        stretches.see(what)
    assert other.noted == [2]
    assert stretches.seen() is None
    stretches.see(what)  # without one it is left alone


def test_what_takes_long_is_not_run_again(taken):
    timing, left = taken(0.5, 0.1)
    assert left == 1
    assert timing.best_s == 0.5
