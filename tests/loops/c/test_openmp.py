"""Loops of C that OpenMP spreads over threads: counted as in sequence, dealt as schedules say, run by teams."""

from __future__ import annotations

import importlib.util
import shutil

import numpy as np
import pytest

import rooflab
from rooflab.errors import RooflabError
from rooflab.loops.c import arguments, build, examine, flags, lower
from rooflab.loops.c.openmp import followed, runtime, stubs, team
from rooflab.loops.shared_lines import STORE_QUEUE
from rooflab.types.simulation import Cache
from rooflab.views.loop.shared_lines import shared as shared_table

_HAS = any(shutil.which(each) for each in ("clang", "clang-14", "clang-19")) or importlib.util.find_spec("ziglang")
pytestmark = pytest.mark.skipif(not _HAS, reason="no compiler for C: neither clang nor ziglang")
CACHES = (Cache(4096, 4, name="L1"), Cache(65536, 8, name="L2"))
FLAGS = "-O3 -march=native -fopenmp"


@pytest.fixture(scope="module")
def file(request):
    """The file of the functions."""
    return request.path.with_name("openmp.c")


@pytest.fixture(scope="module")
def count(file):
    """The report of a function, not timed."""

    def counted(name, *args, cflags=FLAGS, **options):
        return rooflab.loop(f"{file}:{name}", *args, levels=CACHES, timed=False, cflags=cflags, **options)

    return counted


@pytest.fixture(scope="module")
def run(file):
    """Runs of a function by teams, in turn, one for each number of threads."""

    def ran(name, threads, *args, room=0):
        built = build.build(file, name, flags.of(file, FLAGS))
        main = examine.subprogram(file, name, built.plain, len(args))
        made = team.make(built, lower.lower(built.team, main), main, arguments.bind(main, args))
        return [team.run(made, each, room, 20.0) for each in threads]

    return ran


def test_counts_are_those_of_one_thread(count):
    args = np.zeros(900), np.ones(900), np.ones(900), 3.0, 900
    followed, plain = count("triad", *args), count("triad", *args, cflags="-O3")
    assert (followed.flop, followed.accesses) == (plain.flop, plain.accesses) == (1800, 2700)
    assert "OpenMP pragmas (line 6) are not followed" in plain.warnings[0]
    assert "--cflags" in plain.warnings[0]
    assert not followed.warnings


def test_a_region_has_its_lines_trips_and_equal_shares(count):
    (region,) = count("triad", np.zeros(1024), np.ones(1024), np.ones(1024), 3.0, 1024).regions
    assert (region.line, region.last_line, region.variable) == (6, 8, "i")
    assert (region.entries, region.trips, region.chunks) == (1, 1024, 0)
    assert region.threads[:3] == (2, 4, 8)
    for threads, share in zip(region.threads, region.shares, strict=True):
        assert share == pytest.approx(1 / threads, rel=0.1)


def test_schedules_deal_a_triangle(count):
    def share_of_two(name):
        (region,) = count(name, np.zeros(400), np.ones(400), 400).regions
        return region.share(2), region.chunks

    # of n²/2 the second half has 3/4
    assert share_of_two("in_blocks") == (pytest.approx(0.75, abs=0.01), 0)
    assert share_of_two("in_turns") == (pytest.approx(0.5, abs=0.01), 0)
    assert share_of_two("on_demand") == (pytest.approx(0.5, abs=0.02), 100)
    share, chunks = share_of_two("shrinking")
    assert share < 0.6
    assert 8 < chunks < 60


@pytest.mark.parametrize("name", ["in_blocks", "in_turns", "on_demand", "shrinking"])
def test_every_trip_runs_once_whatever_the_schedule(run, name):
    for ran in run(name, (1, 2, 3, 7), np.zeros(50), np.ones(50), 50):
        assert ran.outputs[0].tolist() == [*range(1, 51)]


def test_loops_that_count_down_in_small_types(run):
    wanted = np.zeros(7)
    for k in range(200, 10, -3):
        wanted[k % 7] += k
    for ran in run("down", (1, 2, 5, 64), np.zeros(7), 7):
        assert ran.outputs[0].tolist() == wanted.tolist()


def test_two_loops_collapse(run, count):
    (ran,) = run("plane", (3,), np.zeros(35), 5, 7)
    assert ran.outputs[0].tolist() == [100 * i + j for i in range(5) for j in range(7)]
    assert count("plane", np.zeros(35), 5, 7).regions[0].trips == 35


def test_barriers_critical_atomic_single_master_and_sections(run):
    for ran in run("phases", (1, 2, 4, 9), np.zeros(100), np.zeros(6), 100):
        assert ran.outputs[1].tolist() == [4950, ran.threads, 1, 1, 1, 1]


def test_teams_start_as_often_as_the_region_is_entered(count, run):
    report = count("twice", np.zeros(40), 40)
    assert [(each.entries, each.trips) for each in report.regions] == [(3, 120)]
    assert "line 77: num_threads is not followed" in report.warnings[0]
    (ran,) = run("twice", (2,), np.zeros(4), 4)
    assert ran.outputs[0].tolist() == [3] * 4


