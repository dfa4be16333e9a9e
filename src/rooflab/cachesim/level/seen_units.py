"""Tables that grow with what a trace touches: how much that is, nobody knows before its end.

A kernel cannot stop to ask for memory. So room is made before each piece of a trace, for as many new units as the
piece could hold at most; pieces are small.
"""

from __future__ import annotations

import ctypes
from typing import Protocol

import numpy as np

from rooflab.cachesim.level.hierarchy import Hierarchy
from rooflab.cachesim.level.miss_kinds import first_sight
from rooflab.cachesim.native import layout
from rooflab.cachesim.native.compile import kernel
from rooflab.errors import RooflabError

MOST_UNITS = 1 << 26  # lines, or sectors: 4 GiB of data in lines of 64 bytes
_HEADER = 3  # words before the slots: mask, hash shift, used (see `miss_kinds.first_sight`)


class Growing(Protocol):
    """What must know beforehand how much may come."""

    def make_room(self, accesses: int, bytes_each: int) -> None:
        """Make room for all units that so many accesses may touch."""


def units_of(accesses: int, bytes_each: int, unit_bytes: int) -> int:
    """The most units that `accesses` of `bytes_each` touch, wherever they begin."""
    return accesses * ((bytes_each + unit_bytes - 2) // unit_bytes + 1)


def check(units: int, unit_bytes: int, most_units: int = MOST_UNITS) -> None:
    """Raise where the units touched so far are more than are kept.

    Raises:
        RooflabError: says how many, and what to do.
    """
    if units > most_units:
        raise RooflabError(
            f"the trace touches over {most_units:,} different units of {unit_bytes} bytes, the most that are "
            "kept apart in memory: take longer lines, a part of the trace, or leave classify out"
        )


class Seen:
    """The sets of units seen before, of a hierarchy that classifies misses, kept large enough."""

    def __init__(self, built: Hierarchy, most_units: int = MOST_UNITS) -> None:
        self._most_units = most_units
        self._kept: dict[int, np.ndarray] = {}
        self._levels: list[tuple[np.ndarray, int]] = []
        for first in (built.address, _words(built.address, layout.DESCRIPTOR_WORDS)[layout.TLB]):
            address = int(first)
            while address:
                words = _words(address, layout.DESCRIPTOR_WORDS)
                self._levels.append((words, 1 << int(words[layout.UNIT_SHIFT])))
                address = int(words[layout.NEXT_LEVEL])

    def make_room(self, accesses: int, bytes_each: int) -> None:
        """Let every level's set hold what it holds and all that so many accesses may add.

        Raises:
            RooflabError: more units than are kept.
        """
        for words, unit_bytes in self._levels:
            mask, _, used = _words(int(words[layout.SEEN]), _HEADER).tolist()
            check(used, unit_bytes, self._most_units)
            # Write-backs from nearer levels name nothing that was not accessed before.
            wanted = 2 * (used + units_of(accesses, bytes_each, unit_bytes))
            if wanted > mask:
                self._grow(words, mask + 1, wanted)

    def _grow(self, words: np.ndarray, slots: int, wanted: int) -> None:
        bits = wanted.bit_length()
        larger = np.zeros(_HEADER + (1 << bits), np.int64)
        larger[0], larger[1] = (1 << bits) - 1, 64 - bits
        copy_seen(_words(int(words[layout.SEEN]), _HEADER + slots), larger.ctypes.data)
        words[layout.SEEN] = larger.ctypes.data
        self._kept[words.ctypes.data] = larger


def _copy_seen(old, new):
    for slot in range(3, old.size):
        if old[slot] != 0:
            first_sight(new, old[slot] - 1)


copy_seen = kernel(_copy_seen)


def _words(address: int, count: int) -> np.ndarray:
    return np.ctypeslib.as_array((ctypes.c_int64 * count).from_address(int(address)))
