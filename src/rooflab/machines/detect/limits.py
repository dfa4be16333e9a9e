"""What this process is granted: CPU quota, cpuset and memory by cgroup (v1, v2 and both), affinity.

Every ancestor's limit binds, so the whole path up to the mount point is read. Inside a cgroup
namespace the path in /proc/self/cgroup may not exist under the mount: then only the mount point is read.
Source: Linux Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst, scheduler/sched-bwc.rst.
"""

from __future__ import annotations

import math
import os
import posixpath
from collections.abc import Iterable
from dataclasses import dataclass

from rooflab.machines.detect.files import Tree, parse_cpu_list, parse_size_bytes

_ADDRESS_SPACE = "Max address space"
# "No limit" in cgroup v1 is LONG_MAX rounded down to a page: 2**63 - 4096 (or - 65536 with 64 KiB pages).
_NO_LIMIT_BYTES = 1 << 62
_CONTROLLERS = ("cpu", "cpuset", "memory")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of this process's control groups; None where there is none."""

    quota_cpus: float | None = None
    cpuset_cpus: tuple[int, ...] | None = None
    memory_limit_bytes: int | None = None
    memory_headroom_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class _Mount:
    """A mounted control-group hierarchy: where, which subtree of it, and which version."""

    point: str
    root: str
    controllers: frozenset[str]
    version: int


def read_limits(tree: Tree) -> Limits:
    """The tightest limits over this process's control groups and all their ancestors."""
    groups = _groups(tree)
    memory = _limited_memory(tree, groups.get("memory", ()))
    return Limits(
        quota_cpus=min(_quotas(tree, groups.get("cpu", ())), default=None),
        cpuset_cpus=_cpuset(tree, groups.get("cpuset", ())),
        memory_limit_bytes=min((limit for limit, _ in memory), default=None),
        memory_headroom_bytes=min((room for _, room in memory if room is not None), default=None),
    )


def throttled_s(tree: Tree) -> float | None:
    """Seconds that this process's control groups stood still at a CPU quota so far; None where no file says it."""
    found: list[float] = []
    for directory, version in _groups(tree).get("cpu", ()):
        key, per_s = ("throttled_usec", 1e6) if version == 2 else ("throttled_time", 1e9)
        if tree.text(f"{directory}/cpu.stat"):
            found.append(_counter(tree, f"{directory}/cpu.stat", key) / per_s)
    return max(found, default=None)


def affinity(tree: Tree) -> tuple[int, ...] | None:
    """The CPUs that the scheduler leaves to this process; None where a snapshot doesn't say."""
    if tree.is_live and hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    for line in (tree.text("proc/self/status") or "").splitlines():
        key, _, value = line.partition(":")
        if key == "Cpus_allowed_list":
            try:
                return parse_cpu_list(value) or None
            except ValueError:
                tree.note(f"/proc/self/status: Cpus_allowed_list: got {value.strip()!r}, expected a list of CPUs")
    return None


def address_space_bytes(tree: Tree) -> int | None:
    """The limit on this process's address space (RLIMIT_AS), from /proc/self/limits; None where there is none."""
    limit = process_limit(tree, _ADDRESS_SPACE)
    return None if limit is None or limit == math.inf else int(limit)


def process_limit(tree: Tree, name: str) -> float | None:
    """The soft limit that /proc/self/limits calls `name`, infinity for "unlimited"; None where it does not say."""
    for line in (tree.text("proc/self/limits") or "").splitlines():
        if line.startswith(name):
            soft, *_ = line.removeprefix(name).split() or [""]
            if soft == "unlimited":
                return math.inf
            return float(soft) if soft.isdigit() else None
    return None


def memory_bytes(tree: Tree) -> tuple[int | None, int | None]:
    """Total and available memory of the machine, from /proc/meminfo."""
    sizes: dict[str, int] = {}
    for line in (tree.text("proc/meminfo") or "").splitlines():
        key, _, value = line.partition(":")
        if key in ("MemTotal", "MemAvailable"):
            try:
                sizes[key] = parse_size_bytes(value)
            except ValueError:
                tree.note(f"/proc/meminfo: {key}: got {value.strip()!r}, expected a size in kB; left unknown")
    if "MemTotal" not in sizes:
        tree.note("/proc/meminfo states no MemTotal; the machine's memory is unknown")
    return sizes.get("MemTotal"), sizes.get("MemAvailable")


def _groups(tree: Tree) -> dict[str, tuple[tuple[str, int], ...]]:
    """For each controller, the (directory, version) pairs of its groups, nearest first."""
    paths = _paths_of_process(tree)
    groups: dict[str, tuple[tuple[str, int], ...]] = {}
    for mount in _mounts(tree):
        for controller in mount.controllers:
            path = paths.get("" if mount.version == 2 else controller)
            directories = _up_to_mount(tree, mount, path or "/")
            groups[controller] = (*groups.get(controller, ()), *((one, mount.version) for one in directories))
    return groups


def _paths_of_process(tree: Tree) -> dict[str, str]:
    """The path of this process's group by v1 controller, and under "" that of v2."""
    paths: dict[str, str] = {}
    for line in (tree.text("proc/self/cgroup") or "").splitlines():
        _, _, rest = line.partition(":")
        controllers, colon, path = rest.partition(":")
        if not colon:
            tree.note(f"/proc/self/cgroup: got {line!r}, expected 'number:controllers:path'; line left out")
            continue
        for controller in controllers.split(","):
            paths[controller] = path
    return paths


