"""What time, CPU use and faults of a command allow to say, and nothing more: a rule for each sentence."""

from __future__ import annotations

from collections.abc import Iterator

from rooflab.types.run import Way
from rooflab.types.usage import Meanwhile, Usage
from rooflab.units import duration, percent, si

# Below this many seconds starting the program is most of what was seen, and clocks of 10 ms say little.
_TOO_SHORT_S = 0.05
_WAITS = 0.5  # cores: less is waiting
_NEARLY = 0.9  # of one core, or of all: as busy as one thread or as all of them can be
_ONE = 1.1
_KERNEL = 0.2  # of the CPU time
_OTHERS = 0.1  # of a core, that others used
_WORTH = 0.02  # of the time
_STORAGE_BYTES = 1_000_000
# Switches a second of CPU time beyond which threads are in each other's way: the scheduler's own slices, of
# 3 ms or so, make a few hundred (Linux Documentation/scheduler/sched-eevdf.rst, base_slice_ns).
_CROWDED_HZ = 1000


def way_of(usage: Usage, granted: int | None) -> Way | None:
    """How the command used the cores; None where it was too short to say."""
    if usage.wall_s < _TOO_SHORT_S:
        return None
    if usage.cores < _WAITS:
        return "waiting"
    if granted is not None and granted > 1 and usage.cores >= _NEARLY * granted:
        return "all cores"
    if usage.cores <= _ONE:
        return "one core"
    return "some cores"


def verdict(usage: Usage, granted: int | None, meanwhile: Meanwhile) -> tuple[str, ...]:
    """Sentences, the most important first."""
    return (*_use(usage, granted), *_kernel(usage), *_storage(usage), *_disturbed(usage, meanwhile))


def _use(usage: Usage, granted: int | None) -> Iterator[str]:
    way = way_of(usage, granted)
    of_all = "" if granted is None else f" of {granted} granted"
    if way is None:
        yield f"Too short to say how it used the cores: {duration(usage.wall_s)}, most of which is starting."
    elif way == "waiting":
        yield (
            f"Waiting: it used {percent(usage.cores, 1)} of one core; for most of the time no thread of it "
            "ran. What for "
            "(a device, the disk, the network, sleep, another process) these numbers do not say."
        )
    elif way == "all cores":
        yield (
            f"All {granted} granted cores were busy ({usage.cores:.2f} on average): more threads cannot help. "
            "Whether arithmetic or memory bound them only counters say."
        )
    elif way == "one core":
        if granted == 1:
            yield f"The one granted core was busy {percent(usage.cores)} of the time."
        else:
            more = f"; {granted - 1} more cores were granted" if granted else ""
            yield f"As much as one thread can: {usage.cores:.2f} cores{of_all}{more}."
    else:
        yield f"{usage.cores:.2f} cores{of_all} were busy on average."


def _kernel(usage: Usage) -> Iterator[str]:
    if usage.wall_s < _TOO_SHORT_S or not usage.cpu_s:
        return
    share = usage.system_s / usage.cpu_s
    if share >= _KERNEL and usage.system_s >= _WORTH * usage.wall_s:
        faults = usage.minor_faults + usage.major_faults
        each = usage.system_s / faults if faults else 0.0
        yield (
            f"In the kernel: {percent(share)} of the CPU time ({duration(usage.system_s)}), with {faults:,} "
            "page faults"
            + (
                f"; if these took all of it, {duration(each)} each."
                if faults > 1000
                else ", too few to take it: system calls did."
            )
        )
    if usage.major_faults * 1e-4 >= _WORTH * usage.wall_s:
        yield (
            f"{usage.major_faults:,} page faults waited for a disk: the program, its data, or memory that was "
            "swapped out; a second run has what is cached."
        )


def _storage(usage: Usage) -> Iterator[str]:
    for label, nbytes in (("read from", usage.storage_read_bytes), ("written to", usage.storage_written_bytes)):
        if nbytes is not None and nbytes >= _STORAGE_BYTES and usage.wall_s >= _TOO_SHORT_S:
            rate = si(nbytes / usage.wall_s, "B/s")
            yield f"{si(nbytes, 'B')} were {label} storage, {rate} over the whole time."


def _disturbed(usage: Usage, meanwhile: Meanwhile) -> Iterator[str]:
    if usage.wall_s < _TOO_SHORT_S:
        return
    if meanwhile.throttled_s is not None and meanwhile.throttled_s >= _WORTH * usage.wall_s:
        yield (
            f"Stopped at its CPU quota: its control group stood still for {duration(meanwhile.throttled_s)}, all "
            "its threads added; raise the quota (docker: --cpus) or use fewer threads."
        )
    if meanwhile.stolen_s is not None and meanwhile.stolen_s >= _WORTH * usage.wall_s:
        yield (
            f"The hypervisor gave {duration(meanwhile.stolen_s)} of CPU time to other guests: the time holds for "
            "a crowded host."
        )
    others = meanwhile.others_cpu_s
    if others is not None and others >= max(_OTHERS * usage.wall_s, 0.1):
        yield (f"Other programs used {others / usage.wall_s:.2f} cores meanwhile: the time may be theirs in part.")
    if usage.cpu_s and usage.involuntary_switches > _CROWDED_HZ * usage.cpu_s and usage.cpu_s > 0.1:
        yield (
            f"Its threads were made to give way {usage.involuntary_switches:,} times: more threads than cores, or "
            "other programs on them."
        )
