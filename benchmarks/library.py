"""Predicted and measured times of random products of matrices in NumPy and PyTorch on this machine.

    python benchmarks/library.py [--machine FILE] [--library numpy|torch] [--shapes 200] [--seed 1] [--all]

Measures the machine (`rooflab measure --library`, or reads FILE, which it wrote), then draws shapes by the seed:
products, products of a batch, with a vector; sizes uniform in their logarithm, fp32 and fp64. Each is timed by one
thread and by two in several passes, each in another order; a time is the best of all, what the product takes when
nothing else runs, as the machine's roofs are. Set
OPENBLAS_CORETYPE before to have other kernels of OpenBLAS, for the measurement and the times alike.

Printed by library: the median and the 90th percentile of |predicted / measured − 1|, the share of times within the
bars, and the same of the prediction without what was measured of the library.
"""

from __future__ import annotations

import argparse
import math
import random
from typing import NamedTuple

import msgspec
import numpy as np

import rooflab
from rooflab.machines.bench.experiments.products import Library, NumpyLibrary
from rooflab.machines.bench.experiments.torch_products import TorchLibrary
from rooflab.timing import time_call
from rooflab.types.machine import Machine
from rooflab.types.prediction import Prediction

THREADS = (1, 2)
ROUNDS, RUN_S, PASSES = 3, 0.0008, 5
MOST_MULTIPLY_ADDS, MOST_ELEMENTS = 1.0e9, 2.0e7


class Case(NamedTuple):
    """A product: shapes of both operands and their number format."""

    left: tuple[int, ...]
    right: tuple[int, ...]
    dtype: str


def main() -> None:
    """Measure, time, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machine", help="file of a measured machine; measured now where not given")
    parser.add_argument("--library", choices=("numpy", "torch"), default="numpy")
    parser.add_argument("--shapes", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--all", action="store_true", help="print every product")
    given = parser.parse_args()
    machine = rooflab.machine(given.machine) if given.machine else rooflab.measure(library=True)
    drawn = draw(given.shapes, given.seed)
    library: Library = NumpyLibrary() if given.library == "numpy" else TorchLibrary()
    times = time_all(drawn, library)
    rows = [row for row in machine.products if row.library == given.library]
    if rows:
        print(f"{rows[0].blas}, kernels {rows[0].kernels}, {rows[0].environment}")
    bare = msgspec.structs.replace(machine, products=())
    for threads in THREADS:
        found = [predicted(case, machine, given.library, threads) for case in drawn]
        plain = [predicted(case, bare, given.library, threads) for case in drawn]
        measured = [times[case, threads] for case in drawn]
        show(f"{given.library}, {threads} thread(s)", found, plain, measured)
        for case, one, took in zip(drawn, found, measured, strict=True) if given.all else ():
            print(f"  {case!s:70} {took * 1e6:10.2f} µs, predicted / measured {one.time_s / took:5.2f}")


def draw(count: int, seed: int) -> list[Case]:
    """Random products: six of ten plain, two of a batch, two with a vector."""
    rng = random.Random(seed)
    drawn: list[Case] = []

    def size(low: int, high: int) -> int:
        return round(math.exp(rng.uniform(math.log(low), math.log(high))))

    while len(drawn) < count:
        kind, batch, (m, n, k) = rng.randrange(10), 1, (size(2, 3000) for _ in range(3))
        if kind < 2:
            m, n, k = (size(16, 4096) for _ in range(3))
            m, n = (1, n) if kind else (m, 1)
        elif kind < 4:
            batch, (m, n, k) = size(2, 200), (size(4, 400) for _ in range(3))
        elements = batch * (m * n + m * k + k * n)
        if batch * m * n * k < MOST_MULTIPLY_ADDS and elements < MOST_ELEMENTS:
            outer = (batch,) if batch > 1 else ()
            drawn.append(Case((*outer, m, k), (*outer, k, n), rng.choice(("fp32", "fp64"))))
    return drawn


def time_all(drawn: list[Case], library: Library) -> dict[tuple[Case, int], float]:
    """Seconds of each product by number of threads: the best of all passes."""
    passes: dict[tuple[Case, int], list[float]] = {}
    order = list(drawn)
    rng = np.random.default_rng(0)
    for number in range(PASSES):
        random.Random(number).shuffle(order)
        for case in order:
            kind = np.float32 if case.dtype == "fp32" else np.float64
            a, b = (library.array(rng.random(shape, dtype=kind)) for shape in (case.left, case.right))
            for threads in THREADS:
                library.set_threads(threads)
                taken = time_call(lambda a=a, b=b: library.multiply(a, b), rounds=ROUNDS, run_s=RUN_S)
                passes.setdefault((case, threads), []).append(taken.best_s)
    return {key: min(each) for key, each in passes.items()}


def predicted(case: Case, machine: Machine, library: str, threads: int) -> Prediction:
    """What rooflab says of it, run again and again."""
    report = rooflab.op(
        "matmul",
        case.left,
        case.right,
        dtype=case.dtype,
        machine=machine,
        advice=False,
        cache="warm",
        threads=threads,
        library=library,
    )
    assert report.prediction is not None
    return report.prediction


def show(title: str, found: list[Prediction], plain: list[Prediction], measured: list[float]) -> None:
    """One line: errors and bars."""
    took = np.array(measured)
    errors, without = (np.abs(np.array([one.time_s for one in each]) / took - 1) for each in (found, plain))
    inside = np.mean([one.low_s <= each <= one.high_s for one, each in zip(found, took, strict=True)])
    line = f"{title}: {len(took)}, median {np.median(errors):.1%}, 90 % within {np.quantile(errors, 0.9):.1%}"
    bare = f"median {np.median(without):.1%}, 90 % within {np.quantile(without, 0.9):.1%}"
    print(f"{line}, {inside:.0%} inside the bars; without the library's own times {bare}")


if __name__ == "__main__":
    main()
