"""Accesses that somebody recorded, given as arrays."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rooflab
from rooflab import Cache, streams
from rooflab.errors import RooflabError
from rooflab.types.simulation import tlb
from support.cachesim.hierarchy_oracle import Level

LEVELS = (Cache(512, 2), Cache(4096, 8))


@given(
    st.lists(
        st.tuples(st.integers(0, 3000), st.booleans(), st.sampled_from([1, 8, 100])), min_size=1, max_size=150
    ),
    st.sampled_from([0, 1 << 33, (1 << 62) - 4096]),
)
def test_what_was_recorded_is_simulated_in_order(made, base):
    addresses, stores, sizes = (list(each) for each in zip(*made, strict=True))
    chain = [None]
    for cache in reversed(LEVELS):
        chain.append(Level(cache, chain[-1]))
    for address, store, nbytes in made:
        for line in range((base + address) // 64, (base + address + nbytes - 1) // 64 + 1):
            chain[-1].ask("store" if store else "load", line * 64, 1)
    stream = streams.recorded(np.array(addresses) + base, stores, sizes)
    found = rooflab.simulate(stream, levels=LEVELS, flush=False)
    wanted = [(level.n["hits"], level.n["misses"], level.n["writebacks"]) for level in chain[:0:-1]]
    assert [(level.hits, level.misses, level.writebacks) for level in found.levels] == wanted


def test_far_apart_accesses_need_no_memory_for_what_lies_between():
    stream = streams.recorded([0, 1 << 61, 0, 64], nbytes=4)
    found = rooflab.simulate(stream, levels=LEVELS, classify=True, tlbs=[tlb(4)])
    assert (found.levels[0].compulsory, found.levels[0].hits, found.tlbs[0].misses) == (3, 1, 2)
    assert rooflab.miss_curve(stream).compulsory == 3


def test_loads_and_stores_are_told_apart_and_what_is_dirty_is_written_back():
    found = rooflab.simulate(streams.recorded([0, 64, 64], [False, True, False]), levels=LEVELS)
    by_name = {each.name: each.requests for each in found.levels[0].references}
    assert (by_name["loads"], by_name["stores"]) == (2, 1)
    assert found.memory_write_bytes == 64


def test_a_recording_is_cut_short_in_order():
    from rooflab.cachesim.run import time_limit
    from rooflab.cachesim.run.streams import simulate_stream

    stream = streams.recorded(np.arange(200_000) % 5000 * 8, np.arange(200_000) % 3 == 0)
    whole = simulate_stream(stream, LEVELS)
    pieces = simulate_stream(stream, LEVELS, time_limit_s=1e9, pacing=time_limit.Pacing(steps=1))
    assert pieces.levels == whole.levels
    assert pieces.complete


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (([],), "addresses is an array of float64, 0, expected one row of whole numbers"),
        (([0.5],), "addresses is an array of float64, 1"),
        (([-8],), "begins at -0x8, expected 0 to 2**62"),
        (([1 << 62],), "expected 0 to 2**62"),
        (([0, 8], [True]), "stores is an array of bool, 1, expected a truth value for each address"),
        (([0, 8], [1, 0]), "stores is an array of int64, 2, expected a truth value"),
        (([0, 8], None, 0), "nbytes is 0, expected a whole number above zero"),
        (([0, 8], None, [8, 0]), "expected a number above zero for each address"),
    ],
)
def test_arrays_that_cannot_be_are_said_in_a_line(given, said):
    with pytest.raises(RooflabError, match=re.escape(said)):
        streams.recorded(*given)
