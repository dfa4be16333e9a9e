"""NumPy functions as people write them, predicted and measured on this machine.

    python benchmarks/numpy_programs.py [--machine FILE] [--only TEXT]

Each function is counted by `rooflab.analyze`, predicted on the machine that FILE describes (as `rooflab measure -o
FILE` wrote it; measured now where none is given), and timed: the median of many warm calls. Printed: predicted and
measured time, their ratio, whether the bar holds it; below, the median and the 90th percentile of
|predicted / measured - 1| and the share inside the bars, for single calls and for programs. Run it alone.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import rooflab

SECONDS = 0.15
Case = tuple[str, Callable[..., Any], tuple[Any, ...]]


def one_call() -> list[Case]:
    """Single calls whose inner loops are short, broadcast, strided or reduced: where NumPy's own steps show."""
    rng = np.random.default_rng(0)
    made: list[Case] = []
    for rows, columns in ((20_000, 4), (20_000, 12), (3_000, 64), (500, 500), (40, 20_000)):
        x, row = rng.random((rows, columns)), rng.random(columns)
        column, single = rng.random((rows, 1)), rng.random((rows, columns)).astype("f4")
        size = f"{rows}x{columns}"
        made += [
            (f"add of a row {size}", lambda x, r: x + r, (x, row)),
            (f"divide by a column {size}", lambda x, c: x / c, (x, column)),
            (f"outer product {size}", lambda c, r: c * r, (column, row)),
            (f"less than a row fp32 {size}", lambda x, r: x < r, (single, row.astype("f4"))),
            (f"sum of rows {size}", lambda x: x.sum(axis=1), (x,)),
            (f"sum of columns {size}", lambda x: x.sum(axis=0), (x,)),
            (f"max of rows {size}", lambda x: x.max(axis=1), (x,)),
            (f"max of columns {size}", lambda x: x.max(axis=0), (x,)),
            (f"argmax of rows {size}", lambda x: x.argmax(axis=1), (x,)),
            (f"cumsum of rows {size}", lambda x: x.cumsum(axis=1), (x,)),
            (f"sort of rows {size}", lambda x: np.sort(x, axis=1), (x,)),
            (f"half of each row {size}", lambda x: x[:, ::2] + 1.0, (x,)),
            (f"transposed copy {size}", lambda x: np.ascontiguousarray(x.T), (x,)),
        ]
    return made


def programs() -> list[Case]:
    """Small programs of several calls."""
    rng = np.random.default_rng(0)
    x, w, labels = rng.random((20_000, 64)), rng.random((64, 10)), rng.integers(0, 10, 20_000)
    points, centres = rng.random((5_000, 3)), rng.random((40, 3))
    image, grid, signal = rng.random((480, 640)), rng.random((600, 600)), rng.random(1 << 16)
    returns = rng.standard_normal((1_000, 252))
    return [
        ("logistic regression step", _regression, (x, w, labels)),
        ("nearest centre", _nearest, (points, centres)),
        ("softmax of rows", _softmax, (rng.random((1_000, 1_000)),)),
        ("layer norm", _layer_norm, (rng.random((2_000, 256)),)),
        ("Sobel filter", _sobel, (image,)),
        ("heat step", _heat, (grid,)),
        ("spectrum", lambda s: np.abs(np.fft.rfft(s * np.hanning(s.size))) ** 2, (signal,)),
        ("monte carlo of pi", _pi, (200_000,)),
        ("moving average", lambda s: (np.cumsum(s)[50:] - np.cumsum(s)[:-50]) / 50, (signal,)),
        ("Sharpe ratios", lambda r: r.mean(axis=1) / r.std(axis=1) * np.sqrt(252), (returns,)),
        ("drawdown", _drawdown, (returns,)),
        ("least squares", lambda a, b: np.linalg.solve(a.T @ a, a.T @ b), (x, rng.random(20_000))),
        ("histogram by bincount", lambda i: np.bincount(i, minlength=10), (labels,)),
        ("pairwise distances", _distances, (rng.random((400, 16)),)),
        ("clip and scale to bytes", lambda a: (np.clip(a, 0, 1) * 255).astype(np.uint8), (image,)),
        ("percentiles", lambda s: np.percentile(s, [5, 50, 95]), (signal,)),
        ("masked mean", lambda a: a[a > 0.5].mean(), (image,)),
        ("attention", _attention, (rng.random((8, 128, 64)), rng.random((8, 128, 64)), rng.random((8, 128, 64)))),
    ]


