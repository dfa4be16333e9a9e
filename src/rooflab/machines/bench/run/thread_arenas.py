"""Where each thread's data lies: one arena per CPU, touched first by that CPU's thread."""

from __future__ import annotations

from dataclasses import dataclass

from rooflab.machines.bench.kernels.jit import Kernel
from rooflab.machines.bench.run.arena import HUGE_PAGE_BYTES, Arena
from rooflab.machines.bench.run.pinned_threads import Job, PinnedThreads
from rooflab.machines.bench.run.trials import JITTER_BYTES

# Streams of one kernel start this much further apart than their length, so that equal offsets of two
# arrays do not fall into the same set and the same 4 KiB page offset.
_STAGGER_BYTES = 4096 // 3 // 64 * 64
SLACK_BYTES = 8 * (_STAGGER_BYTES + JITTER_BYTES) + 64 * 1024


@dataclass(frozen=True)
class ThreadArenas:
    """The arenas by CPU."""

    by_cpu: dict[int, Arena]

    @staticmethod
    def touched(pinned: PinnedThreads, bytes_by_cpu: dict[int, int]) -> ThreadArenas:
        """Arenas of at least the given sizes, all touched by their CPU's thread."""
        by_cpu = {}
        for cpu, nbytes in bytes_by_cpu.items():
            whole = -(-(nbytes + SLACK_BYTES) // HUGE_PAGE_BYTES) * HUGE_PAGE_BYTES
            by_cpu[cpu] = Arena.reserve(whole)
        for future in [pinned.submit(cpu, arena.touch) for cpu, arena in by_cpu.items()]:
            future.result()
        return ThreadArenas(by_cpu)

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
