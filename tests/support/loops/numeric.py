"""Loops of numbers as people write them, of physics, statistics, signals, learning: with arguments of a size."""

from __future__ import annotations

import math

import numpy as np
from numba import prange

rng = np.random.default_rng


def julia(re, im, out, cr, ci, limit):
    h, w = out.shape
    for y in range(h):
        for x in range(w):
            a = re[x]
            b = im[y]
            k = 0
            while a * a + b * b < 4.0 and k < limit:
                a, b = a * a - b * b + cr, 2.0 * a * b + ci
                k += 1
            out[y, x] = k


def julia_args(n):
    return np.linspace(-1.5, 1.5, n), np.linspace(-1.5, 1.5, n), np.zeros((n, n), np.int32), -0.7, 0.27, 60


def dtw(x, y, d):
    n, m = len(x), len(y)
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            c = abs(x[i - 1] - y[j - 1])
            d[i, j] = c + min(d[i - 1, j], d[i, j - 1], d[i - 1, j - 1])
    return d[n, m]


def dtw_args(n):
    r = rng(0)
    d = np.full((n + 1, n + 1), 1e9)
    d[0, 0] = 0
    return r.random(n), r.random(n), d


def sor(u, f, omega):
    n = u.shape[0]
    for i in range(1, n - 1):
        for j in range(1, n - 1):
            r = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4.0 * u[i, j] - f[i, j]
            u[i, j] += omega * 0.25 * r


def sor_args(n):
    r = rng(0)
    return r.random((n, n)), r.random((n, n)), 1.5


def integral_image(a, s):
    h, w = a.shape
    for y in range(h):
        row = 0.0
        for x in range(w):
            row += a[y, x]
            s[y + 1, x + 1] = s[y, x + 1] + row


def integral_image_args(n):
    return rng(0).random((n, n)), np.zeros((n + 1, n + 1))


def banded_mv(ab, x, y):
    n, k = ab.shape
    half = k // 2
    for i in range(half, n - half):
        t = 0.0
        for j in range(k):
            t += ab[i, j] * x[i + j - half]
        y[i] = t


def banded_mv_args(n):
    r = rng(0)
    return r.random((n, 11)), r.random(n), np.zeros(n)


def deposit(pos, w, grid, h):
    for p in range(len(pos)):
        s = pos[p] / h
        i = int(s)
        f = s - i
        grid[i] += w[p] * (1.0 - f)
        grid[i + 1] += w[p] * f


def deposit_args(n):
    r = rng(0)
    return r.random(n) * 4000, r.random(n), np.zeros(4002), 1.0


def gmm_estep(x, mu, var, logw, resp):
    n, k = resp.shape
    for i in range(n):
        top = -1e300
        for c in range(k):
            s = logw[c]
            for d in range(x.shape[1]):
                t = x[i, d] - mu[c, d]
                s -= 0.5 * t * t / var[c, d]
            resp[i, c] = s
            top = max(top, s)
        z = 0.0
        for c in range(k):
            resp[i, c] = math.exp(resp[i, c] - top)
            z += resp[i, c]
        for c in range(k):
            resp[i, c] /= z


def gmm_estep_args(n):
    r = rng(0)
    return r.random((n, 8)), r.random((5, 8)), r.random((5, 8)) + 0.5, np.log(r.random(5)), np.zeros((n, 5))


def attention_row(q, k, v, out):
    t, d = k.shape
    s = np.empty(t)
    top = -np.inf
    for i in range(t):
        a = 0.0
        for j in range(d):
            a += q[j] * k[i, j]
        s[i] = a
        if a > top:
            top = a
    z = 0.0
    for i in range(t):
        s[i] = math.exp(s[i] - top)
        z += s[i]
    for j in range(d):
        out[j] = 0.0
    for i in range(t):
        p = s[i] / z
        for j in range(d):
            out[j] += p * v[i, j]


def attention_row_args(n):
    r = rng(0)
    return r.random(64), r.random((n, 64)), r.random((n, 64)), np.zeros(64)


def legendre(x, out, deg):
    for i in range(len(x)):
        p0, p1 = 1.0, x[i]
        for k in range(2, deg):
            p0, p1 = p1, ((2 * k - 1) * x[i] * p1 - (k - 1) * p0) / k
        out[i] = p1


def legendre_args(n):
    return rng(0).random(n), np.zeros(n), 12


def jacobi_rot(a, p, q, c, s):
    n = a.shape[0]
    for _ in range(16):
        for k in range(n):
            x = a[k, p]
            y = a[k, q]
            a[k, p] = c * x - s * y
            a[k, q] = s * x + c * y
        for k in range(n):
            x = a[p, k]
            y = a[q, k]
            a[p, k] = c * x - s * y
            a[q, k] = s * x + c * y


def jacobi_rot_args(n):
    return rng(0).random((n, n)), 3, 7, 0.8, 0.6


def pcovariance(x, mean, cov):
    n, d = x.shape
    for i in prange(d):
        for j in range(i, d):
            s = 0.0
            for k in range(n):
                s += (x[k, i] - mean[i]) * (x[k, j] - mean[j])
            cov[i, j] = s / (n - 1)
            cov[j, i] = cov[i, j]


def pcovariance_args(n):
    x = rng(0).random((n, 24))
    return x, x.mean(0), np.zeros((24, 24))


