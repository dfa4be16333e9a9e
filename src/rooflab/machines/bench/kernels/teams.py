"""Two functions over prange, kept compiled on disk: one pins the threads of a team, the other does nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, prange, types

set_affinity: Any = types.ExternalFunction("sched_setaffinity", types.intc(types.intc, types.uintp, types.uintp))


@njit(parallel=True, nogil=True, cache=True)
def pin(masks: np.ndarray) -> None:
    """Keep thread t of the team on the CPUs whose bits are set in `masks[t]` (64-bit words)."""
    for t in prange(masks.shape[0]):
        set_affinity(0, masks.shape[1] * 8, masks[t].ctypes.data)


@njit(parallel=True, nogil=True, cache=True)
def empty(words: np.ndarray, times: int) -> None:
    """Start and join the team `times` times; each thread adds one to a word of its own."""
    for _ in range(times):
        for t in prange(words.shape[0]):
            words[t, 0] += 1
