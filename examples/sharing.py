"""Small programs that several cores share: which of them race, and which only fight for a line?

    rooflab simulate examples/sharing.py:histogram 10000 --cores 2
    rooflab simulate examples/sharing.py:publish --cores 2

A loop over prange is split among the cores; a function of `cores` writes out what each core does. Run as a
program, it simulates them all, then lets two real threads lose counts in the histogram.

Run: python examples/sharing.py
"""

from __future__ import annotations

import threading

import numpy as np
from numba import njit, prange

import rooflab

BINS, KEYS, TIMES = 8, 10_000, 4000
CACHES = [
    rooflab.Cache(32 * 1024, 8, name="L1"),
    rooflab.Cache(512 * 1024, 8, name="L2"),
    rooflab.Cache(16 * 1024 * 1024, 16, name="L3"),
]


def histogram(keys, counts):
    """Count keys in one array: the trips of two cores meet in its elements."""
    for i in prange(keys.shape[0]):
        counts[keys[i]] += 1


def histogram_args(n):
    return np.random.default_rng(1).integers(0, BINS, n), np.zeros(BINS, np.int64)


def histogram_by_part(keys, counts):
    """Count in a row for each part: nothing races, but rows of 64 bytes or less share lines unless aligned."""
    parts, n = counts.shape[0], keys.shape[0]
    for part in prange(parts):
        for i in range(part * n // parts, (part + 1) * n // parts):
            counts[part, keys[i]] += 1


def histogram_by_part_args(n, row=BINS // 2):
    """Keys below half of BINS: rows of `row` counts lie `row` × 8 bytes apart."""
    return np.random.default_rng(1).integers(0, BINS // 2, n), np.zeros((2, row), np.int64)


def publish(cores):
    """Core 0 writes data, then a flag; the others read the flag, then the data."""
    write = [("store", "data", 0, 42), ("store", "flag", 0, 1)]
    return [write] + [[("load", "flag", 0), ("load", "data", 0)]] * (cores - 1)


def publish_in_order(cores):
    """The same where a lock guards both."""
    return [[("acquire", "lock", 0), *part, ("release", "lock", 0)] for part in publish(cores)]


def spin_lock(cores, turns=1000):
    """Each core counts up under a lock, `turns` times."""
    return [[("acquire", "lock", 0), ("load", "n", 0), ("store", "n", 0), ("release", "lock", 0)] * turns] * cores


def told(name, found):
    items = {(race.array, race.index) for race in found.races}
    print(
        f"{name}: races on {len(items)} items; {found.invalidations:,} lines lost,"
        f" {found.true_sharing:,} true and {found.false_sharing:,} false sharing"
    )
    for race in found.races:
        if race.reader is not None and len(race.could_see or ()) <= 3:
            print(f"  {race.array}[{race.index}]: core {race.reader} could see {', '.join(race.could_see)}")


@njit(nogil=True)
def count(keys: np.ndarray, counts: np.ndarray, times: int) -> None:
    """One thread's part of the histogram, `times` times."""
    for _ in range(times):
        for i in range(keys.shape[0]):
            counts[keys[i]] += 1


def lost(keys: np.ndarray) -> int:
    """How many counts two threads lose."""
    counts, half = np.zeros(BINS, np.int64), len(keys) // 2
    count(keys[:0], counts, 1)  # compiles
    threads = [threading.Thread(target=count, args=(part, counts, TIMES)) for part in (keys[:half], keys[half:])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(keys) * TIMES - int(counts.sum())


def main() -> None:
    def loop(name, fn, args):
        told(name, rooflab.simulate_cores(fn, *args, cores=2, levels=CACHES))

    loop("histogram", histogram, histogram_args(KEYS))
    loop("histogram by part", histogram_by_part, histogram_by_part_args(KEYS))
    loop("histogram by part, rows of a line", histogram_by_part, histogram_by_part_args(KEYS, row=8))
    for program in (publish, publish_in_order, spin_lock):
        told(program.__name__.replace("_", " "), rooflab.simulate_cores(program(2), levels=CACHES))
    keys, _ = histogram_args(KEYS)
    print(f"two real threads lose {lost(keys):,} of {KEYS * TIMES:,} counts of the histogram here")


if __name__ == "__main__":
    main()
