"""Caches with no next level, ready for compiled code: their state and what each counted, by core."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rooflab.cachesim.coherence import layout as at
from rooflab.cachesim.native import layout
from rooflab.cachesim.sets.state import State, kind_of
from rooflab.types.simulation import Cache, LevelCounts, ReferenceCounts


class StandaloneCaches(State):
    """Caches one by one: what connects them is the protocol's (`protocol`)."""

    def __init__(self, levels: Sequence[Cache], references: Sequence[str]) -> None:
        super().__init__()
        self.levels, self.references = levels, tuple(references)
        self._counts: list[np.ndarray] = []
        self._descriptors = [self._level(cache) for cache in levels]

    def _level(self, cache: Cache) -> np.ndarray:
        words = self._descriptor(cache)
        words[layout.FLAGS] = layout.XOR_INDEX if cache.index == "xor" else 0
        counts = self._array(len(self.references) * at.CACHE_WORDS).reshape(-1, at.CACHE_WORDS)
        self._counts.append(counts)
        words[layout.COUNTS] = counts.ctypes.data
        if kind_of(cache) != "qlru":  # a repeat changes no other policy: the last line of each set is noted
            slots = cache.sets if words[layout.MASK] >= 0 else 1
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
