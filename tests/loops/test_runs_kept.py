"""Runs of a changed loop beside the loop: kept where they are sure, found while the loop takes as long as then."""

from __future__ import annotations

import numpy as np
import pytest

from rooflab.loops import again, kept, understanding


def scaled(a):
    for i in range(a.size):
        a[i] = 2.0 * a[i]


@pytest.fixture
def run(monkeypatch, tmp_path):
    """(what runs the loop and a changed one, given what their turns take and the time now; how often they ran)."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(kept.SWITCH, raising=False)
    loop = understanding.understand(scaled, (np.ones(8),))
    ran = []

    def runs(turns, now_s):
        monkeypatch.setattr(again, "compiled", lambda loop, fastmath: None)
        monkeypatch.setattr(again.timing, "in_turns", lambda loops: ran.append(len(loops)) or turns)
        return again.in_turns((loop, False), (loop, True), now_s)

    return runs, ran


def test_runs_are_found_while_the_loop_takes_as_long_as_then(run):
    runs, ran = run
    assert runs([2.0, 1.0], 2.1) == (2.0, 1.0)
    assert runs([9.0, 9.0], 2.4) == (2.0, 1.0)
    assert ran == [2]
    # twice as slow by now: run anew
    assert runs([4.0, 3.0], 4.0) == (4.0, 3.0)
    assert ran == [2, 2]


def test_runs_of_a_busy_moment_are_run_anew(run):
    runs, ran = run
    assert runs([3.0, 1.0], 2.0) == (3.0, 1.0)
    assert runs([2.0, 1.5], 2.0) == (2.0, 1.5)
    assert ran == [2, 2]


def test_what_was_far_slower_is_found_however_long_the_loop_takes(run):
    runs, ran = run
    assert runs([2.0, 3.0], 2.0) == (2.0, 3.0)
    assert runs([1.0, 1.0], 9.0) == (2.0, 3.0)
    assert ran == [2]
