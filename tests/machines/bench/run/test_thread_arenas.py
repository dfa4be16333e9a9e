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
    assert arenas.window_bytes(working_mib * MIB) == window_mib * MIB
    assert arenas.lead(working_mib * MIB, 1) == lead


def test_cores_fill_a_shared_cache_together() -> None:
    assert ThreadArenas({}, 300 * MIB).lead(800 * MIB, 2) == 3  # 2 × 64 MiB at a time
