"""Loops changed as advised, predicted against runs: `python benchmarks/loop_advice.py --machine machine.toml`.

For each change that is predicted to help one of the loops below (or `--only` one): the time after it as a share
of the time before it, predicted, with the ends that its mechanism allows, and as run here. "sign" says whether the
run is faster too; where before and after differ by less than the noise of runs, there is none. Rules that are told
only where a run bears them out (tiles) are marked so. Then how far runs lie outside these ends, of ln, from which
the intervals of advice without a run are made. The machine must be one measured here, on a quiet host.
"""

from __future__ import annotations

import argparse
import math
import os

import numpy as np

import rooflab
from rooflab.loops import understanding
from rooflab.machines import cache_levels
from rooflab.machines.bench.experiments import core_operations
from rooflab.remedies.loops import advise
from rooflab.remedies.loops.rules import RULES
from rooflab.types.machine import Machine

RUN_FIRST = {each.name for each in RULES if each.run_first}
NOISE = 0.05  # of two times: what differs by less is no sign


def columns(a, s):
    """Sums of columns, column by column."""
    for j in range(a.shape[1]):
        for i in range(a.shape[0]):
            s[j] += a[i, j]


def matmul(a, b, c):
    """A product whose innermost loop goes down columns."""
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            s = 0.0
            for k in range(a.shape[1]):
                s += a[i, k] * b[k, j]
            c[i, j] = s


def transpose(a, b):
    """Rows that become columns, a power of two apart."""
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            b[j, i] = a[i, j]


def two_passes(a, b, c):
    """Two loops over the same arrays."""
    for i in range(a.size):
        b[i] = 2.0 * a[i]
    for i in range(a.size):
        c[i] = b[i] + a[i]


def one_field(p, s):
    """One of eight fields of each record."""
    for i in range(p.shape[0]):
        s[i] = p[i, 0] * 2.0


def total(a, s):
    """A sum whose additions wait for one another."""
    t = 0.0
    for i in range(a.size):
        t += a[i]
    s[0] = t


def picked(a, b, s):
    """A sum of what a coin decides."""
    t = 0.0
    for i in range(a.size):
        if a[i] > 0.5:
            t += a[i] * b[i]
    s[0] = t


def product(a, b, c):
    """The same product into an array: each pass waits for the store of the one before."""
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            for k in range(a.shape[1]):
                c[i, j] += a[i, k] * b[k, j]


def saxpy(a, x, y):
    """Two streams."""
    for i in range(x.size):
        y[i] = a * x[i] + y[i]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machine", required=True)
    parser.add_argument("--only", help="the loop of this name alone")
    given = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}")
    off, signs = table(rooflab.machine(given.machine), given.only)
    if not off:
        print("nothing is predicted to help")
        return
    most, beyond = np.quantile(off, 0.8, axis=0)
    counted = ", ".join(f"{signs.count(each)} {each}" for each in ("right", "WRONG", "none", "run first"))
    print(f"signs: {counted}; load {os.getloadavg()[0]:.1f}")
    print(
        f"four of five of {len(off)} changes: |ln(run / predicted)| up to {most:.2f}, beyond the ends {beyond:.2f}"
    )


def table(machine: Machine, only: str | None = None) -> tuple[list[tuple[float, float]], list[str]]:
    """Of each change |ln(run / predicted)| and how far it lies beyond its ends, and its sign; printed too."""
    rng, n = np.random.default_rng(0), 4_000_000
    loops = [
        (columns, (rng.random((1500, 1500)), np.zeros(1500))),
        (matmul, (rng.random((300, 300)), rng.random((300, 300)), np.zeros((300, 300)))),
        (transpose, (rng.random((2048, 2048)), np.zeros((2048, 2048)))),
        (two_passes, (np.ones(n), np.zeros(n), np.zeros(n))),
        (one_field, (np.ones((n // 4, 8)), np.zeros(n // 4))),
        (total, (rng.random(20_000), np.zeros(1))),
        (picked, (rng.random(100_000), rng.random(100_000), np.zeros(1))),
        (product, (rng.random((200, 200)), rng.random((200, 200)), np.zeros((200, 200)))),
        (saxpy, (2.0, np.ones(n), np.ones(n))),
    ]
    caches, off, signs = cache_levels.choose(machine, None), [], []
    timing = core_operations.measure()
    columns_of = ("predicted", "least", "most", "run", "beyond", "sign")
    print(f"{'loop':12} {'change':20} " + " ".join(f"{each:>9}" for each in columns_of))
    for fn, args in loops:
        if only not in (None, fn.__name__):
            continue
        report = rooflab.loop(fn, *args, machine=machine, advise=False)
        for one in advise.ratios(report, understanding.understand(fn, args), caches, timing):
            off.append((abs(math.log(one.run / one.predicted)), one.beyond))
            sign = "none" if abs(one.run - 1) < NOISE else "right" if one.run < 1 else "WRONG"
            sign = "run first" if one.rule in RUN_FIRST else sign
            signs.append(sign)
            numbers = (one.predicted, one.low, one.high, one.run, one.beyond)
            print(
                f"{fn.__name__:12} {one.rule:20} " + " ".join(f"{each:9.2f}" for each in numbers) + f" {sign:>9}",
                flush=True,
            )
    return off, signs


if __name__ == "__main__":
    main()
