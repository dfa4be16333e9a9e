"""Hardware counters: of the cores, of the memory controllers."""

from __future__ import annotations

from functools import partial

from rooflab.machines.checkup.seen import Seen
from rooflab.types.checkup import Grant

_TOPIC = "counters"
_TIME_ONLY = "`rooflab run` gives time, CPU use, page faults and memory, but no counted FLOP and no DRAM bytes"
_NO_BYTES = "bytes from DRAM cannot be counted; those of `loop` and `simulate` are simulated"
_A_PMU = "take a machine or an instance with a virtual PMU (bare metal, a whole socket; your own KVM: -cpu host)"
_PERMIT = "sudo sysctl kernel.perf_event_paranoid="
_DOCKER = "start the container with --cap-add PERFMON, and --security-opt seccomp=unconfined if that is not enough"
_NO_DEVICE = ("ENOENT", "EOPNOTSUPP", "ENODEV")
_FORBIDDEN = ("EACCES", "EPERM")
# Of perf_event_paranoid: above 2 some kernels refuse all events, above 0 those of a whole CPU.
_OWN_EVENTS, _CPU_EVENTS = 2, 0


def grants(seen: Seen) -> tuple[Grant, ...]:
    """The counters of the cores, and those of the memory controllers."""
    tried = seen.counters.cycles
    cores = partial(
        Grant,
        topic=_TOPIC,
        name="hardware counters",
        source="perf_event_open of this process's cycles",
        values={"perf_event_paranoid": seen.counters.paranoid, "error": None if tried is None else tried.error},
    )
    memory = partial(
        Grant,
        topic=_TOPIC,
        name="memory counters",
        source="/sys/bus/event_source/devices, perf_event_open of the first",
        values={"devices": ", ".join(seen.counters.uncore_devices) or None},
    )
    if not seen.linux:
        mac = seen.system == "Darwin"
        status, found = (
            ("missing", "macOS lends programs none") if mac else ("unknown", f"not known on {seen.system}")
        )
        todo = "count on a Linux machine"
        return (
            cores(status=status, found=found, means=_TIME_ONLY, todo=todo),
            memory(status=status, found=found, means=_NO_BYTES, todo=todo),
        )
    return _of_cores(seen, cores), _of_memory(seen, memory)


def _of_cores(seen: Seen, grant: partial[Grant]) -> Grant:
    tried, level = seen.counters.cycles, _level(seen)
    if tried is None:
        listed = ", ".join(seen.counters.core_devices) or "no device of a core"
        how = "opening one was not tried: the kernel lists"
        return grant(
            status="unknown",
            found=f"{how} {listed}{level}",
            means=_TIME_ONLY,
            todo="try `perf stat -e cycles true`",
        )
    if tried.opened and tried.counted:
        return grant(status="ok", found=f"cycles open and count{level}")
    if tried.opened:
        why = "the hypervisor keeps them" if _guest(seen) else "something keeps them"
        return grant(
            status="limited", found=f"cycles open but count nothing: {why}", means=_TIME_ONLY, todo=_A_PMU
        )
    if tried.error in _NO_DEVICE and _guest(seen):
        return grant(
            status="missing", found=f"this guest has no virtual PMU ({tried.error})", means=_TIME_ONLY, todo=_A_PMU
        )
    if tried.error in _NO_DEVICE:
        todo = "take a newer kernel, or check that the firmware does not switch them off"
        return grant(
            status="missing",
            found=f"the kernel knows no counters of this CPU ({tried.error})",
            means=_TIME_ONLY,
            todo=todo,
        )
    if tried.error in _FORBIDDEN:
        return _forbidden(seen, grant, level)
    if tried.error == "ENOSYS":
        found = "this kernel has no perf_event_open" + (f" ({_container(seen)})" if _container(seen) else "")
        return grant(
            status="missing",
            found=found,
            means=_TIME_ONLY,
            todo="run outside of this sandbox, on a kernel with perf events",
        )
    return grant(
        status="unknown",
        found=f"perf_event_open failed with {tried.error}",
        means=_TIME_ONLY,
        todo="see `perf stat true`",
    )


def _forbidden(seen: Seen, grant: partial[Grant], level: str) -> Grant:
    """Counters that are there and refused: by the kernel's level, by the container, or by something else."""
    paranoid = seen.counters.paranoid
    if paranoid is not None and paranoid > _OWN_EVENTS:
        return grant(
            status="missing",
            found=f"refused: perf_event_paranoid is {paranoid}",
            means=_TIME_ONLY,
            todo=f"{_PERMIT}1",
        )
    container = _container(seen)
    if container:
        return grant(
            status="missing",
            found=f"refused, probably by the container ({container}){level}",
            means=_TIME_ONLY,
            todo=_DOCKER,
        )
    todo = "ask who runs this machine for CAP_PERFMON"
    return grant(
        status="missing",
        found=f"refused by a security policy (seccomp, SELinux){level}",
        means=_TIME_ONLY,
        todo=todo,
    )


def _of_memory(seen: Seen, grant: partial[Grant]) -> Grant:
    devices, tried = seen.counters.uncore_devices, seen.counters.uncore
    if not devices:
        if not seen.counters.lists_devices:
            return grant(
                status="unknown",
                found="the kernel's list of counters is not readable",
                means=_NO_BYTES,
                todo="see `perf list`",
            )
        todo = "bare metal has them; guests hardly ever do" if _guest(seen) else "see `perf list` for this CPU's"
        return grant(
            status="missing", found="the kernel lists none of a memory controller", means=_NO_BYTES, todo=todo
        )
    listed = f"{len(devices)} devices, such as {devices[0]}"
    if tried is None:
        return grant(
            status="unknown",
            found=f"{listed}; not tried",
            means=_NO_BYTES,
            todo="try `perf stat -a` with one of them",
        )
    if tried.opened:
        return grant(status="ok", found=f"{listed}, which opens")
    if tried.error in _FORBIDDEN:
        return grant(
            status="limited",
            found=f"{listed}, refused{_level(seen)}",
            means=_NO_BYTES,
            todo=f"{_PERMIT}{_CPU_EVENTS}",
        )
    return grant(
        status="unknown",
        found=f"{listed}, which fails with {tried.error}",
        means=_NO_BYTES,
        todo="see `perf stat -a`",
    )


def _level(seen: Seen) -> str:
    paranoid = seen.counters.paranoid
    return "" if paranoid is None else f"; perf_event_paranoid {paranoid}"


def _guest(seen: Seen) -> bool:
    return seen.host is not None and seen.host.hypervisor is not None


def _container(seen: Seen) -> str | None:
    return seen.conditions.container
