"""Loops whose predicted times benchmarks/loop_times.py holds against reality, and what they run on.

`REQUIRED` are the memory-bound ones of the goal. `OTHERS` were looked at while the model was made.
`HELD_BACK` were written down before, and first run once the model stood still.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np


def _examples() -> ModuleType:
    """The loops of the examples, whose file is called as the benchmark's is."""
    spec = importlib.util.spec_from_file_location(
        "example_loops", Path(__file__).parents[1] / "examples" / "loops.py"
    )
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = made
    spec.loader.exec_module(made)
    return made


loops = _examples()


class Case(NamedTuple):
    """A loop and what makes its arguments; `name` says the size too."""

    name: str
    fn: Callable[..., Any]
    make: Callable[[], tuple[Any, ...]]


def copy(a, b):
    for i in range(a.shape[0]):
        a[i] = b[i]


def dot(x, y, out):
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i] * y[i]
    out[0] = total


def gather(index, x, out):
    for i in range(index.shape[0]):
        out[i] = x[index[i]]


def gather_behind_work(index, x, w, out):
    total = 0.0
    for i in range(index.shape[0]):
        v = w[i]
        for _ in range(10):
            v = v * 1.0001 + 0.5
        total += v * x[index[i]]
    out[0] = total


def matmul_plain(a, b, c):
    n, m, p = a.shape[0], a.shape[1], b.shape[1]
    for i in range(n):
        for j in range(p):
            total = 0.0
            for k in range(m):
                total += a[i, k] * b[k, j]
            c[i, j] = total


def matvec(a, x, y):
    for i in range(a.shape[0]):
        total = 0.0
        for j in range(a.shape[1]):
            total += a[i, j] * x[j]
        y[i] = total


def transpose_blocked(a, b, t):
    n, m = a.shape
    for ii in range(0, n, t):
        for jj in range(0, m, t):
            for i in range(ii, min(ii + t, n)):
                for j in range(jj, min(jj + t, m)):
                    b[j, i] = a[i, j]


def stencil3d(a, b):
    n, m, p = a.shape
    for i in range(1, n - 1):
        for j in range(1, m - 1):
            for k in range(1, p - 1):
                b[i, j, k] = a[i, j, k] + 0.1 * (
                    a[i - 1, j, k]
                    + a[i + 1, j, k]
                    + a[i, j - 1, k]
                    + a[i, j + 1, k]
                    + a[i, j, k - 1]
                    + a[i, j, k + 1]
                )


def histogram(where, count):
    for i in range(where.shape[0]):
        count[where[i]] += 1.0


def banded(a, x, y):
    n, width = a.shape
    for i in range(n - width):
        total = 0.0
        for k in range(width):
            total += a[i, k] * x[i + k]
        y[i] = total


def column_sums(a, out):
    for j in range(a.shape[1]):
        total = 0.0
        for i in range(a.shape[0]):
            total += a[i, j]
        out[j] = total


def chase(following, steps, out):
    place = 0
    for _step in range(steps):
        place = following[place]
    out[0] = place


def _rng() -> np.random.Generator:
    return np.random.default_rng(1)


def _cycle(lines: int) -> np.ndarray:
    """Indices of a random cycle through `lines` lines of 8 numbers."""
    order = _rng().permutation(lines)
    made = np.zeros(8 * lines, np.int64)
    made[8 * order] = 8 * np.roll(order, -1)
    return made


def _example(name: str, n: int) -> Case:
    return Case(f"{name} {n:,}", getattr(loops, name), lambda: loops.args(n, name))


REQUIRED = (
    _example("triad", 8_000_000),
    _example("stencil", 2048),
    _example("stencil", 4000),
    _example("transpose", 2000),
    _example("transpose", 2048),
    Case("transpose_blocked 3000/32", transpose_blocked, lambda: (*loops.args(3000, "transpose"), 32)),
    _example("spmv", 4_000_000),
    Case("pagerank 4,000,000, 1 round", loops.pagerank, lambda: (*loops.args(4_000_000, "pagerank")[:-1], 1)),
)
OTHERS = (
    Case("triad 20,000 (L2)", loops.triad, lambda: loops.args(20_000, "triad")),
    Case("triad 150,000 (L3)", loops.triad, lambda: loops.args(150_000, "triad")),
    Case("copy 8,000,000", copy, lambda: (np.zeros(8_000_000), _rng().random(8_000_000))),
    Case("dot 4,000,000", dot, lambda: (_rng().random(4_000_000), _rng().random(4_000_000), np.zeros(1))),
    Case("stencil 300 (L3)", loops.stencil, lambda: loops.args(300, "stencil")),
    Case("transpose 200 (L2)", loops.transpose, lambda: loops.args(200, "transpose")),
    Case("matmul 256/64", loops.matmul, lambda: loops.args(256, "matmul")),
    Case("matmul 256/8", loops.matmul, lambda: (*loops.args(256, "matmul")[:3], 8)),
    Case("matmul_plain 300", matmul_plain, lambda: (*loops.args(300, "matmul")[:3],)),
    Case("matvec 2,000", matvec, lambda: (_rng().random((2000, 2000)), _rng().random(2000), np.zeros(2000))),
    # 8 MB and 16 MB are picked from at random: what of L3 the neighbours leave decides.
    _example("spmv", 1_000_000),
    _example("pagerank", 1_000_000),
    Case("spmv 20,000 (L2)", loops.spmv, lambda: loops.args(20_000, "spmv")),
    Case("pagerank 20,000 (L2)", loops.pagerank, lambda: loops.args(20_000, "pagerank")),
    Case(
        "gather 1,000,000 of 500,000 (L3)",
        gather,
        lambda: (_rng().integers(0, 500_000, 1_000_000), _rng().random(500_000), np.zeros(1_000_000)),
    ),
    Case(
        "gather 2,000,000 of 16,000,000",
        gather,
        lambda: (_rng().integers(0, 16_000_000, 2_000_000), _rng().random(16_000_000), np.zeros(2_000_000)),
    ),
    # Work between the gathers leaves room for fewer in the core's window.
    Case(
        "gather behind work, of 16,000,000",
        gather_behind_work,
        lambda: (
            _rng().integers(0, 16_000_000, 2_000_000),
            _rng().random(16_000_000),
            _rng().random(2_000_000),
            np.zeros(1),
        ),
    ),
    Case(
        "banded 400,000 × 15",
        banded,
        lambda: (_rng().random((400_000, 15)), _rng().random(400_015), np.zeros(400_000)),
    ),
)
HELD_BACK = (
    Case("stencil3d 200³", stencil3d, lambda: (_rng().random((200, 200, 200)), np.zeros((200, 200, 200)))),
    Case("histogram 2M over 8M", histogram, lambda: (_rng().integers(0, 8 << 20, 2 << 20), np.zeros(8 << 20))),
    Case("column_sums 3,000 × 2,000", column_sums, lambda: (_rng().random((3000, 2000)), np.zeros(2000))),
    Case("chase 1M in 64 MiB", chase, lambda: (_cycle(1 << 20), 1 << 20, np.zeros(1, np.int64))),
)
