"""The latency of a level: clear of the nearer level's hits, untouched by what other guests evict."""

from __future__ import annotations

from rooflab.machines.bench.levels.levels import CoreCache, MeasuredLevel, latency_size
from rooflab.machines.bench.levels.plateaus import NamedPlateau
from rooflab.timing import Series
from rooflab.units import KIB, MIB

L2 = MeasuredLevel(
    NamedPlateau("L2", 40 * KIB, 768 * KIB, 768 * KIB, 117e9), 256 * KIB, 256 * KIB, CoreCache("L2", 1 * MIB)
)
L3 = MeasuredLevel(
    NamedPlateau("L3", 1 * MIB, 8 * MIB, 14 * MIB, 98e9), 4 * MIB, 4 * MIB, CoreCache("L3", 32 * MIB)
)


def loads(*pairs: tuple[float, float]) -> dict[int, Series]:
    return {int(size): Series((1 / (nanoseconds * 1e-9),)) for size, nanoseconds in pairs}


def test_hits_of_the_nearer_level_and_evictions_are_left_out() -> None:
    # 1 and 2 MiB still hit the L2 (2.5 × 1 MiB is clear of it); 4 and 6 MiB were evicted by other guests.
    found = loads(
        (1 * MIB, 8.8), (2 * MIB, 13.8), (3 * MIB, 15.5), (4 * MIB, 86.0), (6 * MIB, 90.0), (64 * MIB, 115)
    )
    assert latency_size(found, L3, L2) == 3 * MIB


def test_a_short_plateau_is_read_at_its_working_set() -> None:
    found = loads((1 * MIB, 8.8), (2 * MIB, 13.8))
    assert latency_size(found, L3, L2) == 2 * MIB


def test_without_a_sample_it_is_unknown() -> None:
    assert latency_size({}, L3, L2) is None
