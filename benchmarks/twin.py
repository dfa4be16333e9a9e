"""The twin of a loop against the simulator alone on the same accesses, paired: python benchmarks/twin.py.

The peer is the nest written by hand as calls of the simulator: no bounds checks, no counters of FLOP, trips and
lines, no computing. Each is the best of 24 runs on one CPU, in turns with its peers, 8 on each of three places in
memory; the first run of a place is not timed: it compiles and is given its pages. The aim is 0.9 of the peer's
accesses per second. The last column is against the same peer that also does what the function does: its loads,
stores and sums take time of their own, and push the simulator's tags out of this machine's caches.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit

from rooflab.cachesim.level import hierarchy
from rooflab.cachesim.level.access import access_within, open_state
from rooflab.cachesim.native.layout import LOAD, STORE
from rooflab.loops import understanding
from rooflab.loops.lowered import count, from_source
from rooflab.machines import cache_levels
from rooflab.types.simulation import Cache

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
loops: Any = importlib.import_module("loops")  # of the examples: a benchmark bears the same name

CACHES = (Cache(32 << 10, 8), Cache(512 << 10, 8), Cache(16 << 20, 16))
PLACES, ROUNDS = 3, 8


@njit(nogil=True, error_model="numpy")
def triad_alone(state, n, a, b, c):
    view = open_state(state)
    for i in range(n):
        access_within(view, b + 8 * i, 8, LOAD, 0)
        access_within(view, c + 8 * i, 8, LOAD, 1)
        access_within(view, a + 8 * i, 8, STORE, 2)


@njit(nogil=True, error_model="numpy")
def stencil_alone(state, n, a, b):
    view = open_state(state)
    row = 8 * n
    for i in range(1, n - 1):
        for j in range(1, n - 1):
            at = a + i * row + 8 * j
            access_within(view, at, 8, LOAD, 0)
            access_within(view, at - row, 8, LOAD, 1)
            access_within(view, at + row, 8, LOAD, 2)
            access_within(view, at - 8, 8, LOAD, 3)
            access_within(view, at + 8, 8, LOAD, 4)
            access_within(view, b + i * row + 8 * j, 8, STORE, 5)


@njit(nogil=True, error_model="numpy")
def transpose_alone(state, n, a, b):
    view = open_state(state)
    for i in range(n):
        for j in range(n):
            access_within(view, a + 8 * (i * n + j), 8, LOAD, 0)
            access_within(view, b + 8 * (j * n + i), 8, STORE, 1)


@njit(nogil=True, error_model="numpy")
def matmul_alone(state, n, a, b, c):
    view = open_state(state)
    for i in range(n):
        for j in range(n):
            for k in range(n):
                access_within(view, a + 8 * (i * n + k), 8, LOAD, 0)
                access_within(view, b + 8 * (k * n + j), 8, LOAD, 1)
            access_within(view, c + 8 * (i * n + j), 8, STORE, 2)


@njit(nogil=True, error_model="numpy")
def total_alone(state, n, a):
    view = open_state(state)
    for _ in range(SWEEPS):
        for i in range(n):
            access_within(view, a + 8 * i, 8, LOAD, 0)


@njit(nogil=True, error_model="numpy")
def triad_too(state, n, a, b, c, x, y, z, s):
    view = open_state(state)
    for i in range(n):
        access_within(view, b + 8 * i, 8, LOAD, 0)
        access_within(view, c + 8 * i, 8, LOAD, 1)
        access_within(view, a + 8 * i, 8, STORE, 2)
        x[i] = y[i] + s * z[i]


@njit(nogil=True, error_model="numpy")
def stencil_too(state, n, a, b, x, y):
    view = open_state(state)
    row = 8 * n
    for i in range(1, n - 1):
        for j in range(1, n - 1):
            at = a + i * row + 8 * j
            access_within(view, at, 8, LOAD, 0)
            access_within(view, at - row, 8, LOAD, 1)
            access_within(view, at + row, 8, LOAD, 2)
            access_within(view, at - 8, 8, LOAD, 3)
            access_within(view, at + 8, 8, LOAD, 4)
            access_within(view, b + i * row + 8 * j, 8, STORE, 5)
            y[i, j] = 0.2 * (x[i, j] + x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1])


@njit(nogil=True, error_model="numpy")
def transpose_too(state, n, a, b, x, y):
    view = open_state(state)
    for i in range(n):
        for j in range(n):
            access_within(view, a + 8 * (i * n + j), 8, LOAD, 0)
            access_within(view, b + 8 * (j * n + i), 8, STORE, 1)
            y[j, i] = x[i, j]


@njit(nogil=True, error_model="numpy")
def matmul_too(state, n, a, b, c, x, y, z):
    view = open_state(state)
    for i in range(n):
        for j in range(n):
            acc = 0.0
            for k in range(n):
                access_within(view, a + 8 * (i * n + k), 8, LOAD, 0)
                access_within(view, b + 8 * (k * n + j), 8, LOAD, 1)
                acc += x[i, k] * y[k, j]
            access_within(view, c + 8 * (i * n + j), 8, STORE, 2)
            z[i, j] = acc


@njit(nogil=True, error_model="numpy")
def total_too(state, n, a, x):
    view = open_state(state)
    acc = 0.0
    for _ in range(SWEEPS):
        for i in range(n):
            access_within(view, a + 8 * i, 8, LOAD, 0)
            acc += x[i]
    return acc


def matmul(a, b, c):
    n = a.shape[0]
    for i in range(n):
        for j in range(n):
            acc = 0.0
            for k in range(n):
                acc += a[i, k] * b[k, j]
            c[i, j] = acc


def total(a):
    acc = 0.0
    for _ in range(100):
        for i in range(a.shape[0]):
            acc += a[i]
    return acc


SWEEPS = 100
CASES: tuple[tuple[Callable[..., Any], int, tuple[Any, ...], Callable[..., Any], Callable[..., Any]], ...] = (
    (loops.triad, 1_000_000, loops.args(1_000_000, "triad"), triad_alone, triad_too),
    (loops.stencil, 1024, loops.args(1024, "stencil"), stencil_alone, stencil_too),
    (loops.transpose, 700, loops.args(700, "transpose"), transpose_alone, transpose_too),
    (matmul, 128, tuple(np.ones((128, 128)) for _ in range(3)), matmul_alone, matmul_too),
    (total, 100_000, (np.ones(100_000),), total_alone, total_too),
)


def compare(
    fn: Callable[..., Any], n: int, args: tuple[Any, ...], alone: Callable[..., Any], too: Callable[..., Any]
) -> tuple[float, float, float, int]:
    """Least seconds of the twin, of the simulator alone and with the function's work, and their accesses."""
    known = understanding.understand(fn, args)
    values = dict(zip(known.source.parameters, args, strict=True))
    made = from_source.function(known.source)
    chosen = cache_levels.given(CACHES)
    addresses = [each.address for each in known.arguments.placed]
    seconds: tuple[list[float], ...] = ([], [], [])
    accesses = 0
    for _ in range(PLACES):
        twin = count.make_of_source(made, known.source, values, chosen, None)
        names = [each.text for each in twin.plan.refs]
        peer, worker = (hierarchy.build(CACHES, references=names, address_end=1 << 32) for _ in range(2))
        outcome = count.run_once(twin, known.source, None)
        accesses = sum(int(outcome.passes[ref.block]) for ref in twin.plan.refs)
        alone(peer.address, n, *addresses)
        too(worker.address, n, *addresses, *args)
        for _ in range(ROUNDS):
            seconds[0].append(count.run_once(twin, known.source, None).seconds)
            seconds[1].append(_seconds(alone, peer.address, n, *addresses))
            seconds[2].append(_seconds(too, worker.address, n, *addresses, *args))
        assert [level.misses for level in twin.built.result("").levels] == [
            level.misses for level in peer.result("").levels
        ]
    twins, alones, works = (min(each) for each in seconds)
    return twins, alones, works, accesses


def _seconds(function: Callable[..., Any], *given: Any) -> float:
    begun = time.perf_counter()
    function(*given)
    return time.perf_counter() - begun


def main() -> None:
    if hasattr(os, "sched_setaffinity"):
        # a twin runs in a thread of its own, which may else lie on another core than its peer
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    for fn, n, args, alone, too in CASES:
        ours, theirs, working, accesses = compare(fn, n, args, alone, too)
        print(
            f"{fn.__name__:<10} twin {accesses / ours / 1e6:6.1f} M accesses/s, simulator alone"
            f" {accesses / theirs / 1e6:6.1f}, ratio {theirs / ours:.2f}; with its work"
            f" {accesses / working / 1e6:6.1f}, ratio {working / ours:.2f}"
        )


if __name__ == "__main__":
    main()
