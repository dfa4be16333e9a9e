"""What is dirty at the end: written back through every level, in rows of the arrays that own it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rooflab.cachesim.level import hierarchy
from rooflab.cachesim.run import final_write_back, replay
from rooflab.cachesim.run.streams import simulate_stream
from rooflab.cachesim.streams import dense
from rooflab.types.simulation import Cache
from support.cachesim.hierarchy_oracle import Level

HIERARCHIES = [
    [Cache(256, 2), Cache(1024, 4)],
    [Cache(256, 2), Cache(1024, 4, inclusion="exclusive")],
    [Cache(256, 2, 32), Cache(1024, 4, 64, inclusion="inclusive")],
    [Cache(256, 2, write_back=False), Cache(1024, 4)],
    [Cache(512, 2, 128, sector_bytes=32), Cache(2048, 4, 128, sector_bytes=64)],
    pytest.param([Cache(40 * 64, None), Cache(128 * 64, 2)], marks=pytest.mark.slow),  # 40 ways are hashed
]


def by_oracle(levels, trace):
    """(lines, bytes) that each level writes at the end, from the oracle's sets."""
    far = None
    chain = []
    for cache in reversed(levels):
        far = Level(cache, far)
        far.reference = 0
        chain.insert(0, far)
    unit = levels[0].unit_bytes
    for store, address, nbytes in trace:
        for each in range(address // unit, (address + nbytes - 1) // unit + 1):
            first, last = max(address, each * unit), min(address + nbytes, each * unit + unit)
            chain[0].ask("store" if store else "load", first, last - first)
    passing, found = set(), []
    for level in chain:
        size, line = level.c.unit_bytes, level.c.line_bytes
        passing = {address // size * size for address in passing}
        for entry in (entry for ways in level.sets for entry in ways if entry):
            for sector in range(line // size):
                if entry["dirty"] >> sector & 1:
                    passing.add(entry["line"] * line + sector * size)
        found.append((len({address // line for address in passing}), len(passing) * size))
    return found


traces = st.lists(
    st.tuples(st.booleans(), st.integers(0, 1 << 13), st.sampled_from([1, 8, 8, 100])), min_size=1, max_size=120
)


@pytest.mark.slow
@pytest.mark.parametrize("levels", HIERARCHIES, ids=range(len(HIERARCHIES)))
@given(trace=traces)
@settings(max_examples=60, deadline=None)
def test_what_is_left_equals_what_the_oracle_holds(levels, trace):
    built = hierarchy.build(levels, references=("all",))
    columns = [np.array(column, np.int64) for column in zip(*trace, strict=True)]
    stores, addresses, nbytes = columns
    replay.replay(built.address, stores, addresses, nbytes, np.zeros_like(stores))
    before = built.result("trace")
    after = final_write_back.written_back(before, built)
    found = [
        (b.writebacks - a.writebacks, b.write_bytes - a.write_bytes)
        for a, b in zip(before.levels, after.levels, strict=True)
    ]
    assert found == by_oracle(levels, trace)
    assert final_write_back.dirty_bytes(built) == tuple(nbytes for _, nbytes in found)
    for a, b in zip(before.levels, after.levels, strict=True):
        assert (a.hits, a.misses, a.evictions, a.read_bytes) == (b.hits, b.misses, b.evictions, b.read_bytes)
        assert sum(row.write_bytes for row in b.references) == b.write_bytes


@pytest.mark.slow
@pytest.mark.parametrize("n", [100, 1000, 100_000])
def test_all_of_a_triad_reaches_memory(n):
    # a = b + s · c of n doubles: a is written once, whatever the caches hold; whole lines are.
    found = simulate_stream(dense.triad(n), [Cache(32768, 8), Cache(1 << 20, 16)], flush=True)
    assert found.memory_write_bytes == -(-8 * n // 64) * 64
    assert sum(array.writebacks for array in found.levels[-1].arrays) == -(-8 * n // 64)


@pytest.mark.slow
def test_the_array_that_owns_a_line_gets_its_row():
    found = simulate_stream(dense.transpose(8), [Cache(32768, 8)], flush=True).levels[0]
    # B, 8 · 8 doubles in 8 lines, is all that is written, and stays until the end.
    assert [(array.name, array.writebacks, array.write_bytes) for array in found.arrays] == [
        ("A", 0, 0),
        ("B", 8, 512),
    ]
    assert found.references[-1].name == "B, dirty at the end"
    left = simulate_stream(dense.transpose(8), [Cache(32768, 8)]).levels[0]
    assert (left.writebacks, left.write_bytes) == (0, 0)