def _regression(x: np.ndarray, w: np.ndarray, labels: np.ndarray) -> np.ndarray:
    z = x @ w
    z -= z.max(axis=1, keepdims=True)
    p = np.exp(z)
    p /= p.sum(axis=1, keepdims=True)
    p[np.arange(len(labels)), labels] -= 1
    return w - 0.1 * (x.T @ p / len(labels))


def _nearest(points: np.ndarray, centres: np.ndarray) -> np.ndarray:
    return ((points[:, None, :] - centres[None]) ** 2).sum(axis=-1).argmin(axis=1)


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def _layer_norm(x: np.ndarray) -> np.ndarray:
    return (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)


def _sobel(a: np.ndarray) -> np.ndarray:
    across = a[:-2, 2:] - a[:-2, :-2] + 2 * (a[1:-1, 2:] - a[1:-1, :-2]) + a[2:, 2:] - a[2:, :-2]
    down = a[2:, :-2] - a[:-2, :-2] + 2 * (a[2:, 1:-1] - a[:-2, 1:-1]) + a[2:, 2:] - a[:-2, 2:]
    return np.hypot(across, down)


def _heat(u: np.ndarray) -> np.ndarray:
    new = u.copy()
    new[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
    return new


def _pi(n: int) -> float:
    x = np.random.default_rng(3).random((n, 2))
    return float(4 * ((x * x).sum(axis=1) < 1).mean())


def _drawdown(r: np.ndarray) -> np.ndarray:
    worth = np.cumsum(r, axis=1)
    return (np.maximum.accumulate(worth, axis=1) - worth).max(axis=1)


def _distances(a: np.ndarray) -> np.ndarray:
    squares = (a * a).sum(axis=1)
    return np.sqrt(np.maximum(squares[:, None] + squares[None] - 2 * a @ a.T, 0))


def _attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    scores = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ v


def median_s(fn: Callable[..., Any], args: tuple[Any, ...]) -> float:
    """The median of warm calls, at least seven, for SECONDS."""
    fn(*args)
    times: list[float] = []
    begun = time.perf_counter()
    while len(times) < 7 or time.perf_counter() - begun < SECONDS:
        start = time.perf_counter()
        fn(*args)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def judge(cases: list[Case], machine: rooflab.Machine) -> list[tuple[float, bool]]:
    """Print a line a case; of each: measured / predicted, and whether the bar holds the measured time."""
    rows = []
    for name, fn, args in cases:
        report = rooflab.analyze(fn, *args, machine=machine)
        predicted, low, high = report.time_s, report.low_s, report.high_s
        if predicted is None or low is None or high is None:
            print(f"{name:36} not counted whole")
            continue
        measured = median_s(fn, args)
        inside = low <= measured <= high
        rows.append((measured / predicted, inside))
        print(
            f"{name:36} predicted {predicted * 1e6:10.1f} µs, measured {measured * 1e6:10.1f}, "
            f"ratio {measured / predicted:5.2f} {'inside' if inside else '-'}",
            flush=True,
        )
    return rows


def main() -> None:
    """Count, time, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machine", help="file of a measured machine; measured now where not given")
    parser.add_argument("--only", default="", help="cases with this text in their name")
    given = parser.parse_args()
    machine = rooflab.machine(given.machine) if given.machine else rooflab.measure()
    for title, cases in (("calls", one_call()), ("programs", programs())):
        rows = judge([case for case in cases if given.only in case[0]], machine)
        if rows:
            misses = sorted(abs(1 / ratio - 1) for ratio, _ in rows)
            print(
                f"{title}: {len(rows)}, median error {statistics.median(misses):.0%}, "
                f"90 % under {misses[int(0.9 * (len(misses) - 1))]:.0%}, "
                f"inside the bars {sum(inside for _, inside in rows)} of {len(rows)}"
            )


if __name__ == "__main__":
    main()
