"""Streams with a time bound: pieces are the whole, and what ran is counted exactly."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest

from rooflab.cachesim.run import time_limit
from rooflab.cachesim.run.streams import simulate_stream
from rooflab.cachesim.streams import dense, nests, sparse
from rooflab.errors import RooflabError
from rooflab.types.simulation import Cache

LEVELS = [Cache(1024, 2), Cache(8192, 4)]
STREAMS = [
    dense.matmul(40),
    dense.matmul(30, order="ikj", tile=7),  # last tiles are cut: clipped loops
    dense.stencil2d(70, sweeps=3),
    dense.stencil3d(20),
    dense.attention(30, 8, tile=7, query_tile=4),
    dense.triad(5000),
    dense.sequential(1 << 16, passes=3),
    dense.strided(1 << 14, 60, passes=4),  # crosses lines
    dense.random(1 << 16, 200_000, store=True),
    sparse.spmv(10_000, 5),
    sparse.spmv_csr([0, 2, 2, 5], [0, 3, 1, 2, 3]),
    sparse.pagerank(1 << 9, 4, iterations=5),
    dense.pointer_chase(1 << 16, 300_000),  # items of one cycle, many times round
]


def counts(found):
    return msgspec.structs.replace(found, seconds=None)


@pytest.mark.slow
@pytest.mark.parametrize(
    "most",
    [
        pytest.param(1 << 24, id="steps of the outer loop"),
        pytest.param(100, id="of inner loops too", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.name)
def test_pieces_count_what_the_whole_counts(stream, most):
    pacing = time_limit.Pacing(step_accesses=most, steps=3)
    pieces = simulate_stream(stream, LEVELS, time_limit_s=1000, flush=True, pacing=pacing)
    assert counts(pieces) == counts(simulate_stream(stream, LEVELS, flush=True))


@pytest.mark.slow
def test_pieces_of_inner_loops_count_what_the_whole_counts():
    stream = dense.matmul(12, order="ikj", tile=5)
    pacing = time_limit.Pacing(step_accesses=100, steps=3)
    pieces = simulate_stream(stream, LEVELS, time_limit_s=1000, flush=True, pacing=pacing)
    assert counts(pieces) == counts(simulate_stream(stream, LEVELS, flush=True))


@pytest.mark.slow
def test_what_ran_is_the_first_part_of_the_stream():
    stream = dense.matmul(40)
    found = simulate_stream(stream, LEVELS, time_limit_s=1e-9, pacing=time_limit.Pacing(steps=3))
    assert stream.program is not None
    first = time_limit.part_of(stream.program.loops[0], 0, 3)
    short = dataclasses.replace(stream, program=nests.Program((first,)))
    assert not found.complete
    assert found.accesses == stream.accesses * 3 // 40
    assert found.levels == simulate_stream(short, LEVELS).levels


@pytest.mark.slow
def test_a_random_stream_that_is_cut_short_knows_its_accesses_but_not_their_bytes():
    found = simulate_stream(dense.random(1 << 20, 1 << 22), LEVELS, time_limit_s=1e-9)
    first = simulate_stream(dense.random(1 << 20, found.accesses), LEVELS)
    assert (found.complete, found.accessed_bytes) == (False, None)
    assert 0 < found.accesses < 1 << 22
    assert found.levels == first.levels


def test_a_chase_that_is_cut_short_is_the_first_part_of_its_cycle():
    found = simulate_stream(dense.pointer_chase(1 << 20, 1 << 22), LEVELS, time_limit_s=1e-9)
    first = simulate_stream(dense.pointer_chase(1 << 20, found.accesses), LEVELS)
    assert not found.complete
    assert 0 < found.accesses < 1 << 22
    assert found.levels == first.levels


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_a_limit_is_above_zero(seconds):
    with pytest.raises(RooflabError, match=r"time_limit_s is .*, expected a positive number of seconds"):
        simulate_stream(dense.triad(10), LEVELS, time_limit_s=seconds)
