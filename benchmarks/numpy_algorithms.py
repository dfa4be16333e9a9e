"""What NumPy's algorithms take by step here: sorts, searches, transforms, factorisations, random numbers.

    python benchmarks/numpy_algorithms.py

The constants `numpy.compare_clocks` to `numpy.tally_clocks` of model/data/cpu.toml come from it: nanoseconds of
one comparison, FLOP or element, the best of many calls, times the clock; of factorisations the time of one FLOP in
those of NumPy's own product of matrices of the same size, by one thread. Run it with nothing beside it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

SECONDS = 0.25


def best(fn: Callable[..., Any], *args: Any) -> float:
    """Seconds of the quickest call in a quarter of a second."""
    fn(*args)
    begun, least = time.perf_counter(), math.inf
    while least == math.inf or time.perf_counter() - begun < SECONDS:
        start = time.perf_counter()
        fn(*args)
        least = min(least, time.perf_counter() - start)
    return least


def say(name: str, size: int, seconds: float, steps: float) -> None:
    """A line: nanoseconds of one step."""
    print(f"{name:20} {size:>9,}  {seconds / steps * 1e9:8.3f} ns a step", flush=True)


def main() -> None:
    """Time, print."""
    rng = np.random.default_rng(1)
    for n in (1000, 30_000, 1_000_000):
        x, comparisons = rng.random(n), n * math.log2(n)
        say("sort", n, best(np.sort, x), comparisons)
        say("argsort", n, best(np.argsort, x), comparisons)
        say("partition", n, best(np.partition, x, n // 2), 2 * n)
        say("median", n, best(np.median, x), 2 * n)
        say("searchsorted", n, best(np.searchsorted, np.sort(x), x), n * (math.log2(n) + 1))
    for n in (256, 4096, 1 << 16, 1 << 20):
        x, flop = rng.random(n), 5 * n * math.log2(n)
        say("fft", n, best(np.fft.fft, x + 1j), flop)
        say("rfft", n, best(np.fft.rfft, x), flop / 2)
    n = 1_000_000
    say("random", n, best(rng.random, n), n)
    say("normal", n, best(rng.normal, 0, 1, n), n)
    say("bincount", n, best(np.bincount, rng.integers(0, 100, n)), n)
    with threadpool_limits(1):
        for n in (64, 256, 768):
            a, b = rng.random((n, n)) + n * np.eye(n), rng.random(n)
            product = best(np.matmul, a, a) / (2 * n**3)
            for name, fn, args, flop in (
                ("solve", np.linalg.solve, (a, b), 2 / 3 * n**3),
                ("cholesky", np.linalg.cholesky, (a @ a.T,), n**3 / 3),
                ("qr", np.linalg.qr, (a,), 8 / 3 * n**3),
                ("eigh", np.linalg.eigh, (a @ a.T,), 14 / 3 * n**3),
                ("svd", np.linalg.svd, (a,), 21 * n**3),
            ):
                print(f"{name:20} {n:>9,}  {best(fn, *args) / flop / product:8.2f} x a product's FLOP", flush=True)


if __name__ == "__main__":
    main()
