"""Loops that the tests take apart; each is also run by plain Python, with arrays that log what is done to them."""

from __future__ import annotations

import math

import numpy as np

SCALE = 0.5


def triad(a, b, c, s):
    for i in range(a.shape[0]):
        a[i] = b[i] + s * c[i]


def stencil(a, o):
    n, m = a.shape
    for i in range(1, n - 1):
        for j in range(1, m - 1):
            o[i, j] = 0.2 * (a[i, j] + a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1])


def matmul(a, b, c):
    n, m, p = a.shape[0], a.shape[1], b.shape[1]
    for i in range(n):
        for j in range(p):
            acc = 0.0
            for k in range(m):
                acc += a[i, k] * b[k, j]
            c[i, j] = acc


def matmul_in_memory(a, b, c):
    for i in range(len(a)):
        for j in range(b.shape[1]):
            for k in range(a.shape[1]):
                c[i][j] += a[i][k] * b[k][j]


def transpose(a, b):
    n, m = a.shape
    for i in range(n):
        for j in range(m):
            b[j, i] = a[i, j]


def spmv(start, column, value, x, y):
    for i in range(start.shape[0] - 1):
        total = 0.0
        for k in range(start[i], start[i + 1]):
            total += value[k] * x[column[k]]
        y[i] = total


def decided_by_data(x, y, tol):
    k = 0
    while x[k] > tol and k < 10:
        y[k] = x[k] * SCALE if x[k] < 5.0 else -(x[k] ** 2)
        k += 1
        if 0 < k < 5 or y[k - 1] > 3.0:
            continue
        y[k] += abs(x[k])
    return k


def leaves_early(x, y):
    for i in range(x.shape[0]):
        if x[i] > 6.0:
            return i
        for j in range(3):
            if y[j] > 100.0:
                break
            y[j] += x[i] / 2.0
    return -1


def change_places(a, b):
    for _t in range(3):
        for i in range(1, a.shape[0] - 1):
            b[i] = 0.5 * (a[i - 1] + a[i + 1])
        a, b = b, a


def counted_back(a, b):
    n = a.shape[0]
    for i in range(n - 1, -1, -2):
        b[-1 - i] = a[i] - a[-1]


def histogram(where, count):
    for i in range(where.size):
        count[where[i]] += 1


def exchanged(x):
    n = x.shape[0]
    for i in range(n // 2):
        x[i], x[n - 1 - i] = x[n - 1 - i], x[i]


def cube(a, total):
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            for k in range(a.shape[2]):
                total[0] += min(a[i, j, k], a[i, j, 0]) * (i + 1)


def chased(following, seen):
    i = 0
    for _n in range(following.shape[0]):
        seen[i] = seen[i] + 1.0
        i = following[i]
    return i


def triangle(a, x, y):
    for i in range(a.shape[0]):
        for j in range(i + 1):
            y[i] += a[i, j] * x[j]


def smoothed(x, y):
    # Each element needs the one before it.
    for i in range(1, x.shape[0]):
        y[i] = 0.5 * y[i - 1] + x[i]


def roots(x, y):
    for i in range(x.shape[0]):
        y[i] = math.sqrt(x[i]) + np.exp(x[i])


def past_the_end(a):
    for i in range(a.shape[0]):
        for j in range(3):
            a[i] = a[i + j] + 1.0


def for_ever(a):
    k = 0
    while a[0] >= 0.0:
        a[k % 4] += 1.0
        k += 1


def blocked(a, b, c, t):
    n = a.shape[0]
    for ii in range(0, n, t):
        for kk in range(0, n, t):
            for i in range(ii, min(ii + t, n)):
                for k in range(kk, min(kk + t, n)):
                    for j in range(n):
                        c[i, j] += a[i, k] * b[k, j]


def matmul_tiled(a, b, c, t):
    n, m, p = a.shape[0], a.shape[1], b.shape[1]
    for ii in range(0, n, t):
        for kk in range(0, m, t):
            for jj in range(0, p, t):
                for i in range(ii, min(ii + t, n)):
                    for k in range(kk, min(kk + t, m)):
                        x = a[i, k]
                        for j in range(jj, min(jj + t, p)):
                            c[i, j] += x * b[k, j]


def transpose_tiled(a, b, t):
    n, m = a.shape
    for ii in range(0, n, t):
        below = min(ii + t, n)
        for jj in range(0, m, t):
            for i in range(ii, below):
                for j in range(jj, min(jj + t, m)):
                    b[j, i] = a[i, j]


def tiles_of_tiles(a, t, u):
    n = a.shape[0]
    for iii in range(0, n, t):
        for ii in range(iii, min(iii + t, n), u):
            for i in range(ii, min(ii + u, iii + t, n)):
                a[i] = a[i] + 1.0


def every_third(a, b, s):
    n = a.shape[0]
    for i in range(2, n, 3):
        a[i] = b[i] + s
    for i in range(n // 2):
        for j in range(i, n, 1):
            a[j] = a[j] * s


def two_sweeps(a, b, c, rounds):
    n, m = a.shape
    for _round in range(rounds):
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                b[i, j] = a[i, j] + a[i - 1, j] + a[i + 1, j]
        for j in range(m):
            for i in range(n):
                c[j, i] = b[i, j]


def pagerank(start, source, share, rank, following, damping, rounds):
    n = rank.shape[0]
    for _round in range(rounds):
        for i in range(n):
            total = 0.0
            for k in range(start[i], start[i + 1]):
                j = source[k]
                total += rank[j] * share[j]
            following[i] = (1.0 - damping) / n + damping * total
        rank, following = following, rank


def made(name, seed=0):
    """Small arguments of the kernel of that name; whole numbers as floats, so that sums are exact in any order."""
    rng = np.random.default_rng(seed)

    def some(*shape):
        return rng.integers(0, 8, shape).astype(float)

    n, m = 9, 13
    start = np.array([0, 2, 2, 7, 8, 12])
    return {
        "triad": (np.zeros(50), some(50), some(50), 2.0),
        "stencil": (some(n, m), np.zeros((n, m))),
        "matmul": (some(n, m), some(m, n), np.zeros((n, n))),
        "matmul_in_memory": (some(n, m), some(m, n), np.zeros((n, n))),
        "transpose": (some(n, m), np.zeros((m, n))),
        "spmv": (start, rng.integers(0, 6, 12), some(12), some(6), np.zeros(5)),
        "pagerank": (start, rng.integers(0, 5, 12), some(5), some(5), np.zeros(5), 0.5, 3),
        "decided_by_data": (some(20) + 0.5, np.zeros(20), 0.7),
        "leaves_early": (some(20), some(4)),
        "change_places": (some(30), some(30)),
        "counted_back": (some(15), np.zeros(15)),
        "histogram": (rng.integers(0, 5, 40), np.zeros(5)),
        "exchanged": (some(11),),
        "cube": (some(3, 4, 5), np.zeros(1)),
        "chased": (np.roll(np.arange(17), -3), np.zeros(17)),
        "triangle": (some(8, 8), some(8), np.zeros(8)),
        "smoothed": (some(30), some(30)),
        "blocked": (some(10, 10), some(10, 10), np.zeros((10, 10)), 4),
    }[name]
