"""Control groups of every kind: which quota, cpuset and memory limit binds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from rooflab.machines.detect import detect, granted_cores, granted_sentence, is_whole

GIB = 2**30
Snapshot = Callable[[str, Mapping[str, str | None]], Path]

V2_MOUNT = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
V1_MOUNTS = (
    "33 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "34 31 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "35 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
)
BASE = "sys/fs/cgroup"

CASES = {
    "v2: the process's own group": (
        {
            "proc/self/mountinfo": V2_MOUNT,
            "proc/self/cgroup": "0::/user.slice/app\n",
            f"{BASE}/user.slice/app/cpu.max": "150000 100000\n",
            f"{BASE}/user.slice/app/memory.max": f"{GIB}\n",
            f"{BASE}/user.slice/app/memory.current": f"{GIB // 2}\n",
        },
        (1.5, GIB, GIB // 2),  # 150 ms in 100 ms; no file cache to drop, so half is left
    ),
    "v2: an ancestor is tighter": (
        {
            "proc/self/mountinfo": V2_MOUNT,
            "proc/self/cgroup": "0::/pod/box\n",
            f"{BASE}/pod/cpu.max": "50000 100000\n",
            f"{BASE}/pod/memory.max": f"{2 * GIB}\n",
            f"{BASE}/pod/box/cpu.max": "max 100000\n",
            f"{BASE}/pod/box/memory.max": f"{3 * GIB}\n",
        },
        (0.5, 2 * GIB, 7 * GIB),  # usage unknown: what is available stays the machine's 7 GiB
    ),
    "v2: root of a namespace, whose path is not visible": (
        {
            "proc/self/mountinfo": V2_MOUNT,
            "proc/self/cgroup": "0::/docker/0123abcd\n",
            f"{BASE}/cpu.max": "200000 100000\n",
            f"{BASE}/memory.max": f"{4 * GIB}\n",
        },
        (2.0, 4 * GIB, 7 * GIB),
    ),
    "v2: a process outside the namespace's root": (
        {
            "proc/self/mountinfo": V2_MOUNT,
            "proc/self/cgroup": "0::/../other\n",
            f"{BASE}/cpu.max": "max 100000\n",
            f"{BASE}/memory.max": "max\n",
        },
        (None, 8 * GIB, 7 * GIB),
    ),
    "v2 with nothing mounted in /proc": (
        {
            "proc/self/cgroup": "0::/\n",
            f"{BASE}/cgroup.controllers": "cpu memory\n",
            f"{BASE}/cpu.max": "100000\n",  # the period may be left out: the kernel's default is 100 ms
        },
        (1.0, 8 * GIB, 7 * GIB),
    ),
    "v1": (
        {
            "proc/self/mountinfo": V1_MOUNTS,
            "proc/self/cgroup": "5:memory:/box\n4:cpu,cpuacct:/box\n3:cpuset:/\n0::/\n",
            f"{BASE}/cpu,cpuacct/box/cpu.cfs_quota_us": "25000\n",
            f"{BASE}/cpu,cpuacct/box/cpu.cfs_period_us": "50000\n",
            f"{BASE}/memory/box/memory.limit_in_bytes": f"{3 * GIB}\n",
            f"{BASE}/memory/box/memory.usage_in_bytes": f"{2 * GIB}\n",
            f"{BASE}/memory/box/memory.stat": f"cache 5\ntotal_inactive_file {GIB}\n",
        },
        (0.5, 3 * GIB, 2 * GIB),  # 3 − (2 − 1 of droppable file cache)
    ),
    "v1 without limits": (
        {
            "proc/self/mountinfo": V1_MOUNTS,
            "proc/self/cgroup": "5:memory:/\n4:cpu,cpuacct:/\n3:cpuset:/\n",
            f"{BASE}/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
            f"{BASE}/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            f"{BASE}/memory/memory.limit_in_bytes": "9223372036854771712\n",  # 2**63 − 4096
        },
        (None, 8 * GIB, 7 * GIB),
    ),
    "v1: a container that sees the host's path": (
        {
            "proc/self/mountinfo": "34 31 0:30 /docker/ab /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
            "proc/self/cgroup": "5:memory:/docker/ab\n",
            f"{BASE}/memory/memory.limit_in_bytes": f"{GIB}\n",
        },
        (None, GIB, 7 * GIB),
    ),
    "hybrid: v1 controllers beside an empty v2": (
        {
            "proc/self/mountinfo": V1_MOUNTS + "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
            "proc/self/cgroup": "4:cpu,cpuacct:/job\n0::/job\n",
            f"{BASE}/cpu,cpuacct/job/cpu.cfs_quota_us": "100000\n",
            f"{BASE}/cpu,cpuacct/job/cpu.cfs_period_us": "100000\n",
            f"{BASE}/unified/job/cgroup.procs": "1\n",
        },
        (1.0, 8 * GIB, 7 * GIB),
    ),
    "a limit above the machine's memory": (
        {
            "proc/self/mountinfo": V2_MOUNT,
            "proc/self/cgroup": "0::/\n",
            f"{BASE}/memory.max": f"{100 * GIB}\n",
        },
        (None, 8 * GIB, 7 * GIB),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_quota_and_memory(snapshot: Snapshot, case: str) -> None:
    changes, (quota, granted, available) = CASES[case]
    host = detect(snapshot("zen4_guest", changes))
    assert host.quota_cpus == quota
    assert host.memory_granted_bytes == granted
    assert host.memory_available_bytes == available


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("cpu.max", "lots\n", "expected 'max 100000' or '150000 100000'"),
        ("cpu.max", "0 100000\n", "expected 'max 100000' or '150000 100000'"),
        ("memory.max", "1 GiB\n", "expected a number of bytes or 'max'"),
        ("cpuset.cpus.effective", "all\n", "expected a list such as '0-3,8'"),
    ],
)
def test_malformed_limit_is_a_note(snapshot: Snapshot, path: str, text: str, expected: str) -> None:
    host = detect(
        snapshot(
            "zen4_guest", {"proc/self/mountinfo": V2_MOUNT, "proc/self/cgroup": "0::/", f"{BASE}/{path}": text}
        )
    )
    assert host.quota_cpus is None
    assert host.memory_granted_bytes == 8 * GIB
    assert [note for note in host.notes if path in note and expected in note]


def test_malformed_cgroup_line_is_a_note(snapshot: Snapshot) -> None:
    host = detect(snapshot("zen4_guest", {"proc/self/cgroup": "nonsense\n"}))
    assert "/proc/self/cgroup: got 'nonsense', expected 'number:controllers:path'; line left out" in host.notes


@pytest.mark.parametrize(
    ("changes", "allowed", "limited_by"),
    [
        ({}, (0, 1), ()),
        ({"proc/self/status": "Cpus_allowed_list:\t1\n"}, (1,), ("affinity",)),
        ({"proc/self/status": "Cpus_allowed_list:\tx\n"}, (0, 1), ()),
        ({"proc/self/status": None}, (0, 1), ()),
        (
            {
                "proc/self/mountinfo": V2_MOUNT,
                "proc/self/cgroup": "0::/job",
                f"{BASE}/job/cpuset.cpus.effective": "1\n",
                "proc/self/status": "Cpus_allowed_list:\t1\n",
            },
            (1,),
            ("cpuset",),  # affinity takes nothing more away
        ),
        (
            {
                "proc/self/mountinfo": V1_MOUNTS,
                "proc/self/cgroup": "3:cpuset:/job",
                f"{BASE}/cpuset/job/cpuset.cpus": "0\n",
                f"{BASE}/cpuset/cpuset.cpus": "0-1\n",
            },
            (0,),
            ("cpuset",),
        ),
        (
            {
                "proc/self/mountinfo": V2_MOUNT,
                "proc/self/cgroup": "0::/job",
                f"{BASE}/job/cpuset.cpus.effective": "64\n",  # of another machine: it cannot be meant
            },
            (0, 1),
            (),
        ),
    ],
)
def test_cpuset_and_affinity_decide_which_cpus_are_allowed(
    snapshot: Snapshot, changes: dict[str, str | None], allowed: tuple[int, ...], limited_by: tuple[str, ...]
) -> None:
    host = detect(snapshot("zen4_guest", changes))
    assert host.allowed_cpus == allowed
    assert host.limited_by == limited_by


@pytest.mark.parametrize(
    ("soft", "expected"), [("600000000", 600_000_000), ("unlimited", None), ("", None), (None, None)]
)
def test_limit_of_the_address_space(snapshot: Snapshot, soft: str | None, expected: int | None) -> None:
    head = "Limit                     Soft Limit           Hard Limit           Units     \n"
    text = None if soft is None else f"{head}Max address space         {soft:21}unlimited            bytes     \n"
    host = detect(snapshot("zen4_guest", {"proc/self/limits": text}))
    assert host.address_space_bytes == expected


def test_sentence_of_a_container(snapshot: Snapshot) -> None:
    changes = {
        "proc/self/mountinfo": V2_MOUNT,
        "proc/self/cgroup": "0::/job",
        f"{BASE}/job/cpuset.cpus.effective": "1\n",
        f"{BASE}/job/cpu.max": "150000 100000\n",
        f"{BASE}/job/memory.max": f"{GIB}\n",
    }
    host = detect(snapshot("zen4_guest", changes))
    assert not is_whole(host)
    assert granted_cores(host) == (1,)
    assert granted_sentence(host) == (
        "Roofline of the resources available to this process: 1 of 2 cores (cpuset), 1.5 CPUs of quota (cgroup), "
        "1 GiB of 8 GiB memory (cgroup)."
    )
