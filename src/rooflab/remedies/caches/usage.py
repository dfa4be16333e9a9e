"""Who loads and stores what, in the streams of several cores: one look at every record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from rooflab.cachesim.coherence.layout import ADDRESS_SHIFT, ATOMIC, BARRIER, READS, WRITES
from rooflab.cachesim.coherence.stream import CoreArray, CoreStreams

MOST_CELLS = 1 << 27  # items times cores that are looked at: a byte or two each
NOBODY, SEVERAL, UNUSED = -1, -2, -3  # an item's writer, where it is not one core


class Usage(NamedTuple):
    """Of one array.

    Attributes:
        array: of the streams.
        writers: for each item the core that stores it, or `NOBODY` (it is only loaded), `SEVERAL`, `UNUSED`.
        summed: whether what is stored are sums (see `_Sums`).
        plain: whether it is stored by plain stores alone: no atomics, no locks.
        updates: how often an item of it was stored.
    """

    array: CoreArray
    writers: np.ndarray
    summed: bool
    plain: bool
    updates: int


class _Sums:
    """Whether what one core does to one array are sums: a load and a store of the same item at once, or an atomic.

    Between two meetings with others (barriers, locks) it may read the array instead, and only read it.
    """

    def __init__(self) -> None:
        self.holds = True
        self._last = np.zeros(0, np.int64)  # a load that may be the first half of a pair
        self._summed = self._read = -1  # the last stretch between meetings in which it did so

    def look(self, records: np.ndarray, stretch: np.ndarray) -> None:
        """Further records of that core, of that array alone, each with the number of its stretch."""
        if not self.holds or not records.size:
            return
        records = np.concatenate((self._last, records))
        stretch = np.concatenate((np.full(self._last.size, stretch[0]), stretch))
        operations = records & 15
        if (operations > ATOMIC).any():
            self.holds = False
            return
        loads, stores = operations == READS, operations == WRITES
        paired = np.zeros(records.size, bool)  # stores right after the load of the same item
        paired[1:] = stores[1:] & loads[:-1] & (records[1:] >> ADDRESS_SHIFT == records[:-1] >> ADDRESS_SHIFT)
        if (stores & ~paired).any():
            self.holds = False
            return
        alone = loads.copy()
        alone[:-1] &= ~paired[1:]
        self._last = records[-1:] if alone[-1] else records[:0]
        alone[-1] = False
        summed = stretch[paired | (operations == ATOMIC)]
        read = stretch[alone]
        both = np.intersect1d(np.append(summed, self._summed), np.append(read, self._read))
        self.holds = not (both >= 0).any()
        self._summed = int(summed[-1]) if summed.size else self._summed
        self._read = int(read[-1]) if read.size else self._read


def usage(streams: CoreStreams) -> Mapping[str, Usage] | None:
    """Who uses each array of `streams`, by its name; None where that takes too much memory."""
    cores = len(streams.cores)
    if sum(array.items for array in streams.arrays) * cores > MOST_CELLS:
        return None
    writers = {array.name: np.full(array.items, UNUSED, np.int16) for array in streams.arrays}
    sums = {array.name: [_Sums() for _ in range(cores)] for array in streams.arrays}
    plain = dict.fromkeys(writers, True)
    updates = dict.fromkeys(writers, 0)
    for core, start in enumerate(streams.cores):
        met = 0
        for chunk in start():
            stretches = met + np.cumsum(chunk & 15 >= BARRIER)
            met = int(stretches[-1]) if stretches.size else met
            for array, own in parts(chunk, streams.arrays):
                records = chunk[own]
                items = ((records >> ADDRESS_SHIFT) - array.base) // array.item_bytes
                operations = records & 15
                stores = operations != READS
                plain[array.name] &= not (operations > WRITES).any()
                updates[array.name] += int(stores.sum())
                _note(writers[array.name], items[stores], items[~stores], core)
                sums[array.name][core].look(records, stretches[own])
    return {
        array.name: Usage(
            array,
            writers[array.name],
            all(one.holds for one in sums[array.name]) and updates[array.name] > 0,
            plain[array.name],
            updates[array.name],
        )
        for array in streams.arrays
    }


def parts(chunk: np.ndarray, arrays: tuple[CoreArray, ...]) -> list[tuple[CoreArray, np.ndarray]]:
    """Which records of `chunk` are accesses of each array that it has any of."""
    addresses = chunk >> ADDRESS_SHIFT
    accesses = chunk & 15 != BARRIER
    found = []
    for array in arrays:
        own = accesses & (addresses >= array.base) & (addresses < array.end)
        if own.any():
            found.append((array, own))
    return found


def _note(writers: np.ndarray, stored: np.ndarray, loaded: np.ndarray, core: int) -> None:
    """Note that `core` stored and loaded those items."""
    loaded = loaded[writers[loaded] == UNUSED]
    writers[loaded] = NOBODY
    before = writers[stored]
    own = (before == UNUSED) | (before == NOBODY) | (before == core)
    writers[stored] = np.where(own, core, SEVERAL)
