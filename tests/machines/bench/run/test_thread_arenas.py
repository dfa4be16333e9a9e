"""How much of a large working set one sample streams through."""

from __future__ import annotations

import pytest

from rooflab.machines.bench.run.thread_arenas import ThreadArenas
from rooflab.units import MIB


@pytest.mark.parametrize(
    ("last_mib", "working_mib", "window_mib", "lead"),
    [
        (32, 1, 1, 0),  # within the cache: all of it
        (32, 40, 40, 0),  # not far enough beyond: a part of it may still be there
        (32, 128, 32, 1),  # a quarter; one window of 32 MiB fills the cache
        (300, 800, 64, 5),  # at most 64 MiB, of which 4.7 fill it
        (None, 800, 800, 0),  # an unknown cache
    ],
)
def test_windows(last_mib: int | None, working_mib: int, window_mib: int, lead: int) -> None:
    arenas = ThreadArenas({}, last_mib * MIB if last_mib else None)
    assert arenas.window_bytes(working_mib * MIB, 1) == window_mib * MIB
    assert arenas.lead(working_mib * MIB, 1) == lead


def test_cores_fill_a_shared_cache_together() -> None:
    arenas = ThreadArenas({}, 300 * MIB, sharers=2)
    assert arenas.lead(800 * MIB, 2) == 3  # 150 MiB each
    # 300 MiB are beyond the half of it that each of two has, not beyond the whole that one has.
    assert arenas.window_bytes(300 * MIB, 2) == 64 * MIB
    assert arenas.window_bytes(300 * MIB, 1) == 300 * MIB


def test_cores_with_caches_of_their_own_fill_one_each() -> None:
    assert ThreadArenas({}, 300 * MIB, sharers=1).lead(800 * MIB, 2) == 5
