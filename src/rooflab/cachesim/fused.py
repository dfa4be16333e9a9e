"""Plain levels run as one: a compiled function that takes an access through a whole hierarchy.

Most caches that are simulated are plain at every level: LRU, write-back and write-allocate, lines of one
length, a set index that is a mask, nothing included, excluded, prefetched, classified or sectored. Then no level
needs its flags or a call by address: the levels are inlined into each other, keyed by the lanes of each
(see `vectors`). Counters and tags are those of `level`, which answers every other request on the same state.

A level's set changes before the level behind is asked, other than in `level`: neither sees the other.
What the level behind sees stays in order: the line that is read, then the one that is written back.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from rooflab.cachesim.compiled import Named, callback, native_address
from rooflab.cachesim.core import ROW_BYTES
from rooflab.cachesim.layout import (
    COLD,
    COUNTS,
    GENERAL_CALL,
    HITS,
    LAST_WAY,
    MASK,
    MEMO,
    MISSES,
    NEXT,
    READ_BYTES,
    STORE,
    TAGS,
    UNIT_SHIFT,
    WRITE_BYTES,
    WRITEBACKS,
)
from rooflab.cachesim.memory import CALL_SIGNATURE, add, call, load, store
from rooflab.cachesim.vectors import FOUND, make_use, padded
from rooflab.types.simulation import Cache

LANES = (8, 16)  # of levels that are fused: 5 to 16 ways. Bounds how many functions there can be
MOST_LEVELS = 3
_KEPT: list[Any] = []  # machine code lives as long as what compiled it


def is_plain(levels: Sequence[Cache]) -> bool:
    """Whether `levels` are of the kind that this file is for."""
    return len(levels) <= MOST_LEVELS and all(
        cache.policy == "lru"
        and cache.set_ways <= max(LANES)
        and padded(cache.set_ways) in LANES
        and cache.line_bytes == levels[0].line_bytes
        and cache.sector_bytes in (None, cache.line_bytes)
        and cache.write_back
        and cache.write_allocate
        and cache.inclusion == "non-inclusive"
        and cache.index == "modulo"
        and cache.sets & (cache.sets - 1) == 0
        and not cache.prefetch
        for cache in levels
    )


def _make_read_last(lanes: int) -> Any:
    """Compiled `read(level, line, shift, offset)` of the last level."""
    use = make_use(lanes)

    @Named(f"fused last {lanes}").inlined
    def read(level, line, shift, offset):
        # Hit or miss is hard to foresee at the last level, and nothing behind it needs to know: no branch.
        row = load(level, COUNTS) + offset
        old, _ = use(load(level, TAGS), (line & load(level, MASK)) * lanes, load(level, LAST_WAY), line, 0)
        add(row, HITS if old == FOUND else MISSES, 1)
        if old & 1 and old != FOUND:
            add(row, WRITEBACKS, 1)
            add(row, WRITE_BYTES, 1 << shift)
        elif old < FOUND:
            add(row, COLD, 1)

    return read


def _make_behind(lanes: tuple[int, ...]) -> tuple[Any, Any]:
    """Compiled `read(level, line, shift, offset)` and `write(…)` of a level behind the first and all behind."""
    named, use, width, last = Named(f"fused {lanes}"), make_use(lanes[0]), lanes[0], len(lanes) == 1
    behind: tuple[Any, Any] = (None, None) if last else _make_behind(lanes[1:])
    read_behind, write_behind = behind

    @named.inlined
    def read(level, line, shift, offset):
        row = load(level, COUNTS) + offset
        old, _ = use(load(level, TAGS), (line & load(level, MASK)) * width, load(level, LAST_WAY), line, 0)
        if old == FOUND:
            add(row, HITS, 1)
            return
        add(row, MISSES, 1)
        read_behind(load(level, NEXT), line, shift, offset)
        if old < 0:
            add(row, COLD, 1)
        elif old & 1:
            add(row, WRITEBACKS, 1)
            add(row, WRITE_BYTES, 1 << shift)
            write_behind(load(level, NEXT), old >> 1, shift, offset)

    @named.part
    def write(level, line, shift, offset):
        # A whole line comes in: there is nothing to read.
        row = load(level, COUNTS) + offset
        old, _ = use(load(level, TAGS), (line & load(level, MASK)) * width, load(level, LAST_WAY), line, 1)
        if old == FOUND:
            add(row, HITS, 1)
            return
        add(row, MISSES, 1)
        add(row, READ_BYTES, -(1 << shift))
        if old < 0:
            add(row, COLD, 1)
        elif old & 1:
            add(row, WRITEBACKS, 1)
            add(row, WRITE_BYTES, 1 << shift)
            if not last:
                write_behind(load(level, NEXT), old >> 1, shift, offset)

    return (_make_read_last(width) if last else read), write


def _make_first(lanes: tuple[int, ...]) -> Any:
    use, width, last = make_use(lanes[0]), lanes[0], len(lanes) == 1
    behind: tuple[Any, Any] = (None, None) if last else _make_behind(lanes[1:])
    read_behind, write_behind = behind

    def through(level, address, nbytes, request, reference):
        if request > STORE:
            return call(load(level, GENERAL_CALL), level, address, nbytes, request, reference)
        shift, offset = load(level, UNIT_SHIFT), reference * ROW_BYTES
        line, row = address >> shift, load(level, COUNTS) + offset
        index = line & load(level, MASK)
        old, entry = use(load(level, TAGS), index * width, load(level, LAST_WAY), line, request)
        store(load(level, MEMO), index, entry)
        if old == FOUND:
            add(row, HITS, 1)
            return 0
        add(row, MISSES, 1)
        if not last:
            read_behind(load(level, NEXT), line, shift, offset)
        if old < 0:
            add(row, COLD, 1)
        elif old & 1:
            add(row, WRITEBACKS, 1)
            add(row, WRITE_BYTES, 1 << shift)
            if not last:
                write_behind(load(level, NEXT), old >> 1, shift, offset)
        return 0

    return Named(f"fused {lanes}").name(through)


def address_of(levels: Sequence[Cache]) -> int:
    """The address of the compiled function that answers a request to the first of `levels`."""
    return _compiled(tuple(padded(cache.set_ways) for cache in levels))


@functools.cache
def _compiled(lanes: tuple[int, ...]) -> int:
    made = callback(CALL_SIGNATURE, _make_first(lanes), f"fused {lanes}")
    _KEPT.append(made)
    return native_address(made)
