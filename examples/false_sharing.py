"""What does giving two counters a line each save? Simulated, then timed with two threads.

Each thread counts up its own counter: no value is shared. Eight bytes apart the counters lie in one line, which
the cores take from each other at every store (false sharing); padded, each core keeps its own line.

Run: python examples/false_sharing.py
"""

from __future__ import annotations

import os
import sys
import threading
import time

import numpy as np
from numba import njit

import rooflab

PADDINGS_BYTES = (8, 128)  # two lines of 64: many processors fetch them in pairs
SIMULATED, TIMED, ROUNDS = 100_000, 4_000_000, 3
CACHES = [
    rooflab.Cache(32 * 1024, 8, name="L1"),
    rooflab.Cache(512 * 1024, 8, name="L2"),
    rooflab.Cache(16 * 1024 * 1024, 16, name="L3"),
]


@njit(nogil=True)
def count_up(counts: np.ndarray, places: np.ndarray, trips: int) -> None:
    """Add 1 to `counts[place]`, `trips` times; all of `places` are one, which the compiler can't know."""
    for trip in range(trips):
        counts[places[trip & 7]] += 1


def time_s(padding_bytes: int) -> float:
    """Seconds that two threads take, pinned to two processors where the system lets them: the best of a few."""
    step = padding_bytes // 8
    room = np.zeros(64 + 2 * step, np.int64)
    first = -room.ctypes.data // 8 % 16  # on a line, and on a pair of lines
    counts = room[first:]
    allowed = sorted(os.sched_getaffinity(0)) if sys.platform == "linux" else []
    ready = threading.Barrier(3)

    def work(core: int) -> None:
        if len(allowed) > 1:
            os.sched_setaffinity(0, {allowed[core]})
        places = np.full(8, core * step)
        ready.wait()
        count_up(counts, places, TIMED)

    taken = []
    for _ in range(ROUNDS):
        threads = [threading.Thread(target=work, args=(core,)) for core in range(2)]
        for thread in threads:
            thread.start()
        ready.wait()
        start = time.perf_counter()
        for thread in threads:
            thread.join()
        taken.append(time.perf_counter() - start)
    assert counts[0] == counts[step] == ROUNDS * TIMED
    return min(taken)


def main() -> None:
    count_up(np.zeros(1, np.int64), np.zeros(8, np.int64), 1)  # compiles
    for padding_bytes in PADDINGS_BYTES:
        streams = rooflab.core_streams.counters(2, SIMULATED, padding_bytes=padding_bytes)
        found = rooflab.simulate_cores(streams, levels=CACHES)
        print(f"{streams.name}: {found.false_sharing:,} false-sharing misses, {found.invalidations:,} lines lost")
    print(f"timed, {TIMED:,} increments by each of two threads:")
    apart = [time_s(padding_bytes) for padding_bytes in PADDINGS_BYTES]
    for padding_bytes, seconds in zip(PADDINGS_BYTES, apart, strict=True):
        print(f"  {padding_bytes:3} bytes apart {seconds / TIMED * 1e9:6.2f} ns an increment")
    print(f"padding makes it {apart[0] / apart[1]:.1f} × as fast here")
    if apart[0] < 1.5 * apart[1]:
        print("  (little: these two processors share a core and its L1, or were not free at once)")


if __name__ == "__main__":
    main()
