"""How much is measured on machines large and small: sizes, memory, CPUs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooflab.errors import MeasureError
from rooflab.machines.bench.levels.levels import CoreCache
from rooflab.machines.bench.plan import (
    DEFAULT,
    QUICK,
    SMALLEST_BYTES,
    Sizes,
    cpus_to_use,
    reported_caches,
    sizes_to_sweep,
    with_sustained,
)
from rooflab.machines.bench.run.thread_arenas import SLACK_BYTES
from rooflab.machines.detect import CacheInstance, Cpu, Host
from rooflab.units import GIB, KIB, MIB


def caches(l3_bytes: float | None, sharers: int) -> tuple[CoreCache, ...]:
    found = [CoreCache("L1", 32 * KIB), CoreCache("L2", 512 * KIB)]
    if l3_bytes:
        found.append(CoreCache("L3", l3_bytes, sharers, sharers))
    return tuple(found)


def arenas(found: Sizes, cpus: int) -> int:
    """Bytes that the arenas take, slack and rounding to huge pages included."""
    each = [max(found.core[-1], found.every[-1]), *[found.every[-1]] * (cpus - 1)]
    return sum(-(-(size + SLACK_BYTES) // (2 * MIB)) * 2 * MIB for size in each)


@pytest.mark.parametrize("plan", [DEFAULT, QUICK], ids=["default", "quick"])
@pytest.mark.parametrize(
    ("granted", "cpus", "l3_bytes", "sharers"),
    [
        (24 * GIB, 2, 32 * MIB, 2),
        (24 * GIB, 1, 32 * MIB, 1),
        (512 * GIB, 96, 32 * MIB, 8),
        (512 * GIB, 8, 96 * MIB, 8),
        (4 * GIB, 2, None, 1),
        (8 * GIB, 8, 16 * MIB, 8),
        (None, 4, 8 * MIB, 4),
        (1 * GIB, 2, 32 * MIB, 2),
        (512 * MIB, 2, 32 * MIB, 2),
        # a container with a limit on memory and none on CPUs
        (1 * GIB, 96, 32 * MIB, 8),
    ],
)
def test_memory_stays_within_the_bound(
    plan: object, granted: int | None, cpus: int, l3_bytes: float | None, sharers: int
) -> None:
    found = sizes_to_sweep(plan, caches(l3_bytes, sharers), tuple(range(cpus)), granted)  # type: ignore[arg-type]
    # 2 GiB, or a quarter of what is granted, 400 MiB of Python and its libraries included. Where that leaves
    # next to nothing: 48 MiB, or one huge page a core with its slack.
    own = 400 * MIB
    bound = max(min(2 * GIB, (granted or 8 * GIB) // 4) - own, 48 * MIB, 4 * MIB * cpus)
    assert arenas(found, cpus) <= bound + 2 * MIB * (cpus + 1)  # rounding up to huge pages
    assert arenas(found, cpus) < (granted or 8 * GIB) // 2


@pytest.mark.parametrize(
    ("mappable", "bound"), [(200 * MIB, 200), (1 * MIB, 48), (8 * GIB, 2048 - 400), (None, 2048 - 400)]
)
def test_arenas_stay_within_the_address_space(mappable: int | None, bound: int) -> None:
    sizes = sizes_to_sweep(DEFAULT, caches(32 * MIB, 2), (0, 1), 24 * GIB, mappable)
    assert arenas(sizes, 2) <= bound * MIB + 2 * MIB * 3  # rounding up to huge pages


@given(
    granted=st.none() | st.integers(512 * MIB, 2**40),
    cpus=st.integers(1, 16),
    l3_mib=st.none() | st.integers(1, 512),
)
def test_sizes_ascend_from_the_smallest(granted: int | None, cpus: int, l3_mib: int | None) -> None:
    found = sizes_to_sweep(DEFAULT, caches(l3_mib * MIB if l3_mib else None, cpus), tuple(range(cpus)), granted)
    for working_sets in (found.core, found.every, found.latency):
        assert working_sets[0] == SMALLEST_BYTES
        assert list(working_sets) == sorted(set(working_sets))
        assert working_sets[-1] >= 2 * MIB
        assert all(size % KIB == 0 for size in working_sets)
    assert found.every[-1] <= found.core[-1]
    assert found.latency[-1] <= found.core[-1]


def test_one_core_reaches_four_times_the_last_cache() -> None:
    found = sizes_to_sweep(DEFAULT, caches(32 * MIB, 2), (0, 1), 24 * GIB)
    assert found.core[-1] >= 4 * 32 * MIB
    assert found.beyond is not None
    assert found.beyond >= 4


@pytest.mark.parametrize(
    ("granted", "cpus", "l3_bytes", "sharers", "instances"),
    [(512 * GIB, 96, 32 * MIB, 8, 12), (1 * GIB, 2, 32 * MIB, 2, 1), (24 * GIB, 6, 16 * MIB, 4, 2)],
)
def test_how_far_beyond_the_caches(granted: int, cpus: int, l3_bytes: float, sharers: int, instances: int) -> None:
    found = sizes_to_sweep(DEFAULT, caches(l3_bytes, sharers), tuple(range(cpus)), granted)
    together = cpus * found.every[-1] / (instances * l3_bytes)
    assert found.beyond == pytest.approx(min(found.core[-1] / l3_bytes, together))


def test_how_far_beyond_caches_that_are_not_reported() -> None:
    assert sizes_to_sweep(DEFAULT, (), (0, 1), 24 * GIB).beyond is None


def test_a_quick_plan_is_less_work() -> None:
    few, many = (sizes_to_sweep(plan, caches(32 * MIB, 2), (0, 1), 24 * GIB) for plan in (QUICK, DEFAULT))
    assert len(few.core) < len(many.core)
    assert few.core[-1] == many.core[-1]
    assert QUICK.disk_s == 0 < DEFAULT.disk_s
    assert not QUICK.all_sweep


def test_sustained_is_asked_for() -> None:
    assert with_sustained(DEFAULT, False) == DEFAULT
    assert with_sustained(DEFAULT, True).sustained_s == 10.0


def host(count: int, threads_per_core: int = 1, **more: object) -> Host:
    """A machine whose CPU n and n + cores are siblings, with an L3 per four cores."""
    cores = count // threads_per_core
    siblings = {cpu: tuple(range(cpu % cores, count, cores)) for cpu in range(count)}
    cpus = tuple(Cpu(number=cpu, siblings=siblings[cpu]) for cpu in range(count))
    found: list[CacheInstance] = []
    for core in range(cores):
        for level, kind, size in ((1, "data", 32 * KIB), (1, "instruction", 32 * KIB), (2, "unified", 512 * KIB)):
            found.append(
                CacheInstance(level=level, kind=kind, shared_cpus=siblings[core], capacity_bytes=size)  # type: ignore[arg-type]
            )
    for first in range(0, cores, 4):
        shared = tuple(sorted(cpu for core in range(first, min(cores, first + 4)) for cpu in siblings[core]))
        found.append(CacheInstance(level=3, kind="unified", shared_cpus=shared, capacity_bytes=16 * MIB))
    given: dict = {"allowed_cpus": tuple(range(count)), "caches": tuple(found), **more}
    return Host(name="test", cpus=cpus, **given)


def test_one_thread_per_core_by_default() -> None:
    assert cpus_to_use(host(8, 2), None) == (0, 1, 2, 3)


def test_threads_as_asked_cores_before_siblings() -> None:
    assert cpus_to_use(host(8, 2), 6) == (0, 1, 2, 3, 4, 5)
    assert cpus_to_use(host(8, 2), 1) == (0,)


@pytest.mark.parametrize("threads", [0, -1, 9, 99])
def test_threads_that_are_not_granted(threads: int) -> None:
    with pytest.raises(MeasureError) as caught:
        cpus_to_use(host(8, 2), threads)
    assert str(caught.value) == (
        f"--threads: got {threads}, expected 1 to 8, the hardware threads that are granted"
    )


def test_threads_beyond_the_quota() -> None:
    with pytest.raises(MeasureError, match="got 3, expected 1 to 2"):
        cpus_to_use(host(8, quota_cpus=2.5), 3)


def test_reported_caches_near_to_far_without_instructions() -> None:
    found = reported_caches(host(8), tuple(range(8)))
    assert [(cache.name, cache.capacity_bytes) for cache in found] == [
        ("L1", 32 * KIB),
        ("L2", 512 * KIB),
        ("L3", 16 * MIB),
    ]
    # 4 of the 8 measured cores share the first one's L3.
    assert [cache.granted_sharers for cache in found] == [1, 1, 4]
    assert [cache.granted_sharers for cache in reported_caches(host(8), (0, 5))] == [1, 1, 1]


def test_no_reported_caches() -> None:
    assert reported_caches(host(8, caches=()), tuple(range(8))) == ()


def test_the_largest_caches_are_swept_in_few_steps() -> None:
    found = sizes_to_sweep(DEFAULT, caches(300 * MIB, 2), (0, 1), 512 * GIB)
    large = [size // MIB for size in found.core if size > 64 * MIB]
    # Two an octave up to twice the cache, then main memory: 2 GiB less 400 MiB, a half of it for one core.
    assert large == [96, 128, 192, 256, 384, 512, 824]
    # Two cores that share a cache need not each go as far beyond it as one.
    assert found.every[-1] == 600 * MIB
