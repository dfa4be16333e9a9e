"""Memory: what is granted, swap, huge pages, limits of the process, /dev/shm."""

from __future__ import annotations

import math
from functools import partial

from rooflab.machines.checkup.seen import Seen
from rooflab.machines.detect import MINIMUM_MEMORY_BYTES, Host, mappable_bytes
from rooflab.types.checkup import Grant
from rooflab.units import MIB, iec, percent, si

_GRANT = partial(Grant, topic="memory")
_LIMITS = "/proc/self/limits"
_LEAST_STACK_BYTES = 1 * MIB  # Python's recursion limit of 1,000 frames fits many times over
_LEAST_LOCKED_BYTES = 64 * 1024  # Linux' default until 5.16; perf's ring of one CPU has an allowance of its own
_LEAST_SHM_BYTES = 1024 * MIB  # PyTorch's own advice for loaders is more than Docker's default of 64 MiB
_SWAPPED_SHARE = 0.01  # of memory: below, it is what lay idle since boot


def grants(seen: Seen) -> tuple[Grant, ...]:
    """What is granted of memory."""
    judged = [_memory(seen.host)] if seen.host is not None else []
    if seen.linux:
        judged += [_swap(seen), _huge_pages(seen), _stack(seen), _locked(seen), _shared(seen)]
    return tuple(judged)


def _memory(host: Host) -> Grant:
    total, granted, available = host.memory_bytes, host.memory_granted_bytes, host.memory_available_bytes
    values = {"machine_bytes": total, "granted_bytes": granted, "available_bytes": available}
    values |= {"address_space_bytes": host.address_space_bytes}
    source = "/proc/meminfo, cgroup memory limits, RLIMIT_AS" if host.system == "Linux" else "sysctl hw.memsize"
    grant = partial(_GRANT, name="memory", source=source, values=values)
    if granted is None:
        means = "`measure` cannot tell how large its arrays may be"
        return grant(status="unknown", found="not told", means=means, todo="mount /proc")
    left = "" if available is None else f", {iec(available)} available"
    found = f"{iec(granted)}{left}"
    if granted < MINIMUM_MEMORY_BYTES:
        means = f"`measure` refuses: it needs {iec(MINIMUM_MEMORY_BYTES)}; all else works on small programs"
        return grant(status="missing", found=found, means=means, todo="raise the limit (docker --memory)")
    if mappable_bytes(host) is not None:
        found += f"; the address space is limited to {si(host.address_space_bytes, 'B')}"
        means = "libraries may fail to load, large programs to be traced"
        return grant(status="limited", found=found, means=means, todo="ulimit -v unlimited")
    if total is not None and granted < total:
        found = f"{iec(granted)} of {iec(total)} (cgroup){left}"
        means = "arrays and captured programs must fit in it, or the kernel ends the process"
        return grant(status="limited", found=found, means=means, todo="raise the limit (docker --memory)")
    return grant(status="ok", found=found)


def _swap(seen: Seen) -> Grant:
    swap, used = seen.conditions.swap_bytes, seen.conditions.swap_used_bytes
    waits = seen.conditions.memory_pressure
    values = {"swap_bytes": swap, "used_bytes": used, "memory_pressure_10s_share": waits}
    grant = partial(_GRANT, name="swap", source="/proc/meminfo, /proc/pressure/memory", values=values)
    if swap is None or used is None:
        means = "whether arrays are paged out is not known"
        return grant(status="unknown", found="not told", means=means, todo="see `free -h`")
    found = "none" if not swap else f"{iec(used)} of {iec(swap)} used"
    total = None if seen.host is None else seen.host.memory_bytes
    if (total and used > _SWAPPED_SHARE * total) or (waits or 0.0) > 0.01:
        if waits:
            found += f", something waits for memory {percent(waits)} of the time"
        means = "paged arrays come from disk: times may be hundreds of times too long"
        return grant(status="limited", found=found, means=means, todo="end what fills the memory, or use less")
    return grant(status="ok", found=found)


def _huge_pages(seen: Seen) -> Grant:
    setting = None if seen.host is None else seen.host.huge_pages
    reserved, size = seen.conditions.huge_pages_reserved, seen.conditions.huge_page_bytes
    values = {"transparent": setting, "reserved": reserved, "page_bytes": size}
    source = "/sys/kernel/mm/transparent_hugepage/enabled, /proc/meminfo"
    grant = partial(_GRANT, name="huge pages", source=source, values=values)
    also = "" if reserved is None else f"; {reserved} reserved{f' of {iec(size)}' if size and reserved else ''}"
    if setting is None:
        means = "misses of the TLB may be part of a measured latency or bandwidth"
        return grant(status="unknown", found=f"transparent: not told{also}", means=means, todo="mount /sys")
    if setting == "never":
        return grant(
            status="missing",
            found=f"transparent: never{also}",
            means="misses of the TLB are part of measured latency and bandwidth of large memories",
            todo="echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
        )
    return grant(status="ok", found=f"transparent: {setting}{also}")


def _stack(seen: Seen) -> Grant:
    limit = seen.conditions.stack_bytes
    grant = partial(_GRANT, name="stack", source=f"{_LIMITS} (ulimit -s)", values={"limit_bytes": _told(limit)})
    if limit is None:
        return grant(status="unknown", found="not told", means="deep programs may crash", todo="see `ulimit -s`")
    if limit < _LEAST_STACK_BYTES:
        means = "deeply nested models and compilers may crash"
        return grant(status="limited", found=_size(limit), means=means, todo="ulimit -s 8192")
    return grant(status="ok", found=_size(limit))


def _locked(seen: Seen) -> Grant:
    limit = seen.conditions.locked_memory_bytes
    grant = partial(
        _GRANT, name="locked memory", source=f"{_LIMITS} (ulimit -l)", values={"limit_bytes": _told(limit)}
    )
    if limit is None:
        means = "perf and RDMA may fail to lock their buffers"
        return grant(status="unknown", found="not told", means=means, todo="see `ulimit -l`")
    if limit < _LEAST_LOCKED_BYTES:
        means = "`perf record` may fail to lock its buffer; rooflab itself locks none"
        return grant(status="limited", found=_size(limit), means=means, todo="ulimit -l 8192")
    also = "" if limit == math.inf else "; rooflab locks none (RDMA of NCCL wants it unlimited)"
    return grant(status="ok", found=f"{_size(limit)}{also}")


def _shared(seen: Seen) -> Grant:
    size, free = seen.conditions.shm_bytes, seen.conditions.shm_free_bytes
    values = {"size_bytes": size, "free_bytes": free}
    grant = partial(_GRANT, name="shared memory", source="statvfs of /dev/shm", values=values)
    if size is None:
        means = "worker processes of loaders may fail; rooflab itself needs none"
        return grant(
            status="unknown", found="/dev/shm is not there, or not told", means=means, todo="mount /dev/shm"
        )
    found = f"/dev/shm of {iec(size)}{'' if free is None else f', {iec(free)} free'}"
    if (size if free is None else free) < _LEAST_SHM_BYTES:
        means = "worker processes of torch's DataLoader may die of it while you profile them"
        return grant(status="limited", found=found, means=means, todo="docker --shm-size=2g, or --ipc=host")
    return grant(status="ok", found=found)


def _size(limit: float) -> str:
    return "unlimited" if limit == math.inf else iec(limit)


def _told(limit: float | None) -> float | str | None:
    """`limit` as JSON can hold it: there is no infinity."""
    return "unlimited" if limit == math.inf else limit