def _mounts(tree: Tree) -> list[_Mount]:
    """The mounted hierarchies that hold a controller of interest; where /proc tells none, the usual places."""
    mounts = []
    for line in (tree.text("proc/self/mountinfo") or "").splitlines():
        # 36 35 98:0 /root /point options - type source superoptions (man 5 proc_pid_mountinfo)
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if len(fields) < 5 or len(kind) < 1 or kind[0] not in ("cgroup", "cgroup2"):
            continue
        version = 2 if kind[0] == "cgroup2" else 1
        options = frozenset(kind[-1].split(",")) & frozenset(_CONTROLLERS)
        controllers = frozenset(_CONTROLLERS) if version == 2 else options
        if controllers:
            mounts.append(_Mount(fields[4], fields[3], controllers, version))
    return mounts or _usual_mounts(tree)


def _usual_mounts(tree: Tree) -> list[_Mount]:
    base = "/sys/fs/cgroup"
    names = tree.names(base[1:])
    if "cgroup.controllers" in names or "cpu.max" in names or "memory.max" in names:
        return [_Mount(base, "/", frozenset(_CONTROLLERS), 2)]
    mounts = [_Mount(f"{base}/{name}", "/", frozenset(name.split(",")), 1) for name in names]
    return [mount for mount in mounts if mount.controllers & frozenset(_CONTROLLERS)]


def _up_to_mount(tree: Tree, mount: _Mount, path: str) -> list[str]:
    """The existing directories from the process's group up to the mount point, nearest first."""
    inside = path
    if mount.root != "/" and (path == mount.root or path.startswith(mount.root + "/")):
        inside = path[len(mount.root) :]  # a container that sees the host's path but only its own subtree
    relative = posixpath.normpath(inside.strip("/") or ".")
    # "/../x": the process lies outside the namespace's root, whose files are all that can be seen.
    steps = [] if relative == "." or relative.startswith("..") else relative.split("/")
    directories = ["/".join([mount.point.strip("/"), *steps[:depth]]) for depth in range(len(steps), -1, -1)]
    return [one for one in directories if tree.names(one)]


def _quotas(tree: Tree, groups: Iterable[tuple[str, int]]) -> list[float]:
    """CPU quotas, in CPUs, of those groups that have one."""
    quotas = []
    for directory, version in groups:
        if version == 2:
            quota = tree.parsed(f"{directory}/cpu.max", _parse_cpu_max, "'max 100000' or '150000 100000'")
        else:
            time = tree.integer(f"{directory}/cpu.cfs_quota_us")
            period = tree.integer(f"{directory}/cpu.cfs_period_us")
            quota = time / period if time is not None and time > 0 and period else 0
        if quota:
            quotas.append(quota)
    return quotas


def _parse_cpu_max(text: str) -> float:
    """CPUs of quota in a cpu.max, 0 for none.

    Raises:
        ValueError: not "max|time [period]" in microseconds.
    """
    time, *period = text.split()
    if time == "max":
        return 0
    length = int(period[0]) if period else 100_000  # the kernel's default period
    if int(time) <= 0 or length <= 0:
        raise ValueError(f"{text!r} is not a quota")
    return int(time) / length


def _cpuset(tree: Tree, groups: Iterable[tuple[str, int]]) -> tuple[int, ...] | None:
    """The CPUs of the nearest group that names any; None where none does."""
    for directory, version in groups:
        names = ("cpuset.cpus.effective",) if version == 2 else ("cpuset.effective_cpus", "cpuset.cpus", "cpus")
        for name in names:
            cpus = tree.cpu_list(f"{directory}/{name}")
            if cpus:
                return cpus
    return None


def _limited_memory(tree: Tree, groups: Iterable[tuple[str, int]]) -> list[tuple[int, int | None]]:
    """(limit, what is left under it) of those groups that have a limit.

    What is left counts inactive file cache as free, since the kernel drops it first.
    """
    limits: list[tuple[int, int | None]] = []
    for directory, version in groups:
        limit_file, usage_file, cache_key = (
            ("memory.max", "memory.current", "inactive_file")
            if version == 2
            else ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        )
        limit = tree.parsed(f"{directory}/{limit_file}", _parse_memory_max, "a number of bytes or 'max'")
        if limit is None or limit >= _NO_LIMIT_BYTES:
            continue
        usage = tree.integer(f"{directory}/{usage_file}")
        cache = _counter(tree, f"{directory}/memory.stat", cache_key)
        limits.append((limit, None if usage is None else max(0, limit - max(0, usage - cache))))
    return limits


def _parse_memory_max(text: str) -> int:
    return _NO_LIMIT_BYTES if text == "max" else int(text)


def _counter(tree: Tree, path: str, key: str) -> int:
    """The counter `key` of a "name value" file, 0 where it doesn't count that."""
    for line in (tree.text(path) or "").splitlines():
        name, _, value = line.partition(" ")
        if name == key and value.strip().isdigit():
            return int(value)
    return 0
