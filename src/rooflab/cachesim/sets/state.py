"""The state of caches, however they are connected: their tags, and what their policies remember."""

from __future__ import annotations

from typing import Any

import numpy as np

from rooflab.cachesim.native import layout
from rooflab.cachesim.native.words import WORD
from rooflab.cachesim.sets import hashed_sets
from rooflab.cachesim.sets.policies import pack_ages
from rooflab.cachesim.sets.set_vectors import EMPTY, WIDEST, padded
from rooflab.types.simulation import Cache

_ORDERED = ("lru", "fifo")


def kind_of(cache: Cache) -> str:
    """The policy without its variant: what a compiled cache is made for."""
    return cache.policy[:4] if cache.policy.startswith("qlru") else cache.policy


class State:
    """Owns the words that descriptors point to: keep it alive while compiled code runs.

    Where it is `narrow`, entries have 32 bits instead of 64, which `plain_levels` alone can read.
    """

    def __init__(self, narrow: bool = False) -> None:
        self.narrow, self._entry = narrow, np.dtype(np.int32 if narrow else np.int64)
        self._kept: list[Any] = []
        self._named: dict[int, np.ndarray] = {}

    def _array(self, words: int, fill: int = 0) -> np.ndarray:
        # On a cache line, so that a set's tags cross none.
        room = np.zeros(words + 8, np.int64)
        first = -room.ctypes.data // 8 % 8
        self._kept.append(room)
        array = room[first : first + words]
        if fill:
            array[:] = fill
        return array

    def _address(self, words: int, fill: int = 0) -> int:
        array = self._array(words, fill)
        self._named[array.ctypes.data] = array
        return array.ctypes.data

    def _entries(self, count: int) -> int:
        entries = self._array(-(-count * self._entry.itemsize // WORD)).view(self._entry)
        entries[:] = EMPTY
        self._named[entries.ctypes.data] = entries
        return entries.ctypes.data

    def _descriptor(self, cache: Cache) -> np.ndarray:
        """The words of `cache` that say where a line lies in it, and what its policy starts with."""
        words = self._array(layout.DESCRIPTOR_WORDS)
        words[layout.SETS] = cache.sets
        masked = cache.index == "modulo" and cache.sets & (cache.sets - 1) == 0
        words[layout.MASK] = cache.sets - 1 if masked else -1
        words[layout.FOLD_BITS] = max(1, (cache.sets - 1).bit_length())
        words[layout.SHIFT] = cache.line_bytes.bit_length() - 1
        words[layout.RANDOM] = cache.seed
        self._policy_state(words, cache)
        return words

    def _policy_state(self, words: np.ndarray, cache: Cache) -> None:
        kind = kind_of(cache)
        ways, sets = cache.set_ways, cache.sets
        if kind in _ORDERED and ways > WIDEST:
            self._linked(words, sets, ways)
            return
        lanes = ways if ways > WIDEST else padded(ways)
        words[layout.TAGS] = self._entries(sets * lanes)
        if ways <= WIDEST:
            words[layout.SET_SHIFT] = (lanes * self._entry.itemsize).bit_length() - 1
        words[layout.SECTORS] = self._address(0 if self.narrow else sets * lanes)
        if kind == "plru":
            words[layout.META] = self._address(sets)
        if kind == "qlru":
            words[layout.META] = self._address(sets, -1)  # every way of age 3
            _, hit, miss, replace, update, *miss_only = cache.policy.split("_")
            words[layout.AGES] = pack_ages(
                hit[1:], int(miss[1:]), int(replace[1:]), int(update[1:]), bool(miss_only)
            )

    def _linked(self, words: np.ndarray, sets: int, ways: int) -> None:
        nodes, bits = sets * ways, max(1, (2 * sets * ways - 1).bit_length())
        words[layout.TAGS] = self._address(nodes, EMPTY)
        words[layout.SECTORS] = self._address(nodes)
        header = self._array(hashed_sets.HEADER_WORDS)
        header[hashed_sets.BUCKETS] = self._address(1 << bits, -1)
        header[hashed_sets.HASH_SHIFT] = 64 - bits
        header[hashed_sets.PREVIOUS], header[hashed_sets.CHAIN] = (
            self._address(nodes, -1),
            self._address(nodes, -1),
        )
        header[hashed_sets.NEWEST], header[hashed_sets.OLDEST] = self._address(sets, -1), self._address(sets, -1)
        # Every place is free at first, in a list that runs through the places of its set.
        following = self._array(nodes)
        following[:] = np.arange(1, nodes + 1)
        following[ways - 1 :: ways] = -1
        free = self._array(sets)
        free[:] = np.arange(0, nodes, ways)
        header[hashed_sets.FOLLOWING], header[hashed_sets.FREE] = following.ctypes.data, free.ctypes.data
        words[layout.META] = header.ctypes.data
