"""Pinned threads that run kernels together, and the time they took by their own clocks."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import TypeVar

import numpy as np

from rooflab.errors import MeasureError
from rooflab.machines.bench.kernels.ir import RELEASED, RESULT_OFFSET_BYTES
from rooflab.machines.bench.kernels.jit import Kernel

T = TypeVar("T")
_OUT_BYTES = RESULT_OFFSET_BYTES + 32 * 256  # as many SVE registers of 2048 bits as there are
_BARRIER_BYTES = 128


@dataclass(frozen=True)
class Job:
    """One kernel call on one CPU; addresses and sizes as in `ir.SIGNATURE`."""

    cpu: int
    kernel: Kernel
    iterations: int
    a: int = 0
    b: int = 0
    c: int = 0
    nbytes: int = 0
    width: int = 0
    s: float = 0.5
    t: float = 1.0


@dataclass(frozen=True)
class Run:
    """What a set of jobs took.

    Attributes:
        seconds: from the first start to the last end.
        each_s: every job's own time.
    """

    seconds: float
    each_s: tuple[float, ...]


class PinnedThreads:
    """One thread per CPU, pinned for good. Use as a context manager."""

    def __init__(self, cpus: Sequence[int]) -> None:
        self.cpus = tuple(cpus)
        self._outs = {cpu: np.zeros(_OUT_BYTES // 8, np.int64) for cpu in cpus}
        self._stack = ExitStack()
        self._pools = {
            cpu: self._stack.enter_context(ThreadPoolExecutor(1, f"rooflab-cpu{cpu}", _pin, (cpu,)))
            for cpu in cpus
        }

    def __enter__(self) -> PinnedThreads:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def submit(self, cpu: int, work: Callable[[], object]) -> Future[object]:
        """Run `work` on the thread pinned to `cpu`.

        Raises:
            MeasureError: the system starts no further thread.
        """
        try:
            return self._pools[cpu].submit(work)
        except RuntimeError as error:
            raise MeasureError(f"CPU {cpu}: {error}; raise the limit on threads or memory") from None

    def call(self, cpu: int, work: Callable[[], T]) -> T:
        """What `work` returns on the thread pinned to `cpu`."""
        return self._pools[cpu].submit(work).result()

    def run(self, jobs: Sequence[Job]) -> Run:
        """Run all `jobs` at once, one per CPU; they start together, behind a barrier in the kernels.

        Raises:
            MeasureError: two jobs on one CPU: the second would wait for the first, and the first for it.
        """
        if len({job.cpu for job in jobs}) < len(jobs):
            raise MeasureError(
                f"pinned threads: got jobs on CPUs {[job.cpu for job in jobs]}, expected one per CPU"
            )
        barrier = np.zeros(_BARRIER_BYTES // 8, np.int64)
        where = barrier.ctypes.data + (-barrier.ctypes.data % 64)
        pending: list[Future[object]] = []
        try:
            for job in jobs:
                pending.append(self.submit(job.cpu, self._call(job, where, len(jobs))))
            # The first error counts, not the first job: its neighbour may be waiting for it.
            done, _ = wait(pending, return_when=FIRST_EXCEPTION)
            for future in done:
                future.result()
        except BaseException:
            # A job that was not started would leave the others at the barrier for ever.
            barrier[:] = RELEASED
            wait(pending)
            raise
        outs = [self._outs[job.cpu] for job in jobs]
        starts = [int(out[0]) * 10**9 + int(out[1]) for out in outs]
        ends = [int(out[2]) * 10**9 + int(out[3]) for out in outs]
        each = tuple((end - start) * 1e-9 for start, end in zip(starts, ends, strict=True))
        return Run((max(ends) - min(starts)) * 1e-9, each)

    def results(self, cpu: int, dtype: type[np.generic], count: int) -> np.ndarray:
        """The first `count` numbers that the last kernel on `cpu` left as its result."""
        raw = self._outs[cpu].view(np.uint8)[RESULT_OFFSET_BYTES:]
        return raw.view(dtype)[:count].copy()

    def _call(self, job: Job, barrier: int, threads: int) -> Callable[[], None]:
        out = self._outs[job.cpu].ctypes.data
        function = job.kernel.function

        def call() -> None:
            function(
                job.a, job.b, job.c, job.nbytes, job.iterations, job.width, barrier, threads, out, job.s, job.t
            )

        return call


def _pin(cpu: int) -> None:
    """Keep the calling thread on `cpu`, where the system allows it (macOS does not)."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {cpu})
