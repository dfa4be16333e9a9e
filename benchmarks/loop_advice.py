"""Predicted ratios of changed loops against runs: `python benchmarks/loop_advice.py --machine machine.toml`.

For each change that is tried on a few loops: the time after it as a share of the time before it, predicted, with
the ends that its mechanism allows, and as run here; then how far runs lie outside these ends, of ln, from which
the intervals of advice without a run are made. The machine must be one measured here, on a quiet host.
"""

from __future__ import annotations

import argparse
import math

import numpy as np

import rooflab
from rooflab.loops import examine
from rooflab.machines import cache_levels
from rooflab.remedies.loops import advise


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


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Predicted ratios of changed loops against runs.")
    parser.add_argument("--machine", required=True)
    machine = rooflab.machine(parser.parse_args().machine)
    rng, n = np.random.default_rng(0), 4_000_000
    loops = [
        (columns, (rng.random((1500, 1500)), np.zeros(1500))),
        (matmul, (rng.random((300, 300)), rng.random((300, 300)), np.zeros((300, 300)))),
        (transpose, (rng.random((2048, 2048)), np.zeros((2048, 2048)))),
        (two_passes, (np.ones(n), np.zeros(n), np.zeros(n))),
        (one_field, (np.ones((n // 4, 8)), np.zeros(n // 4))),
    ]
    caches, off = cache_levels.choose(machine, None), []
    print(f"{'loop':12} {'change':20} {'predicted':>9} {'least':>6} {'most':>6} {'run':>6} {'beyond':>6}")
    for fn, args in loops:
        report = rooflab.loop(fn, *args, machine=machine, advise=False)
        for one in advise.ratios(report, examine.understand(fn, args), caches):
            off.append((abs(math.log(one.run / one.predicted)), one.beyond))
            ends = f"{one.low:6.2f} {one.high:6.2f}"
            print(f"{fn.__name__:12} {one.rule:20} {one.predicted:9.2f} {ends} {one.run:6.2f} {one.beyond:6.2f}")
    most, beyond = np.quantile(off, 0.8, axis=0)
    print(
        f"four of five of {len(off)} changes: |ln(run / predicted)| up to {most:.2f}, beyond the ends {beyond:.2f}"
    )


if __name__ == "__main__":
    main()
