"""Made-up curves of bandwidth over working set, whose truth is known."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from rooflab.machines.bench.run.trials import sizes
from rooflab.units import KIB, MIB

ZEN3 = ((32 * KIB, 185e9), (512 * KIB, 91e9), (32 * MIB, 62e9), (math.inf, 12e9))
DEFAULT_SIZES = (*sizes(4 * KIB, 64 * MIB), 128 * MIB, 256 * MIB)

Steps = Sequence[tuple[float, float]]


def curve(steps: Steps, x: Sequence[int], noise: float = 0.0, seed: int = 0, octaves: float = 0.5) -> list[float]:
    """Bandwidth over working set: each level serves all up to its capacity, and nothing `octaves` beyond.

    In between the time per byte is a mixture, as with a real replacement policy.
    """
    rng = np.random.default_rng(seed)
    y = []
    for size in x:
        per_byte = 1 / steps[-1][1]
        for capacity, rate in reversed(steps[:-1]):
            served = 1.0 if size <= capacity else max(0.0, 1 - math.log2(size / capacity) / octaves)
            per_byte = served / rate + (1 - served) * per_byte
        y.append(math.exp(rng.normal(0, noise)) / per_byte)
    return y
