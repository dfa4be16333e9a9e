"""Teams of threads: pinned while they are timed, free again afterwards."""

from __future__ import annotations

import os

import numba
import pytest

from rooflab.machines.bench.experiments import thread_teams


@pytest.mark.slow
@pytest.mark.skipif(not thread_teams.can_pin(), reason="no thread can be kept on a CPU here")
@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="one thread is no team")
def test_threads_are_free_again_after_they_were_pinned():
    before = os.sched_getaffinity(0)
    with thread_teams.pinned(2):
        assert len(os.sched_getaffinity(0)) == 1
    assert os.sched_getaffinity(0) == before


def test_one_thread_is_left_where_it_is():
    before = os.sched_getaffinity(0) if thread_teams.can_pin() else None
    with thread_teams.pinned(1):
        if before is not None:
            assert os.sched_getaffinity(0) == before


@pytest.mark.slow
@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="one thread is no team")
def test_a_start_is_measured_once_and_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = thread_teams.measure()
    assert found.layer in ("omp", "tbb", "workqueue")
    assert found.threads[0] == 2
    assert all(each > 1e-8 for each in found.pinned_s)
    assert 1e-8 < found.alone_s < 1e-3
    assert thread_teams.measure() == found
    (kept,) = (tmp_path / "rooflab").iterdir()
    kept.write_text("{")
    assert thread_teams.measure().layer == found.layer
