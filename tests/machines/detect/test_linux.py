"""Topology, caches and names from snapshots of /proc and /sys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from rooflab.errors import FileError, MeasureError
from rooflab.machines.detect import CacheInstance, ReportedCache, detect, granted_cores, reported_cache

Snapshot = Callable[..., Path]

KIB, MIB, GIB = 2**10, 2**20, 2**30
BASE = "sys/devices/system/cpu"


def test_a_guest_is_described_whole(snapshot: Snapshot) -> None:
    host = detect(snapshot("zen4_guest"))
    assert (host.name, host.vendor, host.architecture) == ("AMD EPYC", "AuthenticAMD", "x86_64")
    assert (host.family, host.model, host.stepping) == (25, 17, 1)
    assert host.microarchitecture == "Zen 4"
    assert host.hypervisor == "KVM"
    assert host.huge_pages == "madvise"
    assert host.kernel == "6.1.0-guest"
    assert host.tsc_hz == 2.6e9  # BogoMIPS 5200 × 500,000
    assert host.reported_max_hz is None
    assert not host.smt
    assert (host.memory_bytes, host.memory_available_bytes) == (8 * GIB, 7 * GIB)
    assert "avx512bf16" in host.isa
    assert "hypervisor" not in host.isa  # a flag, but no extension
    assert host.notes == ("no clock reported under /sys/devices/system/cpu/cpu*/cpufreq (usual for a guest)",)


def test_caches_once_each(snapshot: Snapshot) -> None:
    host = detect(snapshot("zen4_guest"))
    assert len(host.caches) == 7  # 2 × (L1d, L1i, L2) + 1 shared L3
    assert host.caches[-1] == CacheInstance(
        level=3,
        kind="unified",
        shared_cpus=(0, 1),
        capacity_bytes=32 * MIB,
        ways=16,
        line_bytes=64,
        sets=32768,  # 16 ways × 64 B × 32768 = 32 MiB
    )


@pytest.mark.parametrize(
    ("level", "cpu", "expected"),
    [
        (1, 0, (32 * KIB, (0, 4), 1, 4)),
        (2, 3, (1 * MIB, (3,), 1, 4)),
        (3, 6, (16896 * KIB, (2, 3, 6), 2, 2)),
    ],
)
def test_a_reported_cache_says_who_shares_it(
    snapshot: Snapshot, level: int, cpu: int, expected: tuple[int, tuple[int, ...], int, int]
) -> None:
    found = reported_cache(detect(snapshot("xeon_two_sockets")), level, cpu)
    assert isinstance(found, ReportedCache)
    assert (found.capacity_bytes, found.shared_cpus, found.shared_by_cores, found.instances) == expected


def test_no_such_level(snapshot: Snapshot) -> None:
    assert reported_cache(detect(snapshot("zen4_guest")), 4) is None


def test_two_sockets_with_one_cpu_offline(snapshot: Snapshot) -> None:
    host = detect(snapshot("xeon_two_sockets"))
    assert host.smt
    assert host.offline_cpus == (7,)
    assert [cpu.package for cpu in host.cpus] == [0, 0, 1, 1, 0, 0, 1]
    assert [cpu.node for cpu in host.cpus] == [0, 0, 1, 1, 0, 0, 1]
    assert [cpu.siblings for cpu in host.cpus][:4] == [(0, 4), (1, 5), (2, 6), (3,)]
    assert [node.cpus for node in host.nodes] == [(0, 1, 4, 5), (2, 3, 6)]
    assert [node.distances for node in host.nodes] == [(10, 21), (21, 10)]
    assert host.nodes[0].memory_bytes == 32 * GIB
    assert host.reported_max_hz == 3.2e9
    assert host.governor == "performance"
    assert host.kernel == "5.10.0-21-amd64"  # from /proc/version
    assert host.hypervisor is None
    assert host.microarchitecture == "Cascade Lake (one FMA unit)"  # Silver
    assert granted_cores(host) == (0, 1, 2, 3)
    assert host.notes == ()


def test_arm_with_two_kinds_of_core(snapshot: Snapshot) -> None:
    host = detect(snapshot("arm_big_little"))
    assert host.architecture == "aarch64"
    assert host.name == "Arm Cortex-A76"
    assert (host.implementer, host.part, host.variant) == (0x41, 0xD0B, 4)
    assert [cpu.kind for cpu in host.cpus] == ["E", "E", "P", "P"]
    assert [cpu.microarchitecture for cpu in host.cpus] == [None, None, "Cortex-A76", "Cortex-A76"]
    assert [cpu.package for cpu in host.cpus] == [None] * 4  # the kernel's -1 is "unknown"
    assert host.isa == ("dotprod", "fullfp16", "lse", "neon")  # sve is not on every core
    assert host.sve_bits == 256
    assert host.hypervisor is None
    assert granted_cores(host) == (2, 3, 0, 1)  # P-cores first
    assert any(note.startswith("no caches reported under") for note in host.notes)


def test_intel_lists_of_kinds_come_first(snapshot: Snapshot) -> None:
    lists = {"sys/devices/cpu_core/cpus": "0\n", "sys/devices/cpu_atom/cpus": "1\n"}
    assert [cpu.kind for cpu in detect(snapshot("zen4_guest", lists)).cpus] == ["P", "E"]


def test_a_list_of_one_kind_only_is_no_hybrid(snapshot: Snapshot) -> None:
    lists = {"sys/devices/cpu_core/cpus": "0-1\n", "sys/devices/cpu_atom/cpus": "\n"}
    assert [cpu.kind for cpu in detect(snapshot("zen4_guest", lists)).cpus] == [None, None]


def test_favoured_cores_are_not_another_kind(snapshot: Snapshot) -> None:
    clocks = {f"{BASE}/cpu{n}/cpufreq/cpuinfo_max_freq": khz for n, khz in ((0, "5000000"), (1, "5200000"))}
    capacity = {f"{BASE}/cpu{n}/cpu_capacity": size for n, size in ((0, "1009"), (1, "1024"))}
    host = detect(snapshot("zen4_guest", {**clocks, **capacity}))
    assert [cpu.kind for cpu in host.cpus] == [None, None]
    assert host.reported_max_hz == 5.2e9


def test_midr_where_cpuinfo_lacks_it(snapshot: Snapshot) -> None:
    # MIDR of Neoverse N1 r3p1: implementer 0x41, variant 3, architecture 0xf, part 0xd0c, revision 1
    midr = {f"{BASE}/cpu{n}/regs/identification/midr_el1": "0x00000000413fd0c1\n" for n in range(4)}
    bare = {"proc/cpuinfo": "\n\n".join(f"processor : {n}\nFeatures : fp asimd" for n in range(4))}
    host = detect(snapshot("arm_big_little", {**bare, **midr}))
    assert (host.implementer, host.part, host.variant) == (0x41, 0xD0C, 3)
    assert host.microarchitecture == "Neoverse N1"
    assert host.name == "Arm Neoverse N1"


@pytest.mark.parametrize(
    ("changes", "hypervisor"),
    [
        ({"sys/devices/virtual/dmi/id/sys_vendor": "Amazon EC2"}, "KVM (Amazon EC2)"),
        ({"sys/devices/virtual/dmi/id/product_name": "VMware7,1"}, "VMware"),
        ({"sys/devices/virtual/dmi/id/product_name": "Virtual Machine"}, "Hyper-V"),
        ({"sys/hypervisor/type": "xen"}, "xen"),
        ({"sys/devices/system/clocksource/clocksource0/available_clocksource": "tsc"}, "unknown"),
        ({}, "KVM"),
    ],
)
def test_the_hypervisor_is_named_by_its_firmware_or_clock(
    snapshot: Snapshot, changes: Mapping[str, str], hypervisor: str
) -> None:
    assert detect(snapshot("zen4_guest", changes)).hypervisor == hypervisor


@pytest.mark.parametrize(
    ("vendor", "product", "hypervisor"),
    [
        ("Amazon EC2", "c7g.metal", None),  # the cloud's name, but the whole machine
        ("Amazon EC2", "c7g.large", "KVM (Amazon EC2)"),
        ("QEMU", "KVM Virtual Machine", "KVM"),
        ("Board Inc.", "Board 5", None),
    ],
)
def test_hypervisor_on_arm(snapshot: Snapshot, vendor: str, product: str, hypervisor: str | None) -> None:
    dmi = "sys/devices/virtual/dmi/id"
    root = snapshot("arm_big_little", {f"{dmi}/sys_vendor": vendor, f"{dmi}/product_name": product})
    assert detect(root).hypervisor == hypervisor


def test_no_caches_is_a_note_with_what_cpuinfo_says(snapshot: Snapshot) -> None:
    root = snapshot("zen4_guest")
    for path in root.glob("sys/devices/system/cpu/cpu*/cache/index*/*"):
        path.unlink()
    host = detect(root)
    assert host.caches == ()
    where = "no caches reported under /sys/devices/system/cpu/cpu0/cache"
    assert f"{where}; /proc/cpuinfo says 'cache size 1024 KB' without a level" in host.notes


@pytest.mark.parametrize(
    ("path", "text", "note"),
    [
        (f"{BASE}/cpu0/cache/index3/size", "?", "got '?', expected a size such as '32K'; left unknown"),
        (f"{BASE}/cpu0/topology/core_id", "x", "got 'x', expected a whole number; left unknown"),
        (f"{BASE}/online", "0..1", "got '0..1', expected a list such as '0-3,8'; left unknown"),
        ("sys/kernel/mm/transparent_hugepage/enabled", "madvise", "expected choices with one in brackets"),
        ("proc/meminfo", "MemTotal: many\n", "MemTotal: got 'many', expected a size in kB; left unknown"),
        ("proc/cpuinfo", "processor : 0\nmodel : x\nbogomips : y\n\n", "model: got 'x', expected a whole number"),
    ],
)
def test_malformed_file_is_a_note_not_a_crash(snapshot: Snapshot, path: str, text: str, note: str) -> None:
    host = detect(snapshot("zen4_guest", {path: text}))
    assert any(path in one and note in one for one in host.notes), host.notes
    assert host.allowed_cpus  # and there is still a machine


def test_nothing_but_numbered_cpus(tmp_path: Path) -> None:
    (tmp_path / "sys/devices/system/cpu/cpu0").mkdir(parents=True)
    (tmp_path / "sys/devices/system/cpu/cpu1").mkdir()
    host = detect(tmp_path)
    assert [cpu.siblings for cpu in host.cpus] == [(0,), (1,)]
    assert host.name == "unknown CPU"
    assert host.memory_bytes is None
    assert (host.microarchitecture, host.architecture, host.isa) == (None, None, ())
    assert any("each CPU is taken for a core of its own" in note for note in host.notes)


def test_an_empty_root_has_no_cpu(tmp_path: Path) -> None:
    with pytest.raises(MeasureError, match=r"no CPU found in .*, expected proc/cpuinfo or sys/devices/system/cpu"):
        detect(tmp_path)


def test_no_such_root(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"nowhere: not a directory, expected '/' or a snapshot"):
        detect(tmp_path / "nowhere")


def test_another_system_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MeasureError, match=r"on Plan9, expected Linux or macOS \(Darwin\)"):
        detect(tmp_path, system="Plan9")


def test_allowed_cpus_argument(snapshot: Snapshot) -> None:
    root = snapshot("xeon_two_sockets")
    host = detect(root, allowed_cpus=[6, 2])
    assert host.allowed_cpus == (2, 6)
    assert host.limited_by == ("argument",)
    assert granted_cores(host) == (2,)  # 6 is the SMT sibling of 2


@pytest.mark.parametrize(
    ("wanted", "got"), [([0, 7], "got CPU 7, which is not online"), ([], "got no CPU"), ([-1], "got CPU -1")]
)
def test_allowed_cpus_refused(snapshot: Snapshot, wanted: list[int], got: str) -> None:
    with pytest.raises(MeasureError, match=rf"allowed_cpus: {got}.*, expected some of 0-6"):
        detect(snapshot("xeon_two_sockets"), allowed_cpus=wanted)
