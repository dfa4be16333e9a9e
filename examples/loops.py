"""Six loops to take apart: `rooflab loop examples/loops.py:stencil --n 2048`; `args` makes what each works on."""

from __future__ import annotations

from typing import Any

import numpy as np


def triad(a, b, c, s):
    """Read two arrays, write one: 2 FLOP and, with the line that a store reads first, 32 bytes an element."""
    for i in range(a.shape[0]):
        a[i] = b[i] + s * c[i]


def stencil(a, b):
    """Write the mean of five points; whether three rows fit in a cache decides what it must reload."""
    n, m = a.shape
    for i in range(1, n - 1):
        for j in range(1, m - 1):
            b[i, j] = 0.2 * (a[i, j] + a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1])


def transpose(a, b):
    """Read along rows and write along columns: each written line is needed again a whole row later."""
    n, m = a.shape
    for i in range(n):
        for j in range(m):
            b[j, i] = a[i, j]


def matmul(a, b, c, t):
    """Add products of blocks of t × t: three loops over blocks, three within."""
    n, m, p = a.shape[0], a.shape[1], b.shape[1]
    for ii in range(0, n, t):
        for kk in range(0, m, t):
            for jj in range(0, p, t):
                for i in range(ii, min(ii + t, n)):
                    for k in range(kk, min(kk + t, m)):
                        x = a[i, k]
                        for j in range(jj, min(jj + t, p)):
                            c[i, j] += x * b[k, j]


def spmv(start, column, value, x, y):
    """Multiply a sparse matrix (CSR) with a vector: where x is read, the matrix decides."""
    for i in range(start.shape[0] - 1):
        total = 0.0
        for k in range(start[i], start[i + 1]):
            total += value[k] * x[column[k]]
        y[i] = total


def pagerank(start, source, share, rank, following, damping, rounds):
    """Let every page collect, round by round, the shares of the pages that link to it."""
    n = rank.shape[0]
    for _round in range(rounds):
        for i in range(n):
            total = 0.0
            for k in range(start[i], start[i + 1]):
                j = source[k]
                total += rank[j] * share[j]
            following[i] = (1.0 - damping) / n + damping * total
        rank, following = following, rank


def neighbours(a, b):
    """Sums of two neighbours, as NumPy has them: numba makes a temporary, and copies it."""
    b[1:-1] = a[:-2] + a[2:]


def args(n: int, loop: str, seed: int = 0) -> tuple[Any, ...]:
    """The arguments of `loop` at size n, always the same."""
    rng = np.random.default_rng(seed)
    if loop == "triad":
        return np.zeros(n), rng.random(n), rng.random(n), 3.0
    if loop in ("stencil", "transpose"):
        return rng.random((n, n)), np.zeros((n, n))
    if loop == "matmul":
        return rng.random((n, n)), rng.random((n, n)), np.zeros((n, n)), 64
    if loop == "neighbours":
        return rng.random(n), np.zeros(n)
    each = 8
    start = np.arange(0, n * each + 1, each)
    place = rng.integers(0, n, n * each)
    if loop == "spmv":
        return start, place, rng.random(n * each), rng.random(n), np.zeros(n)
    return start, place, np.full(n, 1.0 / each), np.full(n, 1.0 / n), np.zeros(n), 0.85, 3


if __name__ == "__main__":
    import rooflab

    for fn, size in ((triad, 200_000), (stencil, 256), (transpose, 256), (matmul, 96), (spmv, 20_000)):
        report = rooflab.loop(fn, *args(size, fn.__name__), timed=False)
        crossed = ", ".join(f"{each.level} {each.nbytes / 1e6:.2f} MB" for each in report.traffic)
        print(f"{fn.__name__:<10} {report.flop / 1e6:8.2f} MFLOP  {crossed}")
