"""Where each thread's data lies: one arena per CPU, touched first by that CPU's thread."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rooflab.machines.bench.kernels.jit import Kernel
from rooflab.machines.bench.run.arena import HUGE_PAGE_BYTES, Arena
from rooflab.machines.bench.run.pinned_threads import Job, PinnedThreads
from rooflab.machines.bench.run.trials import JITTER_BYTES
from rooflab.units import MIB

# Streams of one kernel start this much further apart than their length, so that equal offsets of two
# arrays do not fall into the same set and the same 4 KiB page offset.
_STAGGER_BYTES = 4096 // 3 // 64 * 64
# A working set of that many times the last cache holds nothing of it when it is streamed through in turn.
_BEYOND_CACHE = 1.5
_WINDOWS, _LEAST_WINDOW_BYTES, _MOST_WINDOW_BYTES = 4, 32 * MIB, 64 * MIB
SLACK_BYTES = 8 * (_STAGGER_BYTES + JITTER_BYTES) + 64 * 1024


@dataclass(frozen=True)
class ThreadArenas:
    """The arenas by CPU.

    Attributes:
        last_cache_bytes: of the largest cache before them; None where it isn't known.
        sharers: how many of the CPUs share it.
    """

    by_cpu: dict[int, Arena]
    last_cache_bytes: float | None = None
    sharers: int = 1

    @staticmethod
    def touched(
        pinned: PinnedThreads,
        bytes_by_cpu: dict[int, int],
        last_cache_bytes: float | None = None,
        sharers: int = 1,
    ) -> ThreadArenas:
        """Arenas of at least the given sizes, all touched by their CPU's thread."""
        arenas = ThreadArenas.reserved(bytes_by_cpu, last_cache_bytes, sharers)
        for future in [pinned.submit(cpu, arena.touch) for cpu, arena in arenas.by_cpu.items()]:
            future.result()
        return arenas

    @staticmethod
    def reserved(
        bytes_by_cpu: dict[int, int], last_cache_bytes: float | None = None, sharers: int = 1
    ) -> ThreadArenas:
        """Arenas of at least the given sizes, of which no page is there yet."""
        sizes = {
            cpu: -(-(n + SLACK_BYTES) // HUGE_PAGE_BYTES) * HUGE_PAGE_BYTES for cpu, n in bytes_by_cpu.items()
        }
        return ThreadArenas({cpu: Arena.reserve(n) for cpu, n in sizes.items()}, last_cache_bytes, sharers)

    def window_bytes(self, working_set: int, cpus: int) -> int:
        """How much of `working_set` one sample need stream through, if samples go on where the last one ended.

        All of it, unless it lies beyond what so many CPUs, each with such a working set, have of the last cache: a
        stretch of it is then as cold as the whole, since all else is streamed through before it comes round again.
        """
        share = self.share_bytes(cpus)
        if share is None or working_set < _BEYOND_CACHE * share:
            return working_set
        return min(working_set, max(_LEAST_WINDOW_BYTES, min(_MOST_WINDOW_BYTES, working_set // _WINDOWS)))

    def lead(self, working_set: int, cpus: int) -> int:
        """Windows of `working_set` that fill the last cache, where so many CPUs stream through theirs at once."""
        window, share = self.window_bytes(working_set, cpus), self.share_bytes(cpus)
        return 0 if window == working_set or share is None else math.ceil(share / window)

    def share_bytes(self, cpus: int) -> float | None:
        """What each of so many CPUs has of the last cache."""
        return self.last_cache_bytes / min(cpus, self.sharers) if self.last_cache_bytes else None

    def stream_job(self, cpu: int, kernel: Kernel, streams: int, working_set: int, places: int = 1) -> Job:
        """A job over `working_set` bytes of `cpu`'s arena, shared evenly by `streams` arrays; one pass.

        The arrays are cut to whole loop iterations, so the job's bytes are `nbytes` × streams × places, of
        which the kernel goes through `places` at once, `width` bytes apart.
        """
        step = kernel.emitted.step_bytes
        nbytes = max(step, working_set // (streams * places) // step * step)
        first = self.by_cpu[cpu].address
        apart = nbytes + _STAGGER_BYTES
        starts = [first + k * (apart if streams > 1 else 0) for k in range(3)]
        a, b, c = (start if k < streams else first for k, start in enumerate(starts))
        width = apart if places > 1 else 0
        return Job(cpu, kernel, nbytes // step, a=a, b=b, c=c, nbytes=nbytes, width=width)
