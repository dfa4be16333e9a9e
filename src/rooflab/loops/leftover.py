"""What lies dirty in the caches when a loop has ended: bytes that will still be written back."""

from __future__ import annotations

import numpy as np

from rooflab.cachesim.hierarchy import Hierarchy


def dirty_bytes(built: Hierarchy) -> tuple[int, ...]:
    """Bytes that each level, near to far, would write behind it if everything dirty were written back.

    A line that is dirty in a nearer level passes all further ones. Sectored levels are counted by line.
    """
    dirty: np.ndarray = np.zeros(0, np.int64)
    shift, made = 0, []
    for number, cache in enumerate(built.levels):
        entries = built.tags(number)
        own = entries[(entries >= 0) & (entries & 1 == 1)].astype(np.int64) >> 1
        bits = cache.line_bytes.bit_length() - 1
        dirty = np.union1d(dirty >> (bits - shift), own)
        made.append(len(dirty) << bits)
        shift = bits
    return tuple(made)