def pmc(seed, hits, steps):
    for i in prange(len(seed)):
        s = seed[i]
        h = 0
        for _ in range(steps):
            s ^= s << np.uint64(13)
            s ^= s >> np.uint64(7)
            s ^= s << np.uint64(17)
            x = (s >> np.uint64(11)) * 1.1102230246251565e-16
            if x * x < 0.3:
                h += 1
        hits[i] = h


def pmc_args(n):
    return rng(0).integers(1, 1 << 60, n).astype(np.uint64), np.zeros(n, np.int64), 40


def haversine(lat1, lon1, lat2, lon2, out):
    for i in range(len(lat1)):
        dlat = lat2[i] - lat1[i]
        dlon = lon2[i] - lon1[i]
        h = math.sin(dlat / 2) ** 2 + math.cos(lat1[i]) * math.cos(lat2[i]) * math.sin(dlon / 2) ** 2
        out[i] = 2 * 6371.0 * math.asin(math.sqrt(h))


def haversine_args(n):
    r = rng(0)
    return r.random(n), r.random(n), r.random(n), r.random(n), np.zeros(n)


def pblack(s, k, t, out):
    for i in prange(len(s)):
        d = (math.log(s[i] / k[i]) + 0.06 * t[i]) / (0.2 * math.sqrt(t[i]))
        out[i] = s[i] * 0.5 * (1.0 + math.erf(d / 1.4142135623730951))


def pblack_args(n):
    r = rng(0)
    return r.random(n) + 1, r.random(n) + 1, r.random(n) + 0.5, np.zeros(n)


def kepler(m_anom, ecc, out):
    for i in range(len(m_anom)):
        e = m_anom[i]
        for _ in range(30):
            d = (e - ecc[i] * math.sin(e) - m_anom[i]) / (1.0 - ecc[i] * math.cos(e))
            e -= d
            if abs(d) < 1e-12:
                break
        out[i] = e


def kepler_args(n):
    r = rng(0)
    return r.random(n) * 6.28, r.random(n) * 0.8, np.zeros(n)


def lstm_cell(gates, c, h):
    b, d4 = gates.shape
    d = d4 // 4
    for i in range(b):
        for j in range(d):
            ig = 1.0 / (1.0 + math.exp(-gates[i, j]))
            fg = 1.0 / (1.0 + math.exp(-gates[i, d + j]))
            gg = math.tanh(gates[i, 2 * d + j])
            og = 1.0 / (1.0 + math.exp(-gates[i, 3 * d + j]))
            c[i, j] = fg * c[i, j] + ig * gg
            h[i, j] = og * math.tanh(c[i, j])


def lstm_cell_args(n):
    r = rng(0)
    return r.standard_normal((n, 512)), r.standard_normal((n, 128)), np.zeros((n, 128))


def p_logistic_map(x0, out, steps):
    for i in prange(len(x0)):
        x = x0[i]
        for _ in range(steps):
            x = 3.9 * x * (1.0 - x)
        out[i] = x


def p_logistic_map_args(n):
    return rng(0).random(n), np.zeros(n), 500


def p_l2rows(x):
    for i in prange(x.shape[0]):
        s = np.float32(0)
        for j in range(x.shape[1]):
            s += x[i, j] * x[i, j]
        inv = np.float32(1) / np.sqrt(s)
        for j in range(x.shape[1]):
            x[i, j] *= inv


def p_l2rows_args(n):
    return (rng(0).random((n, 768), np.float32),)


def p_channelize(iq, taps, decim, freq, out):
    for k in prange(len(out)):
        acc = 0j
        base = k * decim
        for t in range(len(taps)):
            acc += iq[base + t] * taps[t]
        phase = -2.0 * math.pi * freq * base
        out[k] = acc * complex(math.cos(phase), math.sin(phase))


def p_channelize_args(n):
    n = max(n, 4096)
    r = rng(13)
    iq = r.standard_normal(8 * n + 128) + 1j * r.standard_normal(8 * n + 128)
    return iq, np.hanning(96), 8, 0.0123, np.zeros(n, np.complex128)


def p_conv_relu(x, w, b, y):
    for o in prange(w.shape[0]):
        for i in range(y.shape[1]):
            for j in range(y.shape[2]):
                s = b[o]
                for c in range(w.shape[1]):
                    for p in range(3):
                        for q in range(3):
                            s += w[o, c, p, q] * x[c, i + p, j + q]
                y[o, i, j] = max(s, np.float32(0))


def p_conv_relu_args(n):
    r = rng(21)
    m = int(math.sqrt(n)) + 36
    return (
        r.random((8, m + 2, m + 2), np.float32),
        r.random((16, 8, 3, 3), np.float32) - np.float32(0.5),
        np.zeros(16, np.float32),
        np.zeros((16, m, m), np.float32),
    )


def biquads(x, sos, y):
    state = np.zeros((sos.shape[0], 2))
    for i in range(len(x)):
        v = x[i]
        for s in range(sos.shape[0]):
            w = sos[s, 0] * v + state[s, 0]
            state[s, 0] = sos[s, 1] * v - sos[s, 4] * w + state[s, 1]
            state[s, 1] = sos[s, 2] * v - sos[s, 5] * w
            v = w
        y[i] = v


def biquads_args(n):
    sos = np.array(
        [
            [0.2, 0.4, 0.2, 1, -0.3, 0.12],
            [1, 2, 1, 1, -0.35, 0.2],
            [1, 1.6, 1, 1, -0.4, 0.35],
            [1, 1.2, 1, 1, -0.5, 0.6],
        ]
    )
    return rng(14).standard_normal(n), sos, np.zeros(n)
