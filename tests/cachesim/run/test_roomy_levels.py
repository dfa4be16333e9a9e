"""Which levels hold all that a stream touches, and that nests are fast-forwarded although those do not turn."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooflab.cachesim.run import roomy_levels, warping
from rooflab.cachesim.run.streams import simulate_stream
from rooflab.cachesim.streams import dense
from rooflab.types.simulation import Cache


def fits(level: Cache, spans: list[tuple[int, int]]) -> bool:
    """Whether no set gets more lines of the spans than it has ways, counted line by line."""
    lines = {address // level.line_bytes for first, end in spans for address in range(first, end)}
    return max(Counter(line % level.sets for line in lines).values()) <= level.set_ways


@given(
    st.integers(1, 6),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([32, 64, 128]),
    st.lists(st.tuples(st.integers(0, 8), st.integers(1, 900)), min_size=1, max_size=3),
)
def test_a_level_is_roomy_where_no_set_gets_more_lines_than_ways(sets, ways, line, sizes):
    level = Cache(sets * ways * line, ways, line)
    spans, at = [], 0
    for gap, size in sizes:
        at = -(-at // 128) * 128 + gap * 128
        spans.append((at, at + size))
        at += size
    assert (roomy_levels.first_roomy([level], np.array(spans)) == 0) == fits(level, spans)


def test_only_the_farthest_levels_are_roomy():
    arrays = np.array([(0, 4096)])
    assert roomy_levels.first_roomy([Cache(8192, 8), Cache(1024, 8), Cache(8192, 8)], arrays) == 2
    assert roomy_levels.first_roomy([Cache(1024, 8)], arrays) == 1
    # where an address lies is not known of other indices, nor what such a level gives up
    assert roomy_levels.first_roomy([Cache(8192, 8, index="xor")], arrays) == 1
    assert roomy_levels.first_roomy([Cache(8192, 8, policy="random")], arrays) == 1


@pytest.mark.parametrize("order", ["ijk", "ikj"])
def test_a_product_is_fast_forwarded_where_its_last_level_holds_all(order, monkeypatch):
    made = []

    def counted(state, table, scratch, first, last, mode):
        made.append(last - first)
        return warping_run(state, table, scratch, first, last, mode)

    warping_run = warping.run
    levels = (Cache(512, 2), Cache(4096, 8), Cache(1 << 20, 16))
    exact = simulate_stream(dense.matmul(64, order=order), levels, exact=True)
    monkeypatch.setattr(warping, "run", counted)
    monkeypatch.setattr(warping, "prepare", lambda *_: None)
    assert simulate_stream(dense.matmul(64, order=order), levels).levels == exact.levels
    assert sum(made) < 64
