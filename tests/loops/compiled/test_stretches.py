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


def test_what_takes_long_is_not_run_again(taken):
    timing, left = taken(0.5, 0.1)
    assert left == 1
    assert timing.best_s == 0.5
