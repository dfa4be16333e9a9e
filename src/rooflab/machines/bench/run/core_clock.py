"""The clock of one core under load, now: a dependent chain of one addition or xor a cycle, timed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_ITERATIONS, _READINGS = (
    4_000,
    5,
)  # 0.14 ms each at 3.7 GHz; the quickest reading stands


@contextmanager
def core_clock(cpu: int) -> Iterator[Callable[[], float]]:
    """A function that gives the clock of `cpu` in hertz at the moment of its call."""
    import numpy as np

    from rooflab.machines.bench.kernels.emit import clock_kernel
    from rooflab.machines.bench.kernels.jit import compile_kernels
    from rooflab.machines.bench.run.pinned_threads import Job, PinnedThreads

    kernel = compile_kernels([clock_kernel()])["clock"]
    memory = np.ones(64, np.int64)
    with PinnedThreads([cpu]) as pinned:
        job = Job(cpu, kernel, _ITERATIONS, a=memory.ctypes.data, width=0x5DEECE66D)

        def read() -> float:
            seconds = min(pinned.run([job]).seconds for _ in range(_READINGS))
            return kernel.emitted.operations * _ITERATIONS / seconds

        yield read
