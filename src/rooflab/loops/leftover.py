"""What lies dirty in the caches when a loop has ended: bytes that will still be written back."""

from __future__ import annotations

import ctypes

import numpy as np

from rooflab.cachesim import layout
from rooflab.cachesim.hierarchy import Hierarchy
from rooflab.cachesim.vectors import WIDEST, padded


def dirty_bytes(built: Hierarchy) -> tuple[int, ...]:
    """Bytes that each level, near to far, would write behind it if everything dirty were written back.

    A line that is dirty in a nearer level passes all further ones. Sectored levels are counted by line.
    """
    dirty: np.ndarray = np.zeros(0, np.int64)
    shift, made, address = 0, [], built.address
    for cache in built.levels:
        words = _words(address, layout.DESCRIPTOR_WORDS)
        ways = cache.set_ways
        entries = _words(int(words[layout.TAGS]), cache.sets * (padded(ways) if ways <= WIDEST else ways))
        own = entries[(entries >= 0) & (entries & 1 == 1)] >> 1
        bits = int(words[layout.SHIFT])
        dirty = np.union1d(dirty >> (bits - shift), own)
        made.append(len(dirty) << bits)
        shift, address = bits, int(words[layout.NEXT])
    return tuple(made)


def _words(address: int, count: int) -> np.ndarray:
    return np.ctypeslib.as_array((ctypes.c_int64 * count).from_address(address))
