"""A real laptop's /sys: 6 P-cores of two threads and 8 E-cores (hwloc's test data, BSD-3-Clause)."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from rooflab.machines.detect import Host, detect, granted_cores, granted_threads, physical_cores, reported_cache

ARCHIVE = Path(__file__).resolve().parents[4] / "shared" / "samples" / "hwloc_sysfs_hybrid_6P8E.tar.bz2"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not ARCHIVE.exists(), reason=f"{ARCHIVE.name} is not beside the checkout"),
]

KIB, MIB = 2**10, 2**20


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Host:
    directory = tmp_path_factory.mktemp("hybrid")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(directory, filter="data")
    (root,) = directory.iterdir()
    return detect(root)


def test_the_laptop_is_named_by_its_p_cores(host: Host) -> None:
    assert host.name == "13th Gen Intel(R) Core(TM) i7-1370P"
    assert (host.family, host.model) == (6, 186)
    assert host.microarchitecture == "Golden Cove"
    assert host.hypervisor is None
    assert host.notes == ()


def test_kinds_without_the_kernels_lists(host: Host) -> None:
    # The archive has no /sys/devices/cpu_core: the lower clock and the shared L2 tell.
    assert [cpu.number for cpu in host.cpus if cpu.kind == "P"] == list(range(12))
    assert [cpu.number for cpu in host.cpus if cpu.kind == "E"] == list(range(12, 20))
    assert {cpu.microarchitecture for cpu in host.cpus if cpu.kind == "E"} == {"Gracemont"}
    assert {cpu.max_hz for cpu in host.cpus if cpu.kind == "E"} == {3.9e9}
    assert host.reported_max_hz == 5.2e9


def test_one_thread_of_each_core_is_used_p_cores_first(host: Host) -> None:
    assert host.smt
    assert physical_cores(host) == 14
    assert granted_cores(host) == (0, 2, 4, 6, 8, 10, 12, 13, 14, 15, 16, 17, 18, 19)
    assert granted_threads(host)[14:] == (1, 3, 5, 7, 9, 11)


@pytest.mark.parametrize(
    ("level", "cpu", "capacity", "shared_by_cores", "instances"),
    [
        (1, 0, 48 * KIB, 1, 6),
        (1, 12, 32 * KIB, 1, 8),
        (2, 0, 1280 * KIB, 1, 6),
        (2, 12, 2 * MIB, 4, 2),  # four E-cores share one
        (3, 0, 24 * MIB, 14, 1),
    ],
)
def test_e_cores_share_an_l2_and_all_share_the_l3(
    host: Host, level: int, cpu: int, capacity: int, shared_by_cores: int, instances: int
) -> None:
    found = reported_cache(host, level, cpu)
    assert found is not None
    assert (found.capacity_bytes, found.shared_by_cores, found.instances) == (capacity, shared_by_cores, instances)
