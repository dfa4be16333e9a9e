"""A process that compiles meanwhile: code and remarks are those made here; without it all is as it was."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from rooflab.loops import examine, understanding
from rooflab.loops.compiled import ahead, remarks, time
from rooflab.loops.twin import generated_files
from rooflab.machines import cache_levels
from rooflab.types.simulation import Cache

CACHES = cache_levels.given((Cache(4096, 4, name="L1"), Cache(65536, 8, name="L2")))


def sums(a, s):
    for i in range(a.shape[0]):
        acc = 0.0
        for j in range(a.shape[1]):
            acc += a[i, j]
        s[i] = acc


@pytest.fixture(autouse=True)
def store(tmp_path, monkeypatch):
    """A folder of generated files of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in [each for each in sys.modules if each.startswith(("rooflab_loop_sums", "rooflab_prange_sums"))]:
        monkeypatch.delitem(sys.modules, name)


@pytest.fixture
def loop():
    return understanding.understand(sums, (np.ones((20, 30)), np.zeros(20)))


def paths(loop):
    text = time.texts(loop)
    return [generated_files.module(each.stem, each.text).__file__ for each in (text.serial, text.parallel)]


def test_numba_finds_the_code_and_the_remarks_are_those_asked_for_here(loop):
    serial, parallel = paths(loop)
    begun = ahead.Ahead(serial, parallel, loop.arguments.values)
    try:
        begun.compiled()
        function = time.texts(loop).parallel.compiled()
        function(*loop.arguments.copied())
        assert sum(function.stats.cache_hits.values()) == 1
        said = remarks.of(loop.source, serial, "serial", loop.arguments.values, begun)
    finally:
        begun.end()
    assert said == remarks.of(loop.source, serial, "serial", loop.arguments.values)
    assert any("reorder" in each.text for each in said)


def test_where_no_process_can_be_begun_nothing_is_said_and_the_report_is_the_same(loop, monkeypatch):
    with_it = examine.report(loop, CACHES)
    monkeypatch.setattr(ahead.sys, "executable", "/no/such/python")
    begun = ahead.Ahead(*paths(loop), loop.arguments.values)
    begun.compiled()
    assert begun.remarks() is None
    begun.end()
    monkeypatch.setenv("XDG_CACHE_HOME", str(generated_files.folder() / "another"))
    without = examine.report(loop, CACHES)
    assert (without.accesses, without.flop_by, len(without.runs)) == (
        with_it.accesses,
        with_it.flop_by,
        len(with_it.runs),
    )


def test_it_is_ended_whatever_happens(loop, monkeypatch):
    ended = []
    end = ahead.Ahead.end
    monkeypatch.setattr(ahead.Ahead, "end", lambda self: ended.append(self._process) or end(self))
    monkeypatch.setattr(examine, "is_worth_it", lambda: True)

    def fails(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(examine.lowered_count, "of_loop", fails)
    with pytest.raises(KeyboardInterrupt):
        examine.report(loop, CACHES)
    assert len(ended) == 1
    assert ended[0].poll() is not None


def test_one_core_compiles_alone(loop, monkeypatch):
    monkeypatch.setattr(examine, "is_worth_it", lambda: False)
    monkeypatch.setattr(examine, "Ahead", None)
    assert examine.report(loop, CACHES).complete
