"""What of a machine this process may use: cores, threads, memory, and the sentence that says so."""

from __future__ import annotations

import math

from rooflab.errors import MeasureError
from rooflab.machines.detect.host import Cpu, Host
from rooflab.units import MIB, iec, si

MINIMUM_MEMORY_BYTES = 512 * MIB
# Address space that libraries map before any array, and each thread with its stack, malloc arena and BLAS buffer:
# 650 MiB were seen with two threads.
_LIBRARIES_BYTES = 512 * MIB
_THREAD_BYTES = 160 * MIB
_LEAST_ARRAYS_BYTES = 48 * MIB


def granted_cores(host: Host) -> tuple[int, ...]:
    """The CPUs to run on: the first allowed CPU of each physical core, P-cores first, within the quota.

    A quota of q CPUs leaves floor(q) of them, at least one: a further thread would be throttled.
    """
    return _within_quota(host, _first_of_each_core(host))


def granted_threads(host: Host) -> tuple[int, ...]:
    """As `granted_cores`, followed by the other allowed SMT siblings, within the quota."""
    first = _first_of_each_core(host)
    rest = [cpu.number for cpu in _allowed(host) if cpu.number not in first]
    return _within_quota(host, (*first, *rest))


def physical_cores(host: Host) -> int:
    """How many physical cores of the machine are online."""
    return len({cpu.siblings for cpu in host.cpus})


def is_whole(host: Host) -> bool:
    """Whether this process may use every online CPU and all memory of the machine."""
    return not _fewer(host)


def granted_sentence(host: Host) -> str | None:
    """One sentence that says which part of the machine the roofline is of; None where it is the whole."""
    fewer = _fewer(host)
    return f"Roofline of the resources available to this process: {', '.join(fewer)}." if fewer else None


def mappable_bytes(host: Host) -> int | None:
    """What the limit on address space leaves for arrays beside libraries and threads; None without a limit."""
    if host.address_space_bytes is None:
        return None
    return max(0, host.address_space_bytes - _LIBRARIES_BYTES - len(host.allowed_cpus) * _THREAD_BYTES)


def require_memory(host: Host, minimum_bytes: int = MINIMUM_MEMORY_BYTES) -> None:
    """Return where at least `minimum_bytes` of memory are granted, or where that is unknown.

    Raises:
        MeasureError: less is granted, or the address space is too small; the message names the limit and the
            next step.
    """
    mappable = mappable_bytes(host)
    if mappable is not None and mappable < _LEAST_ARRAYS_BYTES:
        cpus = len(host.allowed_cpus)
        needed = _LIBRARIES_BYTES + cpus * _THREAD_BYTES + _LEAST_ARRAYS_BYTES
        raise MeasureError(
            f"out of memory: the address space is limited to {si(host.address_space_bytes, 'B')}, expected "
            f"at least {si(needed, 'B')} to measure with {cpus} CPUs; raise the limit (ulimit -v, prlimit --as)"
        )
    granted = host.memory_granted_bytes
    if granted is None or granted >= minimum_bytes:
        return
    limited = host.memory_bytes is not None and granted < host.memory_bytes
    where = "cgroup memory limit" if limited else "memory of this machine"
    raise MeasureError(
        f"{where}: got {iec(granted)}, expected at least {iec(minimum_bytes)} to measure in; "
        f"{'raise the limit (docker: --memory)' if limited else 'measure on a larger machine'}"
    )


def _fewer(host: Host) -> list[str]:
    """What is granted less than the machine has, in words; empty where nothing is."""
    reductions: list[str] = []
    allowed, cores = {cpu.number for cpu in _allowed(host)}, physical_cores(host)
    usable = len(_first_of_each_core(host))
    reason = f" ({', '.join(host.limited_by)})" if host.limited_by else ""
    if usable < cores:
        reductions.append(f"{usable} of {cores} cores{reason}")
    elif len(allowed) < len(host.cpus):
        reductions.append(f"{len(allowed)} of {len(host.cpus)} hardware threads{reason}")
    if host.quota_cpus is not None and host.quota_cpus < len(host.cpus):
        reductions.append(f"{host.quota_cpus:g} CPUs of quota (cgroup)")
    granted, total = host.memory_granted_bytes, host.memory_bytes
    if granted is not None and total is not None and granted < total:
        reductions.append(f"{iec(granted)} of {iec(total)} memory (cgroup)")
    return reductions


def _allowed(host: Host) -> list[Cpu]:
    """The allowed CPUs, P-cores first, ascending within a kind."""
    allowed = set(host.allowed_cpus)
    cpus = [cpu for cpu in host.cpus if cpu.number in allowed]
    return sorted(cpus, key=lambda cpu: (cpu.kind == "E", cpu.number))


def _first_of_each_core(host: Host) -> tuple[int, ...]:
    first: dict[tuple[int, ...], int] = {}
    for cpu in _allowed(host):
        first.setdefault(cpu.siblings, cpu.number)
    return tuple(first.values())


def _within_quota(host: Host, cpus: tuple[int, ...]) -> tuple[int, ...]:
    if host.quota_cpus is None:
        return cpus
    return cpus[: max(1, math.floor(host.quota_cpus))]
