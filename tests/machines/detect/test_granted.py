"""Which CPUs to run on, how many, and what is said when they are fewer than the machine's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rooflab.errors import MeasureError
from rooflab.machines.detect import (
    Cpu,
    Host,
    granted_cores,
    granted_sentence,
    granted_threads,
    is_whole,
    mappable_bytes,
    physical_cores,
    require_memory,
)

MIB, GIB = 2**20, 2**30


def smt_host(**changes: object) -> Host:
    """Four cores of two threads, siblings n and n + 4, with 8 GiB."""
    cpus = tuple(Cpu(number=n, siblings=(n % 4, n % 4 + 4)) for n in range(8))
    host = Host(
        name="SMT", cpus=cpus, allowed_cpus=tuple(range(8)), memory_bytes=8 * GIB, memory_granted_bytes=8 * GIB
    )
    return replace(host, **changes)  # pyright: ignore[reportArgumentType]


def hybrid_host(allowed: tuple[int, ...]) -> Host:
    """Two E-cores (0, 1) and one P-core of two threads (2, 3)."""
    cpus = (
        Cpu(number=0, kind="E", siblings=(0,)),
        Cpu(number=1, kind="E", siblings=(1,)),
        Cpu(number=2, kind="P", siblings=(2, 3)),
        Cpu(number=3, kind="P", siblings=(2, 3)),
    )
    return Host(name="hybrid", cpus=cpus, allowed_cpus=allowed)


@pytest.mark.parametrize(
    ("host", "cores", "threads"),
    [
        (smt_host(), (0, 1, 2, 3), (0, 1, 2, 3, 4, 5, 6, 7)),
        (smt_host(allowed_cpus=(4, 5, 1)), (1, 4), (1, 4, 5)),  # 5 is the sibling of 1
        (smt_host(quota_cpus=2.9), (0, 1), (0, 1)),  # floor(2.9)
        (smt_host(quota_cpus=0.3), (0,), (0,)),  # at least one
        (smt_host(quota_cpus=100.0), (0, 1, 2, 3), (0, 1, 2, 3, 4, 5, 6, 7)),
        (hybrid_host((0, 1, 2, 3)), (2, 0, 1), (2, 0, 1, 3)),  # P first, siblings last
        (hybrid_host((0, 3)), (3, 0), (3, 0)),
    ],
)
def test_which_cores_and_threads_are_granted(host: Host, cores: tuple[int, ...], threads: tuple[int, ...]) -> None:
    assert granted_cores(host) == cores
    assert granted_threads(host) == threads
    assert set(cores) <= set(threads) <= set(host.allowed_cpus)


@pytest.mark.parametrize(
    ("changes", "reductions"),
    [
        ({}, None),
        ({"quota_cpus": 8.0}, None),  # as much as there is
        (
            {"allowed_cpus": (0, 4), "limited_by": ("cpuset",), "quota_cpus": 1.5},
            "1 of 4 cores (cpuset), 1.5 CPUs of quota (cgroup)",
        ),
        (
            {"allowed_cpus": (0, 1, 2, 3), "limited_by": ("affinity",)},
            "4 of 8 hardware threads (affinity)",
        ),
        (
            {"memory_granted_bytes": GIB},
            "1 GiB of 8 GiB memory (cgroup)",
        ),
        (
            {"allowed_cpus": (1,), "limited_by": ("cpuset", "argument")},
            "1 of 4 cores (cpuset, argument)",
        ),
    ],
)
def test_the_sentence_lists_what_is_granted_less(changes: dict[str, object], reductions: str | None) -> None:
    host = smt_host(**changes)
    sentence = f"Roofline of the resources available to this process: {reductions}."
    assert granted_sentence(host) == (sentence if reductions else None)
    assert is_whole(host) == (reductions is None)


def test_siblings_are_one_physical_core() -> None:
    assert physical_cores(smt_host()) == 4
    assert physical_cores(hybrid_host((0,))) == 3


@pytest.mark.parametrize("granted", [512 * MIB, 8 * GIB, None])
def test_memory_that_suffices_or_is_unknown(granted: int | None) -> None:
    assert require_memory(smt_host(memory_granted_bytes=granted)) is None


def test_too_little_memory_by_cgroup() -> None:
    message = (
        r"^cgroup memory limit: got 256 MiB, expected at least 512 MiB to measure in; "
        r"raise the limit \(docker: --memory\)$"
    )
    with pytest.raises(MeasureError, match=message):
        require_memory(smt_host(memory_granted_bytes=256 * MIB))


def test_too_little_memory_in_the_machine() -> None:
    host = smt_host(memory_bytes=256 * MIB, memory_granted_bytes=256 * MIB)
    with pytest.raises(
        MeasureError, match=r"^memory of this machine: got 256 MiB, .* measure on a larger machine$"
    ):
        require_memory(host)


@pytest.mark.parametrize("limit", [1, 600 * 10**6, 512 * MIB + 8 * 160 * MIB])
def test_too_small_an_address_space(limit: int) -> None:
    message = (
        r"^out of memory: the address space is limited to .*B, expected at least 1\.93 GB to measure with 8 CPUs"
    )
    with pytest.raises(MeasureError, match=message):
        require_memory(smt_host(address_space_bytes=limit))


def test_arrays_get_what_libraries_and_threads_leave_of_the_address_space() -> None:
    assert mappable_bytes(smt_host()) is None
    # 512 MiB for libraries, 160 MiB for each of 8 threads
    host = smt_host(address_space_bytes=4096 * MIB)
    assert mappable_bytes(host) == (4096 - 512 - 8 * 160) * MIB
    assert require_memory(host) is None
