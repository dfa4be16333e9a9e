"""Caches with no next level, ready for compiled code: their state and what each counted, by core."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rooflab.cachesim.coherence import layout as at
from rooflab.cachesim.level.state import Tags
from rooflab.cachesim.native import layout
from rooflab.types.simulation import Cache, LevelCounts, ReferenceCounts


class StandaloneCaches(Tags):
    """Caches one by one: what connects them is the protocol's (`protocol`)."""

    def __init__(self, levels: Sequence[Cache], references: Sequence[str]) -> None:
        super().__init__()
        self.levels, self.references = levels, tuple(references)
        self._counts: list[np.ndarray] = []
        self._descriptors = [self._level(cache) for cache in levels]

    def _level(self, cache: Cache) -> np.ndarray:
        words = self._array(layout.DESCRIPTOR_WORDS)
        kind = kind_of(cache)
        words[layout.SETS] = cache.sets
        masked = cache.index == "modulo" and cache.sets & (cache.sets - 1) == 0
        words[layout.MASK] = cache.sets - 1 if masked else -1
        words[layout.FOLD_BITS] = max(1, (cache.sets - 1).bit_length())
        words[layout.SHIFT] = cache.line_bytes.bit_length() - 1
        words[layout.FLAGS] = layout.XOR_INDEX if cache.index == "xor" else 0
        words[layout.RANDOM] = cache.seed
        self._policy_state(words, cache, kind)
        counts = self._array(len(self.references) * at.CACHE_WORDS).reshape(-1, at.CACHE_WORDS)
        self._counts.append(counts)
        words[layout.COUNTS] = counts.ctypes.data
        if kind != "qlru":  # a repeat changes no other policy's state: the last line of each set is noted
            slots = cache.sets if masked else 1
            words[layout.LAST_LINES], words[layout.LAST_LINES_MASK] = self._address(slots, -1), slots - 1
        return words

    def counted(self, repeats: int = 0) -> tuple[LevelCounts, ...]:
        """What each cache counted, as a whole and by core; `repeats` are hits that the first did not count."""
        counts = []
        for number, cache in enumerate(self.levels):
            rows = self._counts[number].copy()
            rows[0, at.HITS] += repeats if number == 0 else 0
            by_core = [
                ReferenceCounts(name=who, **_row(row)) for who, row in zip(self.references, rows, strict=True)
            ]
            whole = _row(rows.sum(axis=0))
            name = cache.name or f"L{number + 1}"
            counts.append(LevelCounts(name=name, cache=cache, references=tuple(by_core), **whole))
        return tuple(counts)

    def words_of(self, level: int) -> np.ndarray:
        """A level's descriptor."""
        return self._descriptors[level]


def kind_of(cache: Cache) -> str:
    """The policy without its variant: what a compiled cache is made for."""
    return cache.policy[:4] if cache.policy.startswith("qlru") else cache.policy


def _row(row: np.ndarray) -> dict[str, Any]:
    return {name: int(row[word]) for name, word in _COUNTERS.items()}


_COUNTERS = {
    "hits": at.HITS,
    "misses": at.MISSES,
    "evictions": at.EVICTIONS,
    "writebacks": at.WRITEBACKS,
    "read_bytes": at.READ_BYTES,
    "write_bytes": at.WRITE_BYTES,
    "invalidations": at.INVALIDATIONS,
}
