"""What the operating system says of one execution of a command, and of what else happened meanwhile."""

from __future__ import annotations

import msgspec


class Usage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the operating system says of one execution of a command and of the children it waited for.

    Attributes:
        wall_s: from start to exit.
        user_s, system_s: CPU time of all threads, in the program and in the kernel for it.
        peak_memory_bytes: resident memory of the largest process; None where it is below `least_memory_bytes`.
        least_memory_bytes: what the system's figure cannot go below: a process begins with that of its parent.
        minor_faults, major_faults: pages given without and with a read from a disk.
        voluntary_switches, involuntary_switches: of threads that waited, and that were made to make room.
        storage_read_bytes, storage_written_bytes: that storage was asked for; None where /proc does not say.
        read_bytes, written_bytes: of all reads and writes, from caches, pipes and sockets too; None likewise.
    """

    wall_s: float
    user_s: float
    system_s: float
    peak_memory_bytes: int | None = None
    least_memory_bytes: int = 0
    minor_faults: int = 0
    major_faults: int = 0
    voluntary_switches: int = 0
    involuntary_switches: int = 0
    storage_read_bytes: int | None = None
    storage_written_bytes: int | None = None
    read_bytes: int | None = None
    written_bytes: int | None = None

    @property
    def cpu_s(self) -> float:
        """CPU time, in the program and in the kernel."""
        return self.user_s + self.system_s

    @property
    def cores(self) -> float:
        """Cores that were busy with it, on average."""
        return self.cpu_s / self.wall_s if self.wall_s else 0.0


class Meanwhile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What else happened on the machine while the command ran; None where /proc does not say.

    Attributes:
        others_cpu_s: CPU time of everything else, in whole clock ticks of the system.
        stolen_s: CPU time that a hypervisor gave to other guests.
        throttled_s: that the command's control group stood still at its CPU quota.
    """

    others_cpu_s: float | None = None
    stolen_s: float | None = None
    throttled_s: float | None = None
