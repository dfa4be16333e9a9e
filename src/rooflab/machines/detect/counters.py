"""Hardware counters: what the kernel lists, what it permits, and whether an event opens and counts.

The call is perf_event_open(2); its structure perf_event_attr is that of Linux include/uapi/linux/perf_event.h. The
meaning of perf_event_paranoid: Documentation/admin-guide/sysctl/kernel.rst. Debian and Ubuntu add levels 3 and 4,
which refuse every event to users without rights.
"""

from __future__ import annotations

import errno
import os
import platform
import struct
from dataclasses import dataclass

from rooflab.machines.detect.files import Tree

DEVICES = "sys/bus/event_source/devices"
# Counters of memory controllers and of the fabric before them, by the kernel's names: drivers/perf and
# arch/x86/events (Intel uncore, AMD data fabric and memory controllers, Arm interconnects, Arm and Ampere memory).
_UNCORE = (
    "uncore_imc",
    "amd_umc",
    "amd_df",
    "arm_cmn",
    "arm_dmc620",
    "ampere_mcu",
    "nvidia_scf",
    "hisi_sccl",
)
# Cores' own counters: one device, or one for each kind of core.
_CORE = ("cpu", "cpu_core", "cpu_atom")
_CORE_STARTS = ("armv7", "armv8", "armv9", "apple_", "cpum_cf", "riscv")

_HARDWARE, _CPU_CYCLES = 0, 0  # PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES
_ATTR_BYTES = 72  # PERF_ATTR_SIZE_VER1: with config2
_EXCLUDE_KERNEL_AND_HYPERVISOR = 1 << 5 | 1 << 6
_CLOSE_ON_EXEC = 8  # PERF_FLAG_FD_CLOEXEC
# The number of the system call: arch/*/entry/syscalls, and asm-generic/unistd.h for the newer ones.
_CALL_NUMBERS = {"x86_64": 298, "aarch64": 241, "riscv64": 241, "ppc64le": 319, "s390x": 331}
_SPINS = 2000


@dataclass(frozen=True, slots=True)
class Tried:
    """An event that was tried: what it `counted` where it was read, or the name of the `error` ("ENOENT")."""

    opened: bool
    counted: int | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """What is known of the counters.

    Attributes:
        paranoid: perf_event_paranoid; None where the kernel has no perf events.
        core_devices, uncore_devices: names that the kernel lists.
        lists_devices: whether it lists any device of events, software's too.
        cycles: the cycles of this process, tried; None where they were not (a snapshot).
        uncore: the first uncore device, tried on its CPU.
    """

    paranoid: int | None = None
    core_devices: tuple[str, ...] = ()
    uncore_devices: tuple[str, ...] = ()
    lists_devices: bool = False
    cycles: Tried | None = None
    uncore: Tried | None = None


def read_counters(tree: Tree) -> Counters:
    """The counters of the machine whose file system is `tree`; events are opened on the running one alone."""
    devices = tree.names(DEVICES)
    core = tuple(each for each in devices if is_core(each))
    uncore = tuple(each for each in devices if each.startswith(_UNCORE))
    return Counters(
        paranoid=tree.integer("proc/sys/kernel/perf_event_paranoid"),
        core_devices=core,
        uncore_devices=uncore,
        lists_devices=bool(devices),
        cycles=try_cycles() if tree.is_live else None,
        uncore=_try_uncore(tree, uncore[0]) if tree.is_live and uncore else None,
    )


def is_core(device: str) -> bool:
    """Whether `device` counts a core's own events."""
    return device in _CORE or device.startswith(_CORE_STARTS)


def try_cycles() -> Tried | None:
    """The cycles of this process in user mode, opened and read once; None where the call is not known."""
    opened = open_event(_HARDWARE, _CPU_CYCLES, _EXCLUDE_KERNEL_AND_HYPERVISOR, pid=0, cpu=-1)
    return opened if opened is None or isinstance(opened, Tried) else _read(opened)


def _try_uncore(tree: Tree, device: str) -> Tried | None:
    """Event 0 of `device` on the CPU that the kernel names for it."""
    number = tree.integer(f"{DEVICES}/{device}/type")
    cpus = tree.cpu_list(f"{DEVICES}/{device}/cpumask")
    if number is None or not cpus:
        return None
    opened = open_event(number, 0, 0, pid=-1, cpu=cpus[0])
    if opened is None or isinstance(opened, Tried):
        return opened
    os.close(opened)
    return Tried(opened=True)  # event 0 need not happen: that it opens is the answer


def open_event(
    kind: int, config: int, flags: int, *, pid: int, cpu: int, group: int = -1, more: tuple[int, ...] = ()
) -> int | Tried | None:
    """A file descriptor, the error, or None where this system's call is not known.

    Args:
        kind: number of the device.
        config: what is counted.
        flags: of the structure, as bits.
        pid: process, 0 for this one, -1 for all.
        cpu: -1 for all that the process runs on.
        group: descriptor of the event that it is only counted together with.
        more: config1 and config2.
    """
    import ctypes  # a command that is run waits for this import: only where something is opened

    number = _CALL_NUMBERS.get(platform.machine())
    if platform.system() != "Linux" or number is None or struct.calcsize("P") != 8:
        return None
    # type, size, config, sample_period, sample_type, read_format, flags, wakeup_events, bp_type, config1, config2
    words = (kind, _ATTR_BYTES, config, 0, 0, 0, flags, 0, 0, *(more or (0, 0)))
    attr = struct.pack("=IIQQQQQIIQQ", *words)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    arguments = (ctypes.c_int(pid), ctypes.c_int(cpu), ctypes.c_int(group), ctypes.c_ulong(_CLOSE_ON_EXEC))
    descriptor = libc.syscall(ctypes.c_long(number), ctypes.c_char_p(attr), *arguments)
    if descriptor >= 0:
        return int(descriptor)
    number = ctypes.get_errno()
    return Tried(opened=False, error=errno.errorcode.get(number, str(number)))


def _read(descriptor: int) -> Tried:
    try:
        for _ in range(_SPINS):
            pass
        return Tried(opened=True, counted=int.from_bytes(os.read(descriptor, 8), "little"))
    except OSError as error:
        return Tried(opened=True, error=errno.errorcode.get(error.errno or 0, str(error.errno)))
    finally:
        os.close(descriptor)
