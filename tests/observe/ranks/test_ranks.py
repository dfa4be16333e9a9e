"""Ranks of played runs: what each waited, whom for, whatever their clocks; and what is not matched."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import rooflab
from rooflab.views.profiles.ranks import sentences
from support.observe.rank_files import ALONE_US, NAME, run

# Rank 2 computes 30 µs at each of six collectives, the others 10: they wait 20 µs for it, each time.
SLOW = [[10.0] * 6, [10.0] * 6, [30.0] * 6]


def ranks(files):
    return rooflab.load(*files).ranks


def test_all_waited_for_the_slow_rank(tmp_path):
    found = ranks(run(tmp_path, SLOW, marked=True).files)
    assert [one.rank for one in found.ranks] == [0, 1, 2]
    assert [one.waited_s for one in found.ranks] == pytest.approx([120e-6, 120e-6, 0.0], abs=1e-9)
    assert (found.straggler.rank, found.straggler.last, found.collectives) == (2, 6, 6)
    assert found.straggler.awaited_s == pytest.approx(120e-6)
    assert found.steps == 6
    assert found.ends_apart_s == pytest.approx(0, abs=1e-9)
    # Nothing computes beside the collective: all waiting is alone, and all of the collective.
    assert found.ranks[0].exposed_waited_s == pytest.approx(120e-6)
    assert found.ranks[2].exposed_collective_s == pytest.approx(6 * ALONE_US * 1e-6)
    # 180 µs against a mean of 100.
    assert found.imbalance == pytest.approx(0.8)
    verdict, computing = sentences(found)
    assert verdict == "All other ranks waited 20.0 µs a step for rank 2: it came last to 6 of 6 collectives."
    assert computing == "Rank 2 computes longest, 80.0 % longer than the mean."


def test_clocks_that_differ_and_drift_change_nothing(tmp_path):
    played = run(tmp_path, [[10.0] * 40, [10.0, 30.0] * 20], off_us=(0.0, 7e6), gains=(0.0, 1e-4))
    found = ranks(played.files)
    assert found.ranks[0].waited_s == pytest.approx(20 * 20e-6, rel=1e-3)
    # The first activity of each is its 0, and both begin at once: 7 s do not show, the drift is taken out.
    assert found.ranks[1].zero_s == pytest.approx(0, abs=1e-6)
    assert found.ends_apart_s < 0.2e-6
    assert found.warnings == ()


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 4), st.integers(3, 9), st.randoms(use_true_random=False), st.booleans())
def test_waiting_is_what_was_played(tmp_path_factory, size, count, random, named):
    computes = [[float(random.randint(5, 400)) for _ in range(count)] for _ in range(size)]
    off = [random.uniform(0, 1e6) for _ in range(size)]
    played = run(tmp_path_factory.mktemp("run"), computes, off_us=off, named=named)
    found = ranks(played.files)
    assert [one.waited_s * 1e6 for one in found.ranks] == pytest.approx(played.waits_us.sum(axis=1), abs=0.02)
    # Ties apart, which random times of 400 seldom have: who did not wait came last.
    others = [np.delete(played.waits_us, rank, axis=0).mean(axis=0) for rank in range(size)]
    expected = [float(others[rank][played.waits_us[rank] == 0].sum()) for rank in range(size)]
    if np.all((played.waits_us == 0).sum(axis=0) == 1):
        assert [one.awaited_s * 1e6 for one in found.ranks] == pytest.approx(expected, abs=0.02)


def test_the_order_of_files_does_not_matter_where_ranks_are_named(tmp_path):
    files = run(tmp_path, SLOW).files
    assert ranks(files[::-1]).straggler.rank == 2
    assert ranks(files[::-1]).ranks == ranks(files).ranks


def test_files_that_name_no_rank_are_numbered_in_their_order(tmp_path):
    found = ranks(run(tmp_path, SLOW, named=False).files[::-1])
    assert found.straggler.rank == 0
    assert "numbered in the order given" in found.notes[0]


def test_kernels_alone_tell_by_name_and_order(tmp_path):
    found = ranks(run(tmp_path, SLOW, told={}).files)
    assert (found.straggler.rank, found.collectives, found.unmatched) == (2, 6, 0)


def test_two_runs_of_one_program_are_not_ranks(tmp_path):
    random = np.random.default_rng(3)
    one = run(tmp_path / "a", random.uniform(50, 900, (2, 12)).tolist(), named=False).files[0]
    other = run(tmp_path / "b", random.uniform(50, 900, (2, 12)).tolist(), named=False).files[0]
    assert ranks([one, other]) is None
    assert ranks([one, one]) is not None  # two names of one file cannot be told from two ranks in step


def test_the_same_rank_twice_is_no_pair_of_ranks(tmp_path):
    first, second = run(tmp_path / "a", SLOW).files[0], run(tmp_path / "b", SLOW).files[0]
    assert ranks([first, second]) is None


def test_ranks_of_two_runs_are_doubted(tmp_path):
    random = np.random.default_rng(3)
    one = run(tmp_path / "a", random.uniform(50, 900, (2, 12)).tolist()).files[0]
    other = run(tmp_path / "b", random.uniform(50, 900, (2, 12)).tolist()).files[1]
    assert "are the files of one run?" in ranks([one, other]).warnings[0]


def test_what_only_one_rank_saw_is_left_out_by_its_number(tmp_path):
    files = run(tmp_path, SLOW).files
    text = files[1].read_text(encoding="utf-8")
    # Rank 1 lost its second collective: the others still meet by number.
    files[1].write_text(text.replace('"Seq": 1', '"Seq": 77'), encoding="utf-8")
    found = ranks(files)
    assert (found.collectives, found.unmatched) == (5, 3)
    assert found.ranks[0].waited_s == pytest.approx(100e-6)


def test_without_numbers_a_lost_collective_makes_the_match_uncertain(tmp_path):
    files = run(tmp_path, SLOW, numbered=False).files
    text = files[1].read_text(encoding="utf-8")
    files[1].write_text(text.replace('"AllReduce', '"x').replace(NAME, "other", 1), encoding="utf-8")
    assert ranks(files).collectives == 6  # by what is recorded of it, whatever the kernel is called
    files[1].write_text(text.replace('"Collective name": "allreduce"', '"x": 1', 1), encoding="utf-8")
    found = ranks(files)
    assert (found.collectives, found.unmatched, found.ranks[0].waited_s) == (0, 17, None)
    assert "not known" in found.notes[-1]


def test_groups_are_matched_apart(tmp_path):
    # Two pairs, each a group of its own that is called "1": rank 1 is slow in one, rank 2 in the other.
    pairs = []
    for pair, computes in enumerate(([[10.0] * 4, [40.0] * 4], [[25.0] * 4, [10.0] * 4])):
        said = {"Collective name": "_allgather_base", "Process Group Name": "1", "Group size": 2}
        said["Process Group Ranks"] = str([2 * pair, 2 * pair + 1])
        pairs += run(tmp_path / str(pair), computes, told=said).files
    for rank, path in enumerate(pairs):
        text = path.read_text(encoding="utf-8")
        old = f'"rank": {rank % 2}, "world_size": 2'
        assert old in text
        path.write_text(text.replace(old, f'"rank": {rank}, "world_size": 4'), encoding="utf-8")
    found = ranks(pairs)
    assert [round(one.waited_s * 1e6) for one in found.ranks] == [120, 0, 0, 60]
    assert found.collectives == 8


def test_groups_of_one_name_without_members_are_not_guessed(tmp_path):
    said = {"Collective name": "allreduce", "Process Group Name": "1", "Group size": 2}
    found = ranks(run(tmp_path, SLOW, told=said).files)
    assert (found.collectives, found.unmatched) == (0, 18)


@pytest.mark.parametrize("name", ["broadcast", "send", "recv", "reduce", "gather"])
def test_what_does_not_end_everywhere_at_once_is_not_matched(tmp_path, name):
    found = ranks(run(tmp_path, SLOW, told={"Collective name": name, "Group size": 3}).files)
    assert (found.collectives, found.unmatched, found.straggler) == (0, 18, None)
    assert "18 transfers" in found.notes[0]


def test_files_of_some_ranks_say_so(tmp_path):
    found = ranks(run(tmp_path, SLOW).files[1:])
    assert "files of 2 of the run's 3 ranks" in found.notes[0]
    assert found.straggler.rank == 2


def test_ranks_in_step_are_said_to_be(tmp_path):
    found = ranks(run(tmp_path, [[1000.0] * 5, [1001.0] * 5]).files)
    verdict, computing = sentences(found)
    assert verdict.startswith("The ranks are in step: they waited 0.0 %")
    assert computing.startswith("They compute alike")
