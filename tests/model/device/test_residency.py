"""What the last cache still holds: reuse distances by hand, shares between their bounds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rooflab
from rooflab.model.device import device as devices
from rooflab.model.device import residency
from rooflab.types.work import Graph, Op, TensorSpec

H200 = rooflab.machine("h200")
WARM, COLD = devices.of(H200), devices.of(H200, cache="cold")
L2 = float(WARM.cache_bytes)


def chain() -> Graph:
    """a → b → c, of 10, 20 and 30 bytes."""
    tensors = tuple(TensorSpec((n,), "int8", float(n), n) for n in (10, 20, 30))
    first = Op(name="aten.relu", kind="pointwise", inputs=(0,), outputs=(1,))
    second = Op(name="aten.exp", kind="pointwise", inputs=(1,), outputs=(2,))
    return Graph(framework="hand", tensors=tensors, ops=(first, second))


def test_distances_by_hand() -> None:
    graph = chain()
    found = residency.operands(graph, graph.ops)
    assert found.row.tolist() == [0, 0, 1, 1]
    assert found.written.tolist() == [False, True, False, True]
    # One round moves 10 + 20 + 20 + 30 = 80. a, c: a whole round; b: written again after 30 + 10 + 20
    # of the next round, read right after it was written.
    assert found.distance_bytes.tolist() == [80.0, 60.0, 20.0, 80.0]


def test_programs_by_hand() -> None:
    graph = chain()
    found = residency.codes(graph, graph.ops)
    assert found.switched.tolist() == [1.0, 1.0]
    assert found.distance_bytes.tolist() == [80.0, 80.0]
    alone = residency.codes(graph, graph.ops[:1] * 2)
    assert alone.switched.tolist() == [0.0, 0.0]
    assert alone.distance_bytes.tolist() == [30.0, 30.0]
    assert residency.codes(graph, ()).switched.size == 0


def test_a_switch_costs_more_where_nothing_is_held() -> None:
    far = residency.Codes(np.array([1.0, 1.0, 0.0]), np.array([0.0, 2 * L2, 2 * L2]))
    near, from_memory, same = residency.start_s(far, WARM)[:, 0]
    assert 0 == same < near < from_memory
    assert residency.start_s(far, COLD)[:, 0].tolist() == [from_memory, from_memory, 0.0]


@given(st.lists(st.floats(0, 1e12), min_size=2, max_size=20))
def test_held_share_falls_from_one_to_nothing(distances: list[float]) -> None:
    share = residency.held_share(np.sort(distances), WARM)
    assert ((share >= 0) & (share <= 1)).all()
    assert (np.diff(share) <= 0).all()
    assert residency.held_share(np.array(0.0), WARM) == 1.0
    assert residency.held_share(np.array(L2), WARM) == 0.0


@given(st.floats(0, 1e12), st.floats(0, 1e12))
def test_displaced_bytes_are_dirty_ones_that_a_kernel_does_not_replace(read: float, write: float) -> None:
    assert residency.displaced_bytes(read, write, WARM) == 0
    found = residency.displaced_bytes(read, write, COLD)
    assert 0 <= found <= L2
    assert found <= read + 1e-6  # a difference of rounded sums
    assert residency.displaced_bytes(0.0, write, COLD) == 0


def test_a_table_in_cache_costs_memory_nothing_warm_and_its_bytes_once_cold() -> None:
    small, large, tries = L2 / 10, 10 * L2, 100 * L2
    assert residency.missed_share(tries, small, WARM) == 0.0
    # 1000 tries per byte of the table: every burst is touched, 1/1000 of the tries come from memory.
    assert residency.missed_share(tries, small, COLD) == pytest.approx(1 / 1000)
    assert residency.missed_share(tries, large, WARM) == 1.0
