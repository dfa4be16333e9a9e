"""The machine that runs the tests: only what holds on every one."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from rooflab.machines.detect import Host, detect, granted_cores, granted_sentence, granted_threads, is_whole

pytestmark = pytest.mark.skipif(sys.platform not in ("linux", "darwin"), reason="detect knows Linux and macOS")


@pytest.fixture(scope="module")
def host() -> Host:
    return detect(gpus=False)


def test_granted_cpus_are_online_ones(host: Host) -> None:
    online = {cpu.number for cpu in host.cpus}
    assert host.allowed_cpus
    assert set(granted_cores(host)) <= set(granted_threads(host)) <= set(host.allowed_cpus) <= online
    assert all(cpu.number in cpu.siblings for cpu in host.cpus)
    assert all(set(cache.shared_cpus) & online for cache in host.caches)


def test_no_more_memory_is_granted_than_there_is(host: Host) -> None:
    assert host.memory_bytes
    assert host.memory_granted_bytes
    assert host.memory_granted_bytes <= host.memory_bytes


def test_sentence_only_where_something_is_missing(host: Host) -> None:
    assert (granted_sentence(host) is None) == is_whole(host)


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no affinity on this system")
def test_affinity_is_kept(host: Host) -> None:
    assert set(host.allowed_cpus) <= os.sched_getaffinity(0)


def test_standard_library_alone() -> None:
    script = (
        "import sys; from rooflab.machines.detect import detect; detect(gpus=False); "
        "print([name for name in ('numpy', 'msgspec', 'numba', 'psutil', 'pynvml') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
