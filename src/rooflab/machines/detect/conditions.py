"""What bears on measurements beside the hardware: clocks, load, swap, limits, containers, timers."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rooflab.machines.detect.files import Tree, parse_size_bytes
from rooflab.machines.detect.limits import process_limit

_CPU = "sys/devices/system/cpu"
_READS = 2000  # of the clock, a tenth of a millisecond each hundred where it is slow
# What the paths of control groups hold in each kind of container; the first that fits.
_GROUP_NAMES = (("kubepods", "Kubernetes"), ("docker", "Docker"), ("libpod", "Podman"), ("lxc", "LXC"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """The conditions that a process runs under; None is "not known", infinity "no limit".

    Attributes:
        container: "Docker", "Podman", "Kubernetes", "LXC", "WSL", "gVisor"; None where no sign of one was seen.
        governors: of the allowed CPUs' clocks, each once.
        scaling_driver: what steers the clocks.
        turbo: whether clocks above the base are allowed.
        clock_hz: a core's clock now, as the system tells it.
        clock_source: what the kernel reads the time from, `clock_read_s` how long reading it takes here.
        load_1min: processes that run or wait, averaged over a minute.
        cpu_pressure, memory_pressure: share of the last 10 s in which something waited for it (PSI).
        swap_bytes, swap_used_bytes: of the machine.
        huge_pages_reserved, huge_page_bytes: number and size of pages set aside.
        locked_memory_bytes, stack_bytes: this process's limits.
        shm_bytes, shm_free_bytes: of /dev/shm.
        ptrace_scope: of Yama: 0 all own processes, 1 children, 2 with rights, 3 none.
    """

    container: str | None = None
    governors: tuple[str, ...] = ()
    scaling_driver: str | None = None
    turbo: bool | None = None
    clock_hz: float | None = None
    clock_source: str | None = None
    clock_read_s: float | None = None
    load_1min: float | None = None
    cpu_pressure: float | None = None
    memory_pressure: float | None = None
    swap_bytes: int | None = None
    swap_used_bytes: int | None = None
    huge_pages_reserved: int | None = None
    huge_page_bytes: int | None = None
    locked_memory_bytes: float | None = None
    stack_bytes: float | None = None
    shm_bytes: int | None = None
    shm_free_bytes: int | None = None
    ptrace_scope: int | None = None


def read_conditions(
    tree: Tree, cpus: Iterable[int] = (), clock: Callable[[], float] = time.perf_counter
) -> Conditions:
    """The conditions in the file system `tree`, with the clocks of `cpus`."""
    numbers = tuple(cpus)
    sizes = _meminfo(tree)
    swap, free = sizes.get("SwapTotal"), sizes.get("SwapFree")
    shm, shm_free = _shm(tree)
    return Conditions(
        container=read_container(tree),
        governors=_each_once(tree.text(f"{_CPU}/cpu{n}/cpufreq/scaling_governor") for n in numbers),
        scaling_driver=tree.text(f"{_CPU}/cpu{numbers[0] if numbers else 0}/cpufreq/scaling_driver") or None,
        turbo=_turbo(tree),
        clock_hz=_clock_hz(tree, numbers[0] if numbers else 0),
        clock_source=tree.text("sys/devices/system/clocksource/clocksource0/current_clocksource") or None,
        clock_read_s=clock_read_s(clock) if tree.is_live else None,
        load_1min=tree.parsed(
            "proc/loadavg", lambda text: float(text.split()[0]), "numbers such as '0.5 0.4 0.3'"
        ),
        cpu_pressure=_pressure(tree, "cpu"),
        memory_pressure=_pressure(tree, "memory"),
        swap_bytes=swap,
        swap_used_bytes=None if swap is None or free is None else max(0, swap - free),
        huge_pages_reserved=sizes.get("HugePages_Total"),
        huge_page_bytes=sizes.get("Hugepagesize"),
        locked_memory_bytes=process_limit(tree, "Max locked memory"),
        stack_bytes=process_limit(tree, "Max stack size"),
        shm_bytes=shm,
        shm_free_bytes=shm_free,
        ptrace_scope=tree.integer("proc/sys/kernel/yama/ptrace_scope"),
    )


def read_container(tree: Tree) -> str | None:
    """The kind of container that this process runs in; None where no sign of one is seen.

    Docker leaves /.dockerenv, Podman /run/.containerenv, systemd's kinds say their name in the environment of
    process 1; Microsoft's kernel names itself, and gVisor answers as an old Linux that it names in /proc/version.
    """
    release = (tree.text("proc/sys/kernel/osrelease") or tree.text("proc/version") or "").lower()
    if "microsoft" in release:
        return "WSL"
    if "gvisor" in (tree.text("proc/version") or "").lower():
        return "gVisor"
    groups = f"{tree.text('proc/self/cgroup') or ''}\n{tree.text('proc/1/cgroup') or ''}".lower()
    named = next((name for sign, name in _GROUP_NAMES if sign in groups), None)
    if named:
        return named
    if ".dockerenv" in tree.names(""):
        return "Docker"
    return "Podman" if ".containerenv" in tree.names("run") else None


def clock_read_s(clock: Callable[[], float] = time.perf_counter, reads: int = _READS) -> float:
    """How long one reading of `clock` takes, with Python's call around it: the least of three means."""
    means = []
    for _ in range(3):
        start = clock()
        for _ in range(reads):
            clock()
        means.append((clock() - start) / (reads + 1))
    return min(means)


