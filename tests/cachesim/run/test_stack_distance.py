"""Miss-ratio curves against caches simulated one by one."""

from __future__ import annotations

import pytest

from rooflab.cachesim.run import stack_distance
from rooflab.cachesim.run.streams import simulate_stream
from rooflab.cachesim.streams import dense, sparse
from rooflab.errors import RooflabError
from rooflab.types.simulation import Cache

STREAMS = [
    dense.sequential(1 << 15, passes=3),
    dense.matmul(24),
    dense.stencil2d(40, sweeps=3),
    pytest.param(dense.random(1 << 16, 20_000), marks=pytest.mark.slow),
    pytest.param(sparse.pagerank(1 << 9, 4, iterations=2), marks=pytest.mark.slow),
    dense.strided(1 << 14, 60, passes=4),  # crosses lines
]


@pytest.mark.slow
@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.name)
def test_a_curve_holds_the_misses_of_every_capacity(stream):
    curve = stack_distance.curve_of(stream)
    for lines in (1, 2, 3, 8, 40, 100, 513, 5000):
        found = simulate_stream(stream, [Cache(lines * 64, None)]).levels[0]
        assert (curve.misses(lines * 64), curve.requests) == (found.misses, found.requests)


@pytest.mark.slow
def test_a_larger_cache_never_misses_more_and_the_largest_misses_each_line_once():
    curve = stack_distance.curve_of(dense.matmul(40))
    found = [curve.misses(lines * 64) for lines in range(1, 1000)]
    assert found == sorted(found, reverse=True)
    # three matrices of 40 × 40 doubles, 200 lines each
    assert found[-1] == curve.compulsory == 600


def test_a_line_must_be_a_power_of_two():
    with pytest.raises(RooflabError, match="line_bytes is 48, expected a power of two"):
        stack_distance.curve_of(dense.matmul(8), 48)
