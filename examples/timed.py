"""Functions to time: `rooflab time examples/timed.py:triad --n 10000000`, `… :network --batch 64`."""

from __future__ import annotations

import numpy as np


def triad(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
    """A = b + 3 c in NumPy's two passes."""
    np.multiply(c, 3.0, out=a)
    np.add(a, b, out=a)


def args(n: int = 1_000_000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Three arrays of n doubles, each page of them touched."""
    return np.zeros(n) + 1.0, np.ones(n), np.ones(n)


def numbers(n: int = 100_000) -> np.ndarray:
    """Random numbers, the same in each run."""
    return np.random.default_rng(1).random(n)


def product(n: int = 512):
    """NumPy's product of two n × n matrices: what is timed, and its inputs."""
    return np.matmul, (np.ones((n, n)), np.ones((n, n)))


def network(batch: int = 8):
    """Two layers of PyTorch and their input, with data: what is timed, and its inputs."""
    import torch
    from torch import nn

    return nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024)), torch.randn(batch, 1024)


if __name__ == "__main__":
    import rooflab

    timed = rooflab.time(np.add, *args()[:2], cold=False)
    print(f"{timed.name}: {timed.warm.calls > 100} that it was called more than a hundred times")
