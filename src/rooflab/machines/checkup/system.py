"""The system around: operating system, virtual machine, container, Python, tracing, folders to write to."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import sysconfig
import tempfile
from functools import partial
from pathlib import Path

from rooflab.machines.checkup.seen import Seen
from rooflab.types.checkup import Grant
from rooflab.units import MIB, si

_GRANT = partial(Grant, topic="system")
_OLDEST_PYTHON = (3, 11)
_LEAST_FREE_BYTES = 256 * MIB  # compiled code of the simulator is some tens of MB, a page with its charts one


def grants(seen: Seen) -> tuple[Grant, ...]:
    """The operating system, what it runs in, Python, and where files can be written."""
    judged = [_system(seen), _python()]
    if seen.host is not None:
        judged.append(_virtual(seen))
    if seen.linux:
        judged += [_container(seen), _tracing(seen)]
    if seen.live:
        judged += [_cache(), _temporary()]
    return tuple(judged)


def _system(seen: Seen) -> Grant:
    kernel = None if seen.host is None else seen.host.kernel
    values = {"system": seen.system, "kernel": kernel}
    grant = partial(_GRANT, name="operating system", source="uname", values=values)
    named = {"Darwin": "macOS, Darwin"}.get(seen.system, seen.system)
    if seen.system not in ("Linux", "Darwin"):
        means = "what machine this is cannot be told, nor measured; predictions and loading files may work"
        return grant(status="missing", found=named, means=means, todo="use Linux, macOS, or WSL 2 on Windows")
    if seen.host is None:
        means = "this machine cannot be told, nor measured; predictions for others work"
        return grant(status="limited", found=f"{named}; {seen.no_host}", means=means, todo="mount /proc and /sys")
    notes = seen.host.notes if seen.system == "Linux" else ()
    if notes:
        means = "what the system does not tell is left unknown, and measured where it can be"
        return grant(status="limited", found=f"{named} {kernel or ''}; {notes[0]}", means=means)
    return grant(status="ok", found=f"{named} {kernel or ''}".strip())


def _python() -> Grant:
    version, kind = platform.python_version(), platform.python_implementation()
    free = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    values = {"version": version, "implementation": kind, "free_threaded": free}
    grant = partial(_GRANT, name="Python", source="sys", values=values)
    found = f"{kind} {version}{', free-threaded' if free else ''}"
    if sys.version_info < _OLDEST_PYTHON or kind != "CPython":
        means = "rooflab is made for CPython 3.11 and newer"
        return grant(status="limited", found=found, means=means, todo="use CPython 3.11 or newer")
    if hasattr(sys, "gettotalrefcount"):
        means = "a debug build: Python's own part of each time is several times too long"
        return grant(status="limited", found=f"{found}, debug build", means=means, todo="use a release build")
    return grant(status="ok", found=found)


def _virtual(seen: Seen) -> Grant:
    hypervisor = None if seen.host is None else seen.host.hypervisor
    grant = partial(_GRANT, name="virtual machine", source="CPUID, DMI", values={"hypervisor": hypervisor})
    if seen.system == "Darwin":
        grant = partial(grant, source="sysctl kern.hv_vmm_present")
    if hypervisor is None:
        return grant(status="ok", found="none seen: bare metal")
    named = "yes, its name is not told" if hypervisor == "unknown" else hypervisor
    return grant(
        status="limited",
        found=named,
        means="caches and clocks that are reported need not be those granted; others may take time",
        todo="trust what `rooflab measure` finds; use bare metal where the last percent counts",
    )


def _container(seen: Seen) -> Grant:
    kind = seen.conditions.container
    source = "/.dockerenv, /run/.containerenv, /proc/self/cgroup, kernel's release"
    grant = partial(_GRANT, name="container", source=source, values={"kind": kind})
    if kind == "WSL":
        means = "Windows shares the machine: times vary more, and counters and clocks are kept back"
        return grant(status="limited", found="WSL", means=means, todo="measure on Linux itself where it counts")
    if kind == "gVisor":
        means = "system calls are simulated: dispatch and input are slower than on the machine"
        return grant(
            status="limited", found="gVisor's sandbox", means=means, todo="measure outside of the sandbox"
        )
    if kind is not None:
        return grant(status="ok", found=f"{kind}; its limits are in the lines on CPUs and memory")
    return grant(status="ok", found="no sign of one")


def _tracing(seen: Seen) -> Grant:
    scope = seen.conditions.ptrace_scope
    grant = partial(
        _GRANT, name="tracing", source="/proc/sys/kernel/yama/ptrace_scope", values={"ptrace_scope": scope}
    )
    if scope is None:
        return grant(status="ok", found="Yama is not there: own processes can be traced")
    if scope <= 1:
        return grant(status="ok", found=f"ptrace_scope {scope}: programs that a tool starts can be traced")
    means = "profilers that attach to a process (py-spy, gdb) fail; rooflab itself attaches to none"
    return grant(
        status="limited", found=f"ptrace_scope {scope}", means=means, todo="sudo sysctl kernel.yama.ptrace_scope=1"
    )


def _cache() -> Grant:
    """Where numba keeps compiled code and rooflab its generated loops: both under the user's cache folder."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    told = os.environ.get("NUMBA_CACHE_DIR")
    own = Path(__file__).parents[2]
    shown = {"XDG_CACHE_HOME or ~/.cache": Path(home), "rooflab's own folder": own}
    if told:
        shown["NUMBA_CACHE_DIR"] = Path(told)
    free = {name: _free_bytes(folder) for name, folder in shown.items()}
    writable = [name for name, room in free.items() if room is not None]
    values = {"user_cache_free_bytes": free["XDG_CACHE_HOME or ~/.cache"], "writable": ", ".join(writable) or None}
    grant = partial(_GRANT, name="cache folder", source="a file made there and removed", values=values)
    if not writable:
        return grant(
            status="missing",
            found="neither the user's cache folder nor rooflab's own can be written to",
            means="the simulator is compiled again in every process, for some seconds",
            todo="set NUMBA_CACHE_DIR and XDG_CACHE_HOME to a folder that can be written to",
        )
    if "XDG_CACHE_HOME or ~/.cache" not in writable:
        return grant(
            status="limited",
            found="the user's cache folder cannot be written to",
            means="compiled loops lie in the folder for temporary files, until the next reboot",
            todo="set XDG_CACHE_HOME to a folder that can be written to",
        )
    room = free["XDG_CACHE_HOME or ~/.cache"]
    if room is not None and room < _LEAST_FREE_BYTES:
        means = "compiled code may not be kept"
        return grant(status="limited", found=f"{si(room, 'B')} free", means=means, todo="make room")
    return grant(status="ok", found=f"writable, {si(room, 'B')} free")


def _temporary() -> Grant:
    grant = partial(_GRANT, name="temporary folder", source="a file made there and removed")
    try:
        room = _free_bytes(Path(tempfile.gettempdir()))
    except OSError:
        # tempfile found none at all
        room = None
    values = {"free_bytes": room}
    if room is None:
        means = "disks are not measured, and generated code cannot be kept"
        return grant(
            status="missing",
            found="none can be written to",
            means=means,
            todo="set TMPDIR to a folder",
            values=values,
        )
    if room < _LEAST_FREE_BYTES:
        means = "the disk cannot be measured"
        return grant(status="limited", found=f"{si(room, 'B')} free", means=means, todo="make room", values=values)
    return grant(status="ok", found=f"writable, {si(room, 'B')} free", values=values)


def _free_bytes(folder: Path) -> int | None:
    """Free bytes where `folder` is or could be made; None where it cannot be written to. Nothing is left there."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        with tempfile.TemporaryFile(dir=folder):
            return shutil.disk_usage(folder).free
    except OSError:
        # read-only, no permission, full, or no folder: all the same here
        return None
