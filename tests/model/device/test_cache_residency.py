"""What the last cache still holds: reuse distances by hand, shares between their bounds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rooflab
from rooflab.model.device import cache_residency
from rooflab.model.device.device import device_of
from rooflab.types.work import Graph, Op, TensorSpec

H200 = rooflab.machine("h200")
WARM, COLD = device_of(H200), device_of(H200, cache="cold")
L2 = float(WARM.cache_bytes)


def chain() -> Graph:
    """a → b → c, of 10, 20 and 30 bytes."""
    tensors = tuple(TensorSpec((n,), "int8", float(n), n) for n in (10, 20, 30))
    first = Op(name="aten.relu", kind="pointwise", inputs=(0,), outputs=(1,))
    second = Op(name="aten.exp", kind="pointwise", inputs=(1,), outputs=(2,))
    return Graph(framework="hand", tensors=tensors, ops=(first, second))


def test_reuse_distances_are_those_counted_by_hand() -> None:
    graph = chain()
    found = cache_residency.operand_accesses(graph, graph.ops)
    assert found.row.tolist() == [0, 0, 1, 1]
    assert found.written.tolist() == [False, True, False, True]
    # One round moves 10 + 20 + 20 + 30 = 80. a, c: a whole round; b: written again after 30 + 10 + 20
    # of the next round, read right after it was written.
    assert found.distance_bytes.tolist() == [80.0, 60.0, 20.0, 80.0]


def test_a_program_that_follows_itself_is_no_switch() -> None:
    graph = chain()
    found = cache_residency.program_switches(graph, graph.ops)
    assert found.switched.tolist() == [1.0, 1.0]
    assert found.distance_bytes.tolist() == [80.0, 80.0]
    alone = cache_residency.program_switches(graph, graph.ops[:1] * 2)
    assert alone.switched.tolist() == [0.0, 0.0]
    assert alone.distance_bytes.tolist() == [30.0, 30.0]
    assert cache_residency.program_switches(graph, ()).switched.size == 0


def test_a_switch_costs_more_where_nothing_is_held() -> None:
    far = cache_residency.ProgramSwitches(np.array([1.0, 1.0, 0.0]), np.array([0.0, 2 * L2, 2 * L2]))
    near, from_memory, same = cache_residency.program_fetch_s(far, WARM)[:, 0]
    assert 0 == same < near < from_memory
    assert cache_residency.program_fetch_s(far, COLD)[:, 0].tolist() == [from_memory, from_memory, 0.0]


@given(st.lists(st.floats(0, 1e12), min_size=2, max_size=20))
def test_the_cached_share_falls_from_one_to_nothing(distances: list[float]) -> None:
    share = cache_residency.cached_share(np.sort(distances), WARM)
    assert ((share >= 0) & (share <= 1)).all()
    assert (np.diff(share) <= 0).all()
    assert cache_residency.cached_share(np.array(0.0), WARM) == 1.0
    assert cache_residency.cached_share(np.array(L2), WARM) == 0.0


@given(st.floats(0, 1e12), st.floats(0, 1e12))
def test_displaced_bytes_are_dirty_ones_that_a_kernel_does_not_replace(read: float, write: float) -> None:
    assert cache_residency.displaced_dirty_bytes(read, write, WARM) == 0
    found = cache_residency.displaced_dirty_bytes(read, write, COLD)
    assert 0 <= found <= L2
    assert found <= read + 1e-6  # a difference of rounded sums
    assert cache_residency.displaced_dirty_bytes(0.0, write, COLD) == 0


def test_a_table_in_cache_costs_memory_nothing_warm_and_its_bytes_once_cold() -> None:
    small, large, tries = L2 / 10, 10 * L2, 100 * L2
    assert cache_residency.random_miss_share(tries, small, WARM) == 0.0
    # 1000 tries per byte of the table: every burst is touched, 1/1000 of the tries come from memory.
    assert cache_residency.random_miss_share(tries, small, COLD) == pytest.approx(1 / 1000)
    assert cache_residency.random_miss_share(tries, large, WARM) == 1.0
