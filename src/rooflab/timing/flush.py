"""Caches emptied between calls: every core reads memory of its own, several times what the caches hold."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from rooflab.timing.careful import Blocks, collected, grouped

TIMES = 4  # what is read over the last cache: with 2 an LRU cache is empty, and not all caches are LRU
_LEAST_BYTES = 8 * 2**20  # of each core: more than any private cache


class Flusher:
    """Empties the caches of some CPUs whenever it is called. Used with `with`, as it has a thread on each.

    What it reads was written before, so that each page is memory of its own, and reading leaves nothing to be
    written back.
    """

    def __init__(self, cache_bytes: float, cpus: Sequence[int]) -> None:
        """Takes what the last cache holds, and the CPUs whose caches to empty."""
        self._cpus = tuple(cpus) or (None,)
        share = max(_LEAST_BYTES, int(TIMES * cache_bytes / len(self._cpus)))
        self._each, self.nbytes = share, share * len(self._cpus)
        self._pools: list[ThreadPoolExecutor] = []
        self._buffers: list = []

    def __enter__(self) -> Flusher:
        import numpy as np

        for cpu in self._cpus:
            pool = ThreadPoolExecutor(1)
            pool.submit(_pin, cpu).result()
            self._pools.append(pool)
            self._buffers.append(pool.submit(np.ones, self._each // 8).result())
        return self

    def __exit__(self, *_: object) -> None:
        for pool in self._pools:
            pool.shutdown()
        self._pools, self._buffers = [], []

    def __call__(self) -> None:
        """Empty the caches."""
        waiting = [pool.submit(buffer.max) for pool, buffer in zip(self._pools, self._buffers, strict=True)]
        for one in waiting:
            one.result()


def _pin(cpu: int | None) -> None:
    """Keep the thread that calls on `cpu`, where the system lets it choose."""
    if cpu is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {cpu})


def cold_blocks(
    call: Callable[[], object],
    flush: Callable[[], None],
    *,
    span_s: float,
    limit_s: float = 60.0,
    tell: Callable[[float], None] = lambda done: None,
    clock: Callable[[], float] = time.perf_counter,
) -> Blocks:
    """Calls one by one, the caches emptied before each, in blocks of ten, for `span_s`; at least 5 calls.

    Where fewer than 50 calls fit, each is a block by itself.

    Args:
        call: what is timed.
        flush: empties the caches.
        span_s: after which no call begins.
        limit_s: the same, however few there are, the first excepted.
        tell: called with the share that is done.
        clock: returns seconds.
    """
    begun, each = clock(), []
    with collected():
        while True:
            spent = clock() - begun
            mean = spent / len(each) if each else 0.0
            if each and (spent + mean > limit_s or (len(each) >= 5 and spent > span_s)):
                break
            tell(min(1.0, spent / span_s))
            flush()
            start = clock()
            call()
            each.append(clock() - start)
    return grouped(each)