def _each_once(texts: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for text in texts if text))


def _turbo(tree: Tree) -> bool | None:
    """Whether the clock may go above its base: Intel's driver says it turned round, the others as it is."""
    off = tree.integer(f"{_CPU}/intel_pstate/no_turbo")
    if off is not None:
        return off == 0
    boost = tree.integer(f"{_CPU}/cpufreq/boost")
    return None if boost is None else boost != 0


def _clock_hz(tree: Tree, cpu: int) -> float | None:
    khz = tree.integer(f"{_CPU}/cpu{cpu}/cpufreq/scaling_cur_freq")
    if khz:
        return khz * 1e3
    match = re.search(r"^cpu MHz\s*:\s*([\d.]+)", tree.text("proc/cpuinfo") or "", re.MULTILINE)
    return float(match[1]) * 1e6 if match else None


def _pressure(tree: Tree, what: str) -> float | None:
    """The share of the last 10 s in which something waited: Documentation/accounting/psi.rst."""

    def share(text: str) -> float:
        match = re.search(r"^some avg10=([\d.]+)", text, re.MULTILINE)
        if match is None:
            raise ValueError("no average")
        return float(match[1]) / 100

    return tree.parsed(f"proc/pressure/{what}", share, "a line 'some avg10=0.00 …'")


def _meminfo(tree: Tree) -> dict[str, int]:
    """Sizes in bytes, and numbers of pages, by the names of /proc/meminfo; what is malformed is left out."""
    sizes = {}
    for line in (tree.text("proc/meminfo") or "").splitlines():
        key, _, value = line.partition(":")
        try:
            sizes[key] = int(value) if key.startswith("HugePages") else parse_size_bytes(value)
        except ValueError:
            tree.note(f"/proc/meminfo: {key}: got {value.strip()!r}, expected a size in kB; left unknown")
    return sizes


def _shm(tree: Tree) -> tuple[int | None, int | None]:
    """Size and free bytes of /dev/shm; of a snapshot the size that it was mounted with."""
    if tree.is_live:
        try:
            told = os.statvfs("/dev/shm")
        except OSError:
            return None, None
        return told.f_frsize * told.f_blocks, told.f_frsize * told.f_bavail
    for line in (tree.text("proc/self/mountinfo") or "").splitlines():
        fields = line.split()
        if len(fields) > 4 and fields[4] == "/dev/shm":
            size = re.search(r"\bsize=(\w+)", line)
            try:
                return (parse_size_bytes(size[1]) if size else None), None
            except ValueError:
                tree.note(f"/proc/self/mountinfo: /dev/shm has size={size[1]!r}, expected a size" if size else "")
    return None, None
