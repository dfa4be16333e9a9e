"""Which of a few numbers stand apart from the others: robust scale, and limits that hold for small samples."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

LEAST = 5  # numbers: among fewer, which of them stands apart cannot be told from their scatter
FALSE_ALARM = 0.01  # chance that any of the numbers of a healthy sample is called low
# 0.99 quantiles of max((median − x) / scale) over normal samples, by their size: `simulated_cutoff`, which
# benchmarks/fleet.py --cutoffs runs again.
CUTOFFS = {
    5: 9.31, 6: 5.31, 7: 5.81, 8: 4.57, 9: 4.74, 10: 4.20, 11: 4.36, 12: 4.03, 13: 4.12, 14: 3.93, 15: 3.98,
    16: 3.87, 17: 3.89, 24: 3.76, 32: 3.73, 64: 3.77, 128: 3.89, 256: 4.02,
}  # fmt: skip
# What makes Qn unbiased in small normal samples: Rousseeuw and Croux, "Alternatives to the Median Absolute
# Deviation", JASA 88 (1993), section 3 and table 3; and the factor for normal samples, 2.2191.
_NORMAL = 2.2191
_SMALL = {2: 0.399, 3: 0.994, 4: 0.512, 5: 0.844, 6: 0.611, 7: 0.857, 8: 0.669, 9: 0.872}


def scale(values: Sequence[float]) -> float:
    """The standard deviation of `values` as Qn estimates it, which a minority of strays does not move.

    Qn is the k-th smallest of all distances between two of n values, k = h(h − 1)/2 with h = n//2 + 1. Its
    efficiency in normal samples is 82 %, that of the median absolute deviation 37 % (Rousseeuw and Croux 1993).
    """
    return float(_scales(np.asarray(values, float)[None, :])[0])


def _scales(samples: NDArray[np.float64]) -> NDArray[np.float64]:
    """Qn of each row."""
    count = samples.shape[1]
    half = count // 2 + 1
    rank = half * (half - 1) // 2 - 1
    first, second = np.triu_indices(count, 1)
    distances = np.abs(samples[:, first] - samples[:, second])
    found = np.partition(distances, rank, axis=1)[:, rank]
    small = _SMALL.get(count) or (count / (count + 1.4) if count % 2 else count / (count + 3.8))
    return _NORMAL * small * found


def cutoff(count: int) -> float:
    """From which deviation on one of `count` numbers stands apart: 1 % of healthy samples have one beyond.

    Between sizes that were simulated the larger of both; for large samples the scale is known, and the limit that
    of independent normal numbers, Φ⁻¹(0.99^(1/n)).

    Raises:
        ValueError: fewer than five.
    """
    if count < LEAST:
        raise ValueError(f"{count} numbers, expected {LEAST} at least")
    if count > max(CUTOFFS):
        return max(CUTOFFS[max(CUTOFFS)], NormalDist().inv_cdf((1 - FALSE_ALARM) ** (1 / count)))
    below = max(size for size in CUTOFFS if size <= count)
    above = min(size for size in CUTOFFS if size >= count)
    return max(CUTOFFS[below], CUTOFFS[above])


def simulated_cutoff(count: int, samples: int = 400_000, seed: int = 1) -> float:
    """The cutoff of `count` numbers, from so many normal samples."""
    rng, most = np.random.default_rng(seed), []
    at_once = max(1, 20_000_000 // (count * count))
    for begin in range(0, samples, at_once):
        drawn = rng.standard_normal((min(at_once, samples - begin), count))
        most.append((np.median(drawn, axis=1) - drawn.min(axis=1)) / _scales(drawn))
    return float(np.quantile(np.concatenate(most), 1 - FALSE_ALARM))
