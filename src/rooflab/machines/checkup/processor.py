"""The processor: CPUs, their quota, threads of a core, NUMA nodes, clocks, and who else uses them."""

from __future__ import annotations

from functools import partial

from rooflab.machines.checkup.seen import Seen
from rooflab.machines.detect import Host, physical_cores
from rooflab.types.checkup import Grant
from rooflab.units import duration, percent, si

# From here on a measurement is doubted: the self-checks of `measure` take the same.
OTHERS_SHARE, STOLEN_SHARE = 0.05, 0.02
_GRANT = partial(Grant, topic="processor")
_CPUFREQ = "/sys/devices/system/cpu/cpu*/cpufreq"
_SLOW_READ_S = 1e-6  # of a clock: one from user space takes 20 to 100 ns, one of hardware µs
# Drivers whose hardware raises the clock by itself whatever the governor is called: kernel.org, intel_pstate.rst
# and amd-pstate.rst, "active mode".
_BY_HARDWARE = ("intel_pstate", "amd-pstate-epp", "amd_pstate_epp")


def grants(seen: Seen) -> tuple[Grant, ...]:
    """What is granted of the processor, and how steady it is."""
    host = seen.host
    if host is None:
        return ()
    judged = [_cpus(host), _smt(host), _numa(host)]
    if seen.linux:
        judged[1:1] = [_quota(host)]
        judged += [_governor(seen, host), _turbo(seen, host), _clock(seen, host), _load(seen), _timer(seen)]
    return tuple(judged)


def _cpus(host: Host) -> Grant:
    allowed, online, cores = len(host.allowed_cpus), len(host.cpus), physical_cores(host)
    grant = partial(
        _GRANT,
        name="CPUs",
        source="affinity, cpuset, /sys/devices/system/cpu" if host.system == "Linux" else "sysctl",
        values={"allowed": allowed, "online": online, "cores": cores},
    )
    by = f" ({', '.join(host.limited_by)})" if host.limited_by else ""
    found = f"{allowed} of {online} online{by}, {cores} cores in all"
    if allowed == online:
        return grant(status="ok", found=found)
    return grant(
        status="limited",
        found=found,
        means="rooflines are of these CPUs alone, and say so",
        todo="widen the affinity or the cpuset (taskset, docker --cpuset-cpus, srun --cpus-per-task)",
    )


def _quota(host: Host) -> Grant:
    quota, online = host.quota_cpus, len(host.cpus)
    source = "cpu.max or cpu.cfs_quota_us of this control group and all above it"
    grant = partial(_GRANT, name="CPU quota", source=source, values={"quota_cpus": quota})
    if quota is None:
        return grant(status="ok", found="none: CPU time is not rationed")
    if quota >= online:
        return grant(status="ok", found=f"{quota:g} CPUs, no fewer than there are")
    used = max(1, int(quota))
    stopped = "even that one is stopped in every period" if quota < 1 else "more of them would be stopped"
    return grant(
        status="limited",
        found=f"{quota:g} CPUs of {online} (cgroup)",
        means=f"`measure` uses {used} thread{'s' if used > 1 else ''}: {stopped}",
        todo="raise the quota (docker --cpus, Kubernetes resources.limits.cpu)",
    )


def _smt(host: Host) -> Grant:
    threads = max((len(cpu.siblings) for cpu in host.cpus), default=1)
    source = "/sys/devices/system/cpu/cpu*/topology" if host.system == "Linux" else "sysctl"
    grant = partial(_GRANT, name="threads of a core", source=source, values={"threads_per_core": threads})
    if host.smt:
        return grant(status="ok", found=f"{threads} a core; `measure` takes one of each")
    if host.hypervisor is None:
        return grant(status="ok", found="one a core")
    return grant(
        status="unknown",
        found="one a core, says the hypervisor, which need not tell",
        means="two of these CPUs may share a core: together they then reach little more than one",
        todo="compare `rooflab measure --threads 1` with `rooflab measure`",
    )


def _numa(host: Host) -> Grant:
    nodes = len(host.nodes)
    source = "/sys/devices/system/node" if host.system == "Linux" else "macOS has one"
    grant = partial(_GRANT, name="NUMA nodes", source=source, values={"nodes": nodes or None})
    if nodes:
        return grant(status="ok", found=f"{nodes} visible")
    return grant(
        status="unknown",
        found="the kernel shows none",
        means="all memory is taken as equally near",
        todo="mount /sys, or boot a kernel with NUMA",
    )


