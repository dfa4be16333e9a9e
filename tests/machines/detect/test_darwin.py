"""Macs, from what `sysctl -a` printed (written after Apple's documentation, not recorded on one)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rooflab.errors import FileError, MeasureError
from rooflab.machines.detect import detect, from_sysctl, granted_cores, is_whole, reported_cache

Recorded = Callable[[str], str]
KIB, MIB, GIB = 2**10, 2**20, 2**30


def test_an_m1_pro_has_two_kinds_of_cores_and_their_caches(recorded: Recorded) -> None:
    host = from_sysctl(recorded("m1_pro_6p_2e"))
    assert (host.name, host.vendor, host.architecture, host.system) == (
        "Apple M1 Pro",
        "Apple",
        "aarch64",
        "Darwin",
    )
    assert host.memory_bytes == host.memory_granted_bytes == 16 * GIB
    assert [cpu.kind for cpu in host.cpus] == ["P"] * 6 + ["E"] * 2
    assert host.microarchitecture == "Firestorm (M1 P)"
    assert host.cpus[-1].microarchitecture == "Icestorm (M1 E)"
    assert host.isa == ("dotprod", "fullfp16", "lse", "neon")
    assert host.tsc_hz == 24e6
    assert host.hypervisor is None
    assert not host.smt
    assert is_whole(host)
    assert granted_cores(host) == tuple(range(8))


@pytest.mark.parametrize(
    ("level", "cpu", "capacity", "shared", "instances"),
    [
        (1, 0, 128 * KIB, (0,), 6),
        (1, 6, 64 * KIB, (6,), 2),
        (2, 0, 12 * MIB, (0, 1, 2), 2),  # two clusters of three P-cores
        (2, 5, 12 * MIB, (3, 4, 5), 2),
        (2, 7, 4 * MIB, (6, 7), 1),
    ],
)
def test_m1_pro_caches(
    recorded: Recorded, level: int, cpu: int, capacity: int, shared: tuple[int, ...], instances: int
) -> None:
    found = reported_cache(from_sysctl(recorded("m1_pro_6p_2e")), level, cpu)
    assert found is not None
    assert (found.capacity_bytes, found.shared_cpus, found.instances) == (capacity, shared, instances)
    assert found.line_bytes == 128


def test_an_intel_mac_has_one_kind_of_core(recorded: Recorded) -> None:
    host = from_sysctl(recorded("intel_mac"))
    assert (host.architecture, host.family, host.model) == ("x86_64", 6, 158)
    assert host.microarchitecture == "Skylake"
    assert host.smt
    assert host.reported_max_hz == 2.6e9
    assert host.isa == ("avx", "avx2", "fma", "sse2", "sse4.2")
    assert granted_cores(host) == (0, 2, 4, 6, 8, 10)
    l3 = reported_cache(host, 3)
    assert l3 is not None
    assert (l3.capacity_bytes, l3.shared_by_cores, l3.instances) == (12 * MIB, 6, 1)


def test_malformed_value_is_a_note(recorded: Recorded) -> None:
    text = recorded("m1_pro_6p_2e").replace("hw.memsize: 17179869184", "hw.memsize: plenty")
    host = from_sysctl(text)
    assert host.memory_bytes is None
    assert "sysctl: hw.memsize: got 'plenty', expected a whole number; left unknown" in host.notes


def test_text_without_cpus() -> None:
    with pytest.raises(MeasureError, match=r"hw.logicalcpu are missing, so no CPU is known"):
        from_sysctl("hw.memsize: 1\n")


def test_a_snapshot_is_read_from_its_root(tmp_path: Path, recorded: Recorded) -> None:
    (tmp_path / "sysctl.txt").write_text(recorded("m1_pro_6p_2e"))
    assert detect(tmp_path, system="Darwin").name == "Apple M1 Pro"


def test_snapshot_root_without_sysctl(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"sysctl.txt: no such file, expected what `sysctl -a` printed on a Mac"):
        detect(tmp_path, system="Darwin")
