"""Plain levels run as one: a compiled function that takes an access through a whole hierarchy.

Most caches that are simulated are plain at every level: LRU, write-back and write-allocate, lines of one
length, sets numbered modulo, nothing included, excluded, prefetched, classified or sectored. Then no level
needs its flags or a call by address: the levels are inlined into each other, keyed by the ways of each
(see `lru_sets`). Counters are those of `level`, which answers every other request on the same state.

Where all addresses are small (and nothing but loads and stores is asked for), entries have 32 bits: half the tags
to move, and the two newest of a set are one word, which then serves as the set's last-line slot (see `access`).
Several such levels are those of `queued_levels`, one is still of here.

A level's set changes before the next level is asked, other than in `level`: neither sees the other.
What the next level sees stays in order: the line that is read, then the one that is written back.
"""

from __future__ import annotations

import functools
from typing import Any

from numba import njit

from rooflab.cachesim.level.access import ROW_BYTES
from rooflab.cachesim.level.plain_kinds import NARROW, Kind, name_of
from rooflab.cachesim.native.compile import INLINED, Named, callback, native_address
from rooflab.cachesim.native.layout import (
    COLD,
    COUNTS,
    GENERAL_CALL,
    HITS,
    LAST_LINES,
    MASK,
    MISSES,
    NEXT_LEVEL,
    READ_BYTES,
    SETS,
    STORE,
    TAGS,
    UNIT_SHIFT,
    WRITE_BYTES,
    WRITEBACKS,
)
from rooflab.cachesim.native.words import CALL_SIGNATURE, add, call, load, store
from rooflab.cachesim.sets.lru_sets import FOUND, ordered_set
from rooflab.cachesim.sets.set_vectors import EMPTY

_KEPT: list[Any] = []  # machine code lives as long as what compiled it


@njit(**INLINED)
def _by_mask(level, line):
    return line & load(level, MASK)


@njit(**INLINED)
def _by_division(level, line):
    return line % load(level, SETS)


def _make_read_last(kind: Kind) -> Any:
    """Compiled `read(level, line, shift, offset)` of the last level."""
    use, set_of = ordered_set(kind.ways, kind.bits).use, _by_mask if kind.masked else _by_division

    @Named(f"plain last {kind.tag}").inlined
    def read(level, line, shift, offset):
        # Hit or miss is hard to foresee at the last level, and no next level needs to know: no branch.
        row = load(level, COUNTS) + offset
        old = use(load(level, TAGS), set_of(level, line), line << 1)
        add(row, HITS if old == FOUND else MISSES, 1)
        if old & 1:
            add(row, WRITEBACKS, 1)
            add(row, WRITE_BYTES, 1 << shift)
        elif old == EMPTY:
            add(row, COLD, 1)

    return read


def _make_evict(name: str, write_next: Any) -> Any:
    """Compiled `evict(level, row, old, shift, offset)`: what entry `old`, evicted from a level, counts as.

    `write_next` is None at the last level.
    """

    @Named(name).inlined
    def evict(level, row, old, shift, offset):
        if old < 0:
            add(row, COLD, 1)
        elif old & 1:
            add(row, WRITEBACKS, 1)
            add(row, WRITE_BYTES, 1 << shift)
            if write_next is not None:
                write_next(load(level, NEXT_LEVEL), old >> 1, shift, offset)

    return evict


def _make_next_level(kinds: tuple[Kind, ...]) -> tuple[Any, Any]:
    """Compiled `read(level, line, shift, offset)` and `write(…)` of a level after the first, and of all later."""
    named, last, (ways, bits, masked) = Named(name_of(kinds)), len(kinds) == 1, kinds[0]
    matching, renew, push, _ = ordered_set(ways, bits)
    set_of = _by_mask if masked else _by_division
    next_level: tuple[Any, Any] = (None, None) if last else _make_next_level(kinds[1:])
    read_next, write_next = next_level
    evict = _make_evict(name_of(kinds), write_next)

    @named.inlined
    def read(level, line, shift, offset):
        tags, index, row = load(level, TAGS), set_of(level, line), load(level, COUNTS) + offset
        matched = matching(tags, index, line << 1)
        if matched:
            renew(tags, index, matched, 0)
            add(row, HITS, 1)
            return
        old = push(tags, index, line << 1)
        add(row, MISSES, 1)
        read_next(load(level, NEXT_LEVEL), line, shift, offset)
        evict(level, row, old, shift, offset)

    @named.part
    def write(level, line, shift, offset):
        # A whole line comes in: there is nothing to read.
        tags, index, row = load(level, TAGS), set_of(level, line), load(level, COUNTS) + offset
        matched = matching(tags, index, line << 1)
        if matched:
            renew(tags, index, matched, 1)
            add(row, HITS, 1)
            return
        old = push(tags, index, line << 1 | 1)
        add(row, MISSES, 1)
        add(row, READ_BYTES, -(1 << shift))
        evict(level, row, old, shift, offset)

    return (_make_read_last(kinds[0]) if last else read), write


def _make_first(kinds: tuple[Kind, ...]) -> Any:
    last, (ways, bits, _) = len(kinds) == 1, kinds[0]
    matching, renew, push, _ = ordered_set(ways, bits)
    next_level: tuple[Any, Any] = (None, None) if last else _make_next_level(kinds[1:])
    read_next, write_next = next_level
    evict = _make_evict(f"first {name_of(kinds)}", write_next)

    def through(level, address, nbytes, request, reference):
        if bits > NARROW and request > STORE:
            return call(load(level, GENERAL_CALL), level, address, nbytes, request, reference)
        shift, offset = load(level, UNIT_SHIFT), reference * ROW_BYTES
        line, row = address >> shift, load(level, COUNTS) + offset
        tags, index = load(level, TAGS), line & load(level, MASK)
        matched = matching(tags, index, line << 1)
        if matched:
            entry = renew(tags, index, matched, request)
            if bits > NARROW:
                store(load(level, LAST_LINES), index, entry)
            add(row, HITS, 1)
            return 0
        entry = line << 1 | request
        old = push(tags, index, entry)
        if bits > NARROW:
            store(load(level, LAST_LINES), index, entry)
        add(row, MISSES, 1)
        if not last:
            read_next(load(level, NEXT_LEVEL), line, shift, offset)
        evict(level, row, old, shift, offset)
        return 0

    return Named(name_of(kinds)).name(through)


@functools.cache
def address_of(kinds: tuple[Kind, ...]) -> int:
    """The address of the compiled function that answers a request to the first of levels of those kinds."""
    compiled = callback(CALL_SIGNATURE, _make_first(kinds), name_of(kinds))
    _KEPT.append(compiled)
    return native_address(compiled)