def _governor(seen: Seen, host: Host) -> Grant:
    names, driver = seen.conditions.governors, seen.conditions.scaling_driver
    values = {"governor": ", ".join(names) or None, "scaling_driver": driver}
    grant = partial(_GRANT, name="clock governor", source=_CPUFREQ, values=values)
    if not names:
        return grant(
            status="unknown",
            found=f"not told: {_who(host)}",
            means="the clock may change while something is timed; spreads show it",
            todo="`rooflab measure --sustained` compares a long run's clock with a burst's",
        )
    told = f"{', '.join(names)}{f' ({driver})' if driver else ''}"
    if names == ("performance",):
        return grant(status="ok", found=told)
    by_hardware = driver in _BY_HARDWARE and names == ("powersave",)
    why = "the hardware raises the clock, somewhat late" if by_hardware else "cores start slow"
    return grant(
        status="limited",
        found=told,
        means=f"{why}: short measurements vary",
        todo="sudo cpupower frequency-set -g performance",
    )


def _turbo(seen: Seen, host: Host) -> Grant:
    turbo = seen.conditions.turbo
    grant = partial(_GRANT, name="turbo", source=f"intel_pstate/no_turbo, {_CPUFREQ}/boost", values={"on": turbo})
    if turbo is None:
        return grant(
            status="unknown",
            found=f"not told: {_who(host)}",
            means="a burst may run at a higher clock than a long run",
            todo="`rooflab measure --sustained` compares the two",
        )
    if turbo:
        return grant(status="ok", found="on")
    means = "peaks lie below those of a datasheet's boost clock"
    return grant(status="limited", found="off", means=means, todo="switch it on, or keep it off for steady times")


def _clock(seen: Seen, host: Host) -> Grant:
    hertz = seen.conditions.clock_hz
    source = f"{_CPUFREQ}/scaling_cur_freq, else /proc/cpuinfo"
    grant = partial(_GRANT, name="clock", source=source, values={"clock_hz": hertz})
    todo = "`rooflab measure` times a chain of additions instead"
    if hertz is None:
        return grant(status="unknown", found="not told", means="no clock can be read off", todo=todo)
    if host.hypervisor is None:
        return grant(status="ok", found=f"{si(hertz, 'Hz')} just now")
    means = "guests are told one number whatever the core does"
    return grant(status="limited", found=f"{si(hertz, 'Hz')}, says the hypervisor", means=means, todo=todo)


def _who(host: Host) -> str:
    return "the hypervisor steers it" if host.hypervisor else "the kernel does not steer it"


def _load(seen: Seen) -> Grant:
    now, conditions = seen.load, seen.conditions
    values = {
        "others_share": None if now is None else now.others,
        "stolen_share": None if now is None else now.stolen,
        "load_1min": conditions.load_1min,
        "cpu_pressure_10s_share": conditions.cpu_pressure,
    }
    source = "/proc/stat for 0.4 s, /proc/loadavg, /proc/pressure/cpu"
    grant = partial(_GRANT, name="other load", source=source, values=values)
    parts = (
        [] if now is None else [f"others use {percent(now.others)} of the CPUs, {percent(now.stolen)} is stolen"]
    )
    if conditions.load_1min is not None:
        parts.append(f"load {conditions.load_1min:g} over a minute")
    if conditions.cpu_pressure is not None:
        parts.append(f"something waits for a CPU {percent(conditions.cpu_pressure)} of the time")
    if now is None:
        means = "measurements cannot say whether others disturbed them"
        return grant(status="unknown", found=", ".join(parts) or "not told", means=means, todo="see `uptime`")
    if now.others <= OTHERS_SHARE and now.stolen <= STOLEN_SHARE:
        return grant(status="ok", found=", ".join(parts))
    return grant(
        status="limited",
        found=", ".join(parts),
        means="what is timed now is slower than it could be, and says so",
        todo="stop other programs, or wait"
        if now.others > OTHERS_SHARE
        else "take an instance whose CPUs are not shared",
    )


def _timer(seen: Seen) -> Grant:
    name, read_s = seen.conditions.clock_source, seen.conditions.clock_read_s
    values = {"clock_source": name, "read_s": read_s}
    source = "/sys/devices/system/clocksource, time.perf_counter timed"
    grant = partial(_GRANT, name="timer", source=source, values=values)
    if read_s is None:
        means = "what reading the time costs is not known"
        return grant(status="unknown", found=name or "not told", means=means, todo="run it on the machine itself")
    found = f"{name or 'clock source not told'}, a reading takes {duration(read_s)}"
    if read_s <= _SLOW_READ_S:
        return grant(status="ok", found=found)
    return grant(
        status="limited",
        found=found,
        means="each timing carries that; runs are made long enough for it",
        todo="boot with clocksource=tsc where the CPU's is steady (constant_tsc, nonstop_tsc)",
    )
