"""Requests that wait between levels: counted as if they were answered at once, and seen by whoever looks."""

from __future__ import annotations

import numpy as np
import pytest

from rooflab.cachesim.level import hierarchy
from rooflab.cachesim.level.queued_levels import QUEUED_REQUESTS
from rooflab.cachesim.native import layout
from rooflab.cachesim.run import replay
from rooflab.types.simulation import Cache

LINE = 64
TWO = [Cache(2 * 8 * LINE, 8), Cache(3 * 8 * LINE, 8)]
THREE = [*TWO, Cache(4 * 16 * LINE, 16)]
ODD = [TWO[0], Cache(4 * 8 * LINE, 8), Cache(5 * 12 * LINE, 12)]


def replayed(levels, requests, lines, references, address_end):
    built = hierarchy.build(levels, references=("a", "b", "c"), address_end=address_end)
    columns = (requests, lines * LINE, np.full(len(lines), 8), references)
    replay.replay(built.address, *(np.asarray(each, np.int64) for each in columns))
    return built


@pytest.mark.slow
@pytest.mark.parametrize("levels", [TWO, THREE, ODD])
def test_each_reference_counts_what_it_counts_where_nothing_waits(levels):
    rng = np.random.default_rng(7)
    n = 20 * QUEUED_REQUESTS
    drawn = rng.integers(0, 2, n), rng.integers(0, 120, n), rng.integers(0, 3, n)
    waiting, at_once = replayed(levels, *drawn, 1 << 20), replayed(levels, *drawn, None)
    assert waiting.queued is not None
    assert at_once.queued is None
    assert waiting.result("x").levels == at_once.result("x").levels
    for level in range(len(levels)):
        assert np.array_equal(waiting.tags(level), at_once.tags(level))


@pytest.mark.slow
def test_queues_hold_what_stores_ask_for_of_which_every_line_leaves_dirty():
    lines = np.tile(np.arange(200), 20)
    drawn = np.ones(len(lines)), lines, np.zeros(len(lines))
    waiting, at_once = (replayed(THREE, *drawn, end).result("x") for end in (1 << 20, None))
    assert waiting.levels == at_once.levels
    assert waiting.levels[0].misses == waiting.levels[2].misses == len(lines)  # no level holds 200 lines


@pytest.mark.slow
def test_who_looks_at_a_level_sees_what_still_waited_for_it():
    built = replayed(THREE, [0, 1, 0], np.array([1, 2, 1]), [0, 1, 0], 1 << 20)
    assert sorted(built.tags(2)[built.tags(2) >= 0] >> 1) == [1, 2]
    assert built.counts(1)[:, layout.MISSES].tolist() == [1, 1, 0]
    assert built.counts(0)[:, layout.MISSES].tolist() == [1, 1, 0]


@pytest.mark.slow
def test_a_view_shows_what_waited_once_it_is_settled():
    built = hierarchy.build(THREE, address_end=1 << 20)
    tags = built.tags(1)
    replay.replay(built.address, *(np.array([each]) for each in (0, 5 * LINE, 8, 0)))
    assert (tags < 0).all()
    built.settle()
    assert (tags[tags >= 0] >> 1).tolist() == [5]