def test_a_region_inside_another_has_a_team_of_one(run):
    (ran,) = run("inner", (3,), np.zeros(6), 6)
    assert ran.outputs[0].tolist() == [5, 6, 7, 8, 9, 10]


def test_accesses_are_recorded_thread_by_thread(run):
    (ran,) = run("triad", (2,), np.zeros(64), np.ones(64), np.ones(64), 3.0, 64, room=1 << 16)
    assert ran.recorded == 1
    turns = ran.switches[:, 1].tolist()
    assert turns == [-1, 0, 1, -1, -2]
    first, second, end = ran.switches[1:4, 0].tolist()
    # the same for each half
    assert second - first == end - second >= 3 * 32


def test_simd_needs_no_threads(count):
    for each in ("-O3 -fopenmp-simd", FLAGS):
        report = count("simd", np.ones(100), 100, cflags=each)
        assert (report.flop, report.accesses, report.regions) == (100, 100, ())
        assert not report.warnings


@pytest.mark.parametrize(("name", "what"), [("tasks", "tasks"), ("in_order", "ordered")])
def test_what_is_not_followed_is_counted_in_sequence_and_said(count, name, what):
    report = count(name, np.zeros(20), 20)
    assert report.accesses == 20
    assert not report.regions
    (said,) = report.warnings
    assert f"OpenMP's {what}: counted in sequence, and not predicted on several threads: expected" in said
    assert "or leave -fopenmp out" in said


@pytest.mark.parametrize("here", [True, False], ids=["as it is here", "no runtime"])
def test_a_team_that_waits_for_ever_is_stopped(count, monkeypatch, here):
    """Its second thread waits: each is told its own number, whether a runtime is here or not."""
    monkeypatch.setattr(followed, "SHORT_S", 0.2)
    if not here:
        monkeypatch.setattr(runtime, "find", lambda: None)
    report = count("waits", np.zeros(1, np.int32))
    assert not report.regions
    assert "by a team of 2 threads it has no end within 200 ms" in report.warnings[0]


def test_threads_without_openmp_are_refused(count):
    with pytest.raises(RooflabError, match=r"expected -fopenmp among the flags \(flags as given: -O3\)"):
        count("triad", np.zeros(9), np.ones(9), np.ones(9), 3.0, 9, cflags="-O3", threads=2)


def test_functions_of_openmp_answer_as_to_one_thread():
    ir = "declare i32 @omp_get_num_threads() #1\ndeclare void @omp_set_lock(ptr noundef)\ndeclare i32 @other()\n"
    answered = stubs.answered(ir)
    assert "define internal i32 @omp_get_num_threads() {\n  ret i32 1\n}" in answered
    assert "define internal void @omp_set_lock(ptr %a0) {\n  ret void\n}" in answered
    assert "declare i32 @other()" in answered


def test_without_a_runtime_it_is_timed_in_sequence_and_the_ways_are_said(file, monkeypatch):
    monkeypatch.setattr(runtime, "find", lambda: None)
    report = rooflab.loop(f"{file}:dot", np.ones(500), np.ones(500), 500, levels=CACHES, cflags=FLAGS)
    assert [each.threads for each in report.runs] == [1, 1]
    assert report.parallel.startswith("left out: no runtime of OpenMP is here: python -m pip install intel-openmp")
    assert len(report.regions) == 1


@pytest.mark.skipif(runtime.find() is None, reason=f"no runtime of OpenMP: {runtime.WAYS}")
def test_teams_of_the_runtime_are_timed(file):
    most = runtime.find().most
    report = rooflab.loop(f"{file}:dot", np.ones(5000), np.ones(5000), 5000, levels=CACHES, cflags=FLAGS)
    assert [each.threads for each in report.runs if each.threads > 1] == runtime.counts(most)[::-1]
    assert report.checks == ("the compiled function gives the counted run's results",)
    assert report.spread_by == "OpenMP"
    again = rooflab.loop(f"{file}:dot", np.ones(5000), np.ones(5000), 5000, levels=CACHES, cflags=FLAGS)
    assert (again.regions, again.parallel) == (report.regions, report.parallel)
    timed = runtime.measure(runtime.find(), most)
    assert timed is None if most < 2 else timed.threads == tuple(runtime.counts(most))


def test_false_sharing_is_found_and_goes_with_padding(count):
    picks = np.random.default_rng(1).integers(0, 4, 100_000).astype(np.uint8)
    report = count("histogram", picks, np.zeros(64, np.int64), len(picks), 4)
    (shared,) = report.shared_lines
    assert (shared.line, shared.array, shared.cache_lines, shared.threads) == (131, "counts", 1, 2)
    # each of two threads 50,000 stores, as many visits as fill the store queue
    assert shared.taken == shared.falsely == shared.in_turn == 2 * -(-50_000 // STORE_QUEUE)
    assert count("histogram", picks, np.zeros(64, np.int64), len(picks), 16).shared_lines == ()
    table = shared_table(report)
    assert table.rows == (("131", "counts", "1", "1.56 k", "1.56 k"),)
    assert "padded to whole lines" in table.note
