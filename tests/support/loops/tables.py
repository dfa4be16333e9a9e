"""Loops over texts, tables and series as people write them: with arguments of a size."""

from __future__ import annotations

import math

import numpy as np
from numba import prange

rng = np.random.default_rng


def adler(data):
    a, b = 1, 0
    for i in range(len(data)):
        a = (a + data[i]) % 65521
        b = (b + a) % 65521
    return (b << 16) | a


def adler_args(n):
    return (rng(0).integers(0, 256, n).astype(np.uint8),)


def groupby_sum(keys, vals, sums, counts):
    for i in range(len(keys)):
        k = keys[i]
        sums[k] += vals[i]
        counts[k] += 1


def groupby_sum_args(n):
    r = rng(0)
    return r.integers(0, 30000, n).astype(np.int32), r.random(n), np.zeros(30000), np.zeros(30000, np.int64)


def slide_min(x, out, w):
    n = len(x)
    dq = np.empty(n, np.int64)
    h, t = 0, 0
    for i in range(n):
        while t > h and x[dq[t - 1]] >= x[i]:
            t -= 1
        dq[t] = i
        t += 1
        if dq[h] <= i - w:
            h += 1
        out[i] = x[dq[h]]


def slide_min_args(n):
    return rng(0).random(n), np.zeros(n), 16


def find_word(text, pat):
    n, m = len(text), len(pat)
    hits = 0
    for i in range(n - m + 1):
        j = 0
        while j < m and text[i + j] == pat[j]:
            j += 1
        if j == m:
            hits += 1
    return hits


def find_word_args(n):
    r = rng(0)
    return r.integers(97, 101, n).astype(np.uint8), r.integers(97, 101, 6).astype(np.uint8)


def peaks(x, thr, out):
    k = 0
    for i in range(1, len(x) - 1):
        if x[i] > thr and x[i] > x[i - 1] and x[i] >= x[i + 1]:
            out[k] = i
            k += 1
    return k


def peaks_args(n):
    return rng(0).standard_normal(n), 0.3, np.zeros(n, np.int64)


def base64(src, table, out):
    k = 0
    for i in range(0, len(src) - 2, 3):
        v = (np.uint32(src[i]) << 16) | (np.uint32(src[i + 1]) << 8) | np.uint32(src[i + 2])
        out[k] = table[(v >> 18) & 63]
        out[k + 1] = table[(v >> 12) & 63]
        out[k + 2] = table[(v >> 6) & 63]
        out[k + 3] = table[v & 63]
        k += 4
    return k


def base64_args(n):
    r = rng(0)
    alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    return (
        r.integers(0, 256, 3 * n).astype(np.uint8),
        np.frombuffer(alphabet, np.uint8).copy(),
        np.zeros(4 * n, np.uint8),
    )


def inversions(a, tmp):
    n = len(a)
    count = 0
    width = 1
    while width < n:
        for lo in range(0, n, 2 * width):
            mid = min(lo + width, n)
            hi = min(lo + 2 * width, n)
            i, j, k = lo, mid, lo
            while i < mid and j < hi:
                if a[i] <= a[j]:
                    tmp[k] = a[i]
                    i += 1
                else:
                    tmp[k] = a[j]
                    j += 1
                    count += mid - i
                k += 1
            while i < mid:
                tmp[k] = a[i]
                i += 1
                k += 1
            while j < hi:
                tmp[k] = a[j]
                j += 1
                k += 1
        a[:] = tmp
        width *= 2
    return count


def inversions_args(n):
    return rng(0).integers(0, 1 << 30, n).astype(np.int32), np.zeros(n, np.int32)


def p_ewm(returns, halflife, mean, vol):
    alpha = 1.0 - math.exp(-math.log(2.0) / halflife)
    for a in prange(returns.shape[0]):
        m = returns[a, 0]
        v = 0.0
        for t in range(returns.shape[1]):
            x = returns[a, t]
            if not np.isnan(x):
                d = x - m
                m += alpha * d
                v = (1.0 - alpha) * (v + alpha * d * d)
            mean[a, t] = m
            vol[a, t] = math.sqrt(v)


def p_ewm_args(n):
    r = rng(1)
    m = max(n // 16, 48)
    x = 0.01 * r.standard_normal((m, 1500))
    x[:, 1:][r.random((m, 1499)) < 0.02] = np.nan
    return x, 20.0, np.zeros((m, 1500)), np.zeros((m, 1500))


def rolling_z(price, window, out):
    s = 0.0
    ss = 0.0
    for i in range(len(price)):
        s += price[i]
        ss += price[i] * price[i]
        if i >= window:
            s -= price[i - window]
            ss -= price[i - window] * price[i - window]
        if i >= window - 1:
            mu = s / window
            var = ss / window - mu * mu
            out[i] = (price[i] - mu) / math.sqrt(var) if var > 1e-12 else 0.0
        else:
            out[i] = np.nan


def rolling_z_args(n):
    return 100 + np.cumsum(rng(2).standard_normal(4 * n)), 50, np.zeros(4 * n)
