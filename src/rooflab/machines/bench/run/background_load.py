"""What else ran on the measured CPUs: other processes of this system, and time the hypervisor took away."""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

_USER, _NICE, _SYSTEM, _IRQ, _SOFTIRQ, _STEAL = 0, 1, 2, 5, 6, 7


@dataclass(frozen=True)
class CpuTime:
    """CPU time so far, in seconds: of this process, of all work on the CPUs, stolen from them."""

    at_s: float
    own_s: float
    busy_s: float
    stolen_s: float


@dataclass(frozen=True)
class BackgroundLoad:
    """Shares of the CPUs' time, 0 to 1, that others had and that was stolen."""

    others: float
    stolen: float


def cpu_time(cpus: Collection[int], root: Path = Path("/")) -> CpuTime | None:
    """CPU time used so far on `cpus`; None where the system does not say (no /proc/stat)."""
    try:
        lines = (root / "proc/stat").read_text().splitlines()
    except OSError:
        return None
    tick = os.sysconf("SC_CLK_TCK")
    busy = stolen = 0
    wanted = {f"cpu{cpu}" for cpu in cpus}
    for line in lines:
        name, *fields = line.split()
        if name in wanted and len(fields) > _STEAL:
            ticks = [int(field) for field in fields]
            busy += sum(ticks[k] for k in (_USER, _NICE, _SYSTEM, _IRQ, _SOFTIRQ))
            stolen += ticks[_STEAL]
    times = os.times()
    return CpuTime(time.monotonic(), times.user + times.system, busy / tick, stolen / tick)


def background_load(before: CpuTime | None, after: CpuTime | None, cpus: int) -> BackgroundLoad | None:
    """What others used between two readings, as a share of the CPUs' time; None where it is not known."""
    if before is None or after is None or after.at_s <= before.at_s:
        return None
    span = (after.at_s - before.at_s) * cpus
    own = after.own_s - before.own_s
    others = max(0.0, after.busy_s - before.busy_s - own)
    return BackgroundLoad(others / span, max(0.0, after.stolen_s - before.stolen_s) / span)
