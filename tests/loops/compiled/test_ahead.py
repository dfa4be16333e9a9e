"""A process that compiles meanwhile: code and remarks are those made here; without it all is as it was."""

from __future__ import annotations

import os
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


@pytest.mark.parametrize("copied", [False, True])
def test_it_is_ended_whatever_happens(loop, monkeypatch, copied):
    ended = []
    kind = ahead.Copied if copied else ahead.Ahead
    end = kind.end
    monkeypatch.setattr(kind, "end", lambda self: ended.append(_pid(self)) or end(self))
    monkeypatch.setattr(examine.beside, "has_second_core", lambda: True)
    monkeypatch.setattr(examine.beside, "is_worth_it", lambda nbytes: copied)

    def fails(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(examine.lowered_count, "of_loop", fails)
    with pytest.raises(KeyboardInterrupt):
        examine.report(loop, CACHES)
    assert len(ended) == 1
    with pytest.raises(ProcessLookupError):
        os.kill(ended[0], 0)


def _pid(begun):
    return begun._copy._pid if isinstance(begun, ahead.Copied) else begun._process.pid


def test_a_copy_of_the_process_gives_the_same_report_as_this_process_alone(loop, monkeypatch, tmp_path):
    made = []
    begin = ahead.Copied.__init__
    monkeypatch.setattr(ahead.Copied, "__init__", lambda self, *more: made.append(self) or begin(self, *more))
    monkeypatch.setattr(examine.beside, "has_second_core", lambda: True)
    monkeypatch.setattr(examine.beside, "is_worth_it", lambda nbytes: True)
    beside = examine.report(loop, CACHES)
    assert len(made) == 1
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another"))
    monkeypatch.setattr(examine.beside, "has_second_core", lambda: False)
    alone = examine.report(loop, CACHES)
    assert len(made) == 1
    for name in ("core_loops", "team_loops", "code", "regions", "flop_by", "checks", "parallel", "warnings"):
        assert getattr(beside, name) == getattr(alone, name), name


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux copies it")
def test_a_copy_hands_over_code_and_remarks_as_a_new_process_does(loop):
    serial, _ = paths(loop)
    compiled = time.build(loop)
    begun = ahead.Copied(compiled.serial, compiled.parallel, serial, loop.arguments.values, {"more": lambda: 7})
    try:
        begun.compiled()
        compiled.parallel(*loop.arguments.copied())
        assert sum(compiled.parallel.stats.cache_hits.values()) == 1
        said = remarks.of(loop.source, serial, "serial", loop.arguments.values, begun)
        assert begun._copy.done(("more",))
        assert begun.result("more") == 7
    finally:
        begun.end()
    assert said == remarks.of(loop.source, serial, "serial", loop.arguments.values)
    assert any("reorder" in each.text for each in said)


def test_one_core_compiles_alone(loop, monkeypatch):
    monkeypatch.setattr(examine.beside, "has_second_core", lambda: False)
    monkeypatch.setattr(examine, "Ahead", None)
    monkeypatch.setattr(examine, "Copied", None)
    assert examine.report(loop, CACHES).complete
