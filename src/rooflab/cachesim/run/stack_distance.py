"""Miss-ratio curves: the misses of fully associative LRU caches of every capacity, in one pass.

An access hits in a cache of C lines if fewer than C other lines were touched since its line was last
(stack distance: Mattson and others, IBM Systems Journal 1970). A Fenwick tree over the times of last use counts
them in the logarithm of the number of lines (Bennett and Kruskal, IBM Journal of R&D 1975); when its times run
out, they are dealt anew, in order.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numba import njit

from rooflab.cachesim.level import seen_units
from rooflab.cachesim.level.access import split_address
from rooflab.cachesim.native import layout
from rooflab.cachesim.native.compile import OPTIONS, callback, kernel, native_address, ready
from rooflab.cachesim.native.layout import LAST_LINES, META, UNIT_SHIFT
from rooflab.cachesim.native.words import CALL_SIGNATURE, add, load, shift_right, store
from rooflab.cachesim.run import irregular
from rooflab.cachesim.run.nest_interpreter import PLAIN, run, scratch, table_of
from rooflab.cachesim.streams.stream import Stream
from rooflab.errors import RooflabError
from rooflab.types.simulation import MissCurve

# Words of the header that META names.
KEYS, TIMES, TREE, OWNERS, HISTOGRAM, NOW, SIZE, DISTINCT, SLOT_MASK, HASH_SHIFT = range(10)
_GOLDEN = -7046029254386353131  # 2**64 / golden ratio


@njit(**OPTIONS)
def _add_to(tree, size, at, amount):
    at += 1
    while at <= size:
        add(tree, at, amount)
        at += at & -at


@njit(**OPTIONS)
def _up_to(tree, at):
    total, at = 0, at + 1
    while at > 0:
        total += load(tree, at)
        at &= at - 1
    return total


@njit(**OPTIONS)
def _deal_tree(tree, size, dealt):
    # The tree of ones at the times below `dealt`.
    for at in range(1, size + 1):
        low = at & -at
        store(tree, at, max(0, min(at, dealt) - (at - low)))


@njit(**OPTIONS)
def _deal_anew(header):
    # Give the lines the times 0, 1, 2, … in the order of their last use.
    size, owners, times, tree = load(header, SIZE), load(header, OWNERS), load(header, TIMES), load(header, TREE)
    dealt = 0
    for time in range(size):
        slot = load(owners, time)
        if slot >= 0 and load(times, slot) == time:
            store(owners, dealt, slot)
            store(times, slot, dealt)
            dealt += 1
    for time in range(dealt, size):
        store(owners, time, -1)
    _deal_tree(tree, size, dealt)
    store(header, NOW, dealt)


def _distance(state, address, nbytes, request, reference):
    header = load(state, META)
    unit = address >> load(state, UNIT_SHIFT)
    store(load(state, LAST_LINES), 0, unit << 1 | 1)
    keys, times, tree, size = load(header, KEYS), load(header, TIMES), load(header, TREE), load(header, SIZE)
    if load(header, NOW) == size:
        _deal_anew(header)
    slot = shift_right(unit * _GOLDEN, load(header, HASH_SHIFT))
    while load(keys, slot) != 0 and load(keys, slot) != unit + 1:
        slot = (slot + 1) & load(header, SLOT_MASK)
    now = load(header, NOW)
    if load(keys, slot) == 0:
        store(keys, slot, unit + 1)
        add(header, DISTINCT, 1)
    else:
        last = load(times, slot)
        add(load(header, HISTOGRAM), load(header, DISTINCT) - _up_to(tree, last), 1)
        _add_to(tree, size, last, -1)
    store(times, slot, now)
    store(load(header, OWNERS), now, slot)
    _add_to(tree, size, now, 1)
    store(header, NOW, now + 1)
    return 0


def _carry_over(header, keys, times, owners, now):
    # Put the lines of smaller tables into new ones, in the order of their last use.
    new_keys, mask, dealt = load(header, KEYS), load(header, SLOT_MASK), 0
    for time in range(now):
        place = owners[time]
        if place < 0 or times[place] != time:
            continue
        slot = shift_right((keys[place] - 1) * _GOLDEN, load(header, HASH_SHIFT))
        while load(new_keys, slot) != 0:
            slot = (slot + 1) & mask
        store(new_keys, slot, keys[place])
        store(load(header, TIMES), slot, dealt)
        store(load(header, OWNERS), dealt, slot)
        dealt += 1
    _deal_tree(load(header, TREE), load(header, SIZE), dealt)
    store(header, NOW, dealt)


carry_over = kernel(_carry_over)


@functools.cache
def _function() -> Any:
    return callback(CALL_SIGNATURE, _distance, "distance")


class Distances:
    """A stand-in for a hierarchy (same `address`, same doors): it counts stack distances instead of hits."""

    def __init__(
        self, units: int, references: int, line_bytes: int, most_units: int = seen_units.MOST_UNITS
    ) -> None:
        self.header = np.zeros(10, np.int64)
        self.line_bytes, self.most_units = line_bytes, most_units
        self._set_tables(units)
        self.rows = np.zeros((references, layout.COUNTER_WORDS), np.int64)
        self.last_line = np.full(1, -1, np.int64)
        self.words = np.zeros(layout.DESCRIPTOR_WORDS, np.int64)
        self.words[META], self.words[LAST_LINES] = self.header.ctypes.data, self.last_line.ctypes.data
        self.words[UNIT_SHIFT] = line_bytes.bit_length() - 1
        self.words[layout.COUNTS] = self.rows.ctypes.data
        function = native_address(_function())
        self.words[layout.UNIT_CALL] = self.words[layout.SELF_CALL] = function
        self.words[layout.SPLIT_CALL] = split_address()

    def _set_tables(self, units: int) -> None:
        bits = max(4, (2 * units).bit_length())
        self.units, self.size = units, max(1024, 4 * units)
        self._arrays = {
            KEYS: np.zeros(1 << bits, np.int64),
            TIMES: np.zeros(1 << bits, np.int64),
            TREE: np.zeros(self.size + 1, np.int64),
            OWNERS: np.full(self.size, -1, np.int64),
            HISTOGRAM: np.zeros(units + 2, np.int64),
        }
        for word, array in self._arrays.items():
            self.header[word] = array.ctypes.data
        self.header[SIZE], self.header[SLOT_MASK], self.header[HASH_SHIFT] = self.size, (1 << bits) - 1, 64 - bits

    def make_room(self, accesses: int, bytes_each: int) -> None:
        """Let the tables hold what they hold and all lines that so many accesses may touch.

        Raises:
            RooflabError: more lines than are kept.
        """
        distinct = int(self.header[DISTINCT])
        seen_units.check(distinct, self.line_bytes, self.most_units)
        wanted = distinct + seen_units.units_of(accesses, bytes_each, self.line_bytes)
        if wanted <= self.units:
            return
        old, now = self._arrays, int(self.header[NOW])
        self._set_tables(2 * wanted)
        histogram = old[HISTOGRAM]
        self._arrays[HISTOGRAM][: histogram.size] = histogram
        carry_over(self.header.ctypes.data, old[KEYS], old[TIMES], old[OWNERS], now)

    @property
    def address(self) -> int:
        """What compiled code takes as its state."""
        return self.words.ctypes.data

    def curve(self, name: str, accesses: int, line_bytes: int) -> MissCurve:
        """The curve of what ran; `accesses` as the stream says."""
        histogram, cold = self._arrays[HISTOGRAM], int(self.header[DISTINCT])
        requests = accesses + int(self.rows[:, layout.EXTRA].sum())
        # Repeats of the last line do not come by: their distance is 0.
        histogram[0] += requests - cold - int(histogram.sum())
        distances_met = np.flatnonzero(histogram)
        return MissCurve(
            name=name,
            line_bytes=line_bytes,
            requests=requests,
            compulsory=cold,
            distances=tuple(distances_met.tolist()),
            counts=tuple(histogram[distances_met].tolist()),
        )


def check_line(line_bytes: int) -> None:
    """Raise where a line of `line_bytes` cannot be.

    Raises:
        RooflabError: not a power of two.
    """
    if not isinstance(line_bytes, int) or line_bytes <= 0 or line_bytes & (line_bytes - 1):
        raise RooflabError(f"line_bytes is {line_bytes!r}, expected a power of two, such as 64")


def curve_of(stream: Stream, line_bytes: int = 64) -> MissCurve:
    """The misses of `stream` in fully associative LRU caches of every capacity.

    Raises:
        RooflabError: a line that is not a power of two.
    """
    check_line(line_bytes)
    counted = Distances(stream.most_units(line_bytes), len(stream.references), line_bytes)
    if stream.program is not None:
        scratch_words = scratch()
        for loop in stream.program.loops:
            table = table_of(loop, line_bytes)
            run(counted.address, table.ctypes.data, scratch_words.ctypes.data, 0, loop.extent, PLAIN)
    else:
        assert stream.irregular is not None
        name, numbers = stream.irregular
        table = np.array(numbers, np.int64)
        kernel = irregular.kernel_of(name)
        ready(kernel, counted.address, table.ctypes.data)
        kernel(counted.address, table.ctypes.data)
    return counted.curve(stream.name, stream.accesses, line_bytes)
