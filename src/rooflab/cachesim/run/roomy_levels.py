"""Levels that hold all that a stream touches: they never give up a line, so that warping need not turn their sets.

What such a level does with a request depends on whether it holds the line, and on nothing else. Let every array
move along by a period, and every nearer level look the same after it, moved. Then the period after makes the same
requests, moved; and they find the same if the level, of all that will still be asked for, holds the same, moved.
Of an array that moves upwards that is what lies above the lowest line that is touched from now on or is held by a
nearer level, as all of these move along (downwards: below the highest).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rooflab.cachesim.level.hierarchy import Hierarchy
from rooflab.cachesim.sets.set_vectors import EMPTY, WIDEST
from rooflab.cachesim.streams import nests
from rooflab.types.simulation import Cache


class Touched(NamedTuple):
    """Of each array where what a loop's first step may touch begins and ends, and bytes from step to step."""

    low: np.ndarray
    high: np.ndarray
    strides: np.ndarray

    @property
    def nbytes(self) -> int:
        """The most bytes that the first step touches."""
        return int((self.high - self.low).sum())


def first_roomy(levels: Sequence[Cache], arrays: np.ndarray) -> int:
    """The place of the nearest level that, as all after it, holds `arrays` whole; how many levels where none does.

    `arrays`: rows of first address and the one after the last.
    """
    first = len(levels)
    while first and _is_roomy(levels[first - 1], arrays):
        first -= 1
    return first


def _is_roomy(level: Cache, arrays: np.ndarray) -> bool:
    plain = level.inclusion == "non-inclusive" and level.write_back and level.write_allocate
    if not plain or level.policy not in ("lru", "fifo") or level.index != "modulo" or level.set_ways > WIDEST:
        return False
    first, last = arrays[:, 0] // level.line_bytes, (arrays[:, 1] - 1) // level.line_bytes
    if int((last - first + 1).sum()) > level.lines:
        return False
    # Lines of a span lie in one set after the other, round and round.
    whole, rest = np.divmod(last - first + 1, level.sets)
    changes = np.zeros(2 * level.sets + 1, np.int64)
    np.add.at(changes, first % level.sets, 1)
    np.add.at(changes, first % level.sets + rest, -1)
    held = np.cumsum(changes)[:-1].reshape(2, level.sets).sum(axis=0) + whole.sum()
    return int(held.max()) <= level.set_ways


def touched_by(loop: nests.Loop, arrays: np.ndarray) -> Touched | None:
    """What `loop` touches; None where it leaves an array."""
    low, high = np.full(len(arrays), np.iinfo(np.int64).max), np.full(len(arrays), -1)
    strides = np.zeros(len(arrays), np.int64)
    extents = {each.name: each.extent for each in nests.inner(loop)}
    for access in nests.accesses(loop):
        which = int(np.searchsorted(arrays[:, 0], access.base, side="right")) - 1
        moves = [stride * (extents[name] - 1) for name, stride in access.strides.items() if name in extents]
        first = access.base + sum(min(0, each) for each in moves)
        end = access.base + sum(max(0, each) for each in moves) + access.nbytes
        stride = access.strides.get(loop.name, 0)
        far = stride * (loop.extent - 1)
        if first + min(0, far) < arrays[which, 0] or end + max(0, far) > arrays[which, 1]:
            return None
        low[which], high[which], strides[which] = min(low[which], first), max(high[which], end), stride
    none = high < 0
    low[none], high[none] = arrays[none, 0], arrays[none, 0]
    return Touched(low, high, strides)


def widened(bounds: np.ndarray, moved: np.ndarray, tags: np.ndarray, shift: int, arrays: np.ndarray) -> np.ndarray:
    """`bounds` such that what a nearer level with those `tags` holds of each array lies within them, too.

    `shift` is the logarithm of its line; bounds are as in `RoomyLevel.is_same`.
    """
    lines = np.sort(tags[tags != EMPTY].astype(np.int64)) >> 1 << shift
    widened = bounds.copy()
    for number, (first, end) in enumerate(arrays.tolist()):
        own = lines[slice(*np.searchsorted(lines, (first, end)))]
        if len(own) and moved[number] > 0:
            widened[number] = min(widened[number], own[0])
        elif len(own):
            widened[number] = max(widened[number], own[-1] + (1 << shift))
    return widened


class RoomyLevel:
    """One level that holds all, as entries of its lines by array."""

    def __init__(self, built: Hierarchy, number: int, arrays: np.ndarray) -> None:
        self.cache, self._tags, self.counts = built.levels[number], built.tags(number), built.counts(number)
        self.arrays = arrays

    def entries(self) -> np.ndarray:
        """All that it holds, ascending."""
        return np.sort(self._tags[self._tags != EMPTY].astype(np.int64))

    def is_same(self, was: np.ndarray, now: np.ndarray, bounds: np.ndarray, moved: np.ndarray) -> bool:
        """Whether of what is still to be asked for, `now` is what `was` was, moved by `moved` bytes.

        `bounds`: for each array the address from which on (before which, where it moves down) it was so in `was`.
        """
        if sum(len(self._kept(now, array, 0, 0)) for array in self.arrays) != len(now):
            return False  # something that belongs to no array
        for array, bound, by in zip(self.arrays, bounds, moved, strict=True):
            before = self._kept(was, array, int(bound), int(by))
            after = self._kept(now, array, int(bound + by), int(by))
            if not np.array_equal(before + self._entry(int(by)), after):
                return False
        return True

    def go_on(self, now: np.ndarray, bounds: np.ndarray, moved: np.ndarray, times: int) -> None:
        """Let it hold what it will after `times` more periods; `now` and the others as in `is_same`."""
        held = []
        for array, bound, by in zip(self.arrays, bounds, moved, strict=True):
            own, step = self._kept(now, array, 0, 0), self._entry(int(by))
            if by == 0:
                held.append(own)
                continue
            later = self._kept(now, array, int(bound + by), int(by))
            # What a period leaves behind, for good: it was to be asked for before it, and is not after it.
            left = np.setdiff1d(self._kept(now, array, int(bound), int(by)), later)
            held += [np.setdiff1d(own, later), later + step * times]
            held += [left + step * time for time in range(1, times + 1)]
        self._hold(np.concatenate(held))

    def _entry(self, nbytes: int) -> int:
        """By how much the entry of a line changes where the line moves."""
        return nbytes // self.cache.line_bytes * 2

    def _kept(self, entries: np.ndarray, array: np.ndarray, bound: int, by: int) -> np.ndarray:
        first, end = (int(each) for each in array)
        if by > 0:
            first = max(first, bound)
        elif by < 0:
            end = min(end, bound)
        line = self.cache.line_bytes
        return entries[slice(*np.searchsorted(entries, (first // line * 2, -(-end // line) * 2)))]

    def _hold(self, entries: np.ndarray) -> None:
        """Fill the sets with `entries`, in any order: none will have to leave."""
        sets = (entries >> 1) % self.cache.sets
        order = np.argsort(sets, kind="stable")
        sets = sets[order]
        starts = np.searchsorted(sets, np.arange(self.cache.sets))
        self._tags[:] = EMPTY
        self._tags[sets, np.arange(len(sets)) - starts[sets]] = entries[order]
