"""The loops of c_loops.c in Python, with the same arguments; `args` makes what each works on, in both."""

from __future__ import annotations

from typing import Any

import numpy as np


def copy(a, b, n):
    """Read an array, write one."""
    for i in range(n):
        a[i] = b[i]


def scale(a, b, s, n):
    """Read an array, write its multiple."""
    for i in range(n):
        a[i] = s * b[i]


def add(a, b, c, n):
    """Read two arrays, write their sum."""
    for i in range(n):
        a[i] = b[i] + c[i]


def triad(a, b, c, s, n):
    """Read two arrays, write one."""
    for i in range(n):
        a[i] = b[i] + s * c[i]


def stencil(b, a, s, n):
    """Write the weighted sum of seven points of a grid."""
    for i in range(1, n - 1):
        for j in range(1, n - 1):
            for k in range(1, n - 1):
                at = (i * n + j) * n + k
                b[at] = s * a[at] + a[at - 1] + a[at + 1] + a[at - n] + a[at + n] + a[at - n * n] + a[at + n * n]


def spmv(start, column, value, x, y, n):
    """Multiply a sparse matrix (CSR) with a vector."""
    for i in range(n):
        total = 0.0
        for k in range(start[i], start[i + 1]):
            total += value[k] * x[column[k]]
        y[i] = total


def matmul(a, b, c, n, t):
    """Add products of blocks of t × t."""
    for ii in range(0, n, t):
        for kk in range(0, n, t):
            for jj in range(0, n, t):
                for i in range(ii, ii + t):
                    for k in range(kk, kk + t):
                        x = a[i * n + k]
                        for j in range(jj, jj + t):
                            c[i * n + j] = c[i * n + j] + x * b[k * n + j]


def search(sorted, wanted, place, n, m):
    """Find the place of each wanted number among sorted ones."""
    for i in range(m):
        low, high = 0, n
        x = wanted[i]
        while low < high:
            middle = (low + high) // 2
            if sorted[middle] < x:
                low = middle + 1
            else:
                high = middle
        place[i] = low


def horner(x, y, coefficient, n, m):
    """Evaluate a polynomial at each x."""
    for i in range(n):
        value = coefficient[0]
        for k in range(1, m):
            value = value * x[i] + coefficient[k]
        y[i] = value


def args(n: int, loop: str, seed: int = 0) -> tuple[Any, ...]:
    """What the function named `loop` is called with: arrays, numbers and sizes."""
    rng = np.random.default_rng(seed)
    if loop == "copy":
        return np.zeros(n), rng.random(n), n
    if loop == "scale":
        return np.zeros(n), rng.random(n), 3.0, n
    if loop == "add":
        return np.zeros(n), rng.random(n), rng.random(n), n
    if loop == "triad":
        return np.zeros(n), rng.random(n), rng.random(n), 3.0, n
    if loop == "stencil":
        return np.zeros(n**3), rng.random(n**3), -6.0, n
    if loop == "spmv":
        # 16 of n columns in each row
        start = np.arange(0, 16 * n + 1, 16, dtype=np.int32)
        column = np.sort(rng.integers(0, n, (n, 16), dtype=np.int32), axis=1).ravel()
        return start, column, rng.random(16 * n), rng.random(n), np.zeros(n), n
    if loop == "matmul":
        return rng.random(n * n), rng.random(n * n), np.zeros(n * n), n, min(n, 32)
    if loop == "search":
        return np.sort(rng.random(n)), rng.random(n), np.zeros(n, np.int64), n, n
    if loop == "horner":
        return rng.random(n), np.zeros(n), rng.random(16), n, 16
    raise ValueError(f"no loop named {loop}")
