"""What a level does with a request: two compiled functions per number of ways and policy, all else run-time flags.

    level(descriptor, address, nbytes, request, reference) → whether a line came back dirty

A request never crosses a unit (a line, or a sector of one) of the level that gets it. A miss reads the unit
from the next level first, then evicts a line, then writes that back; prefetches come last. Here is that flow;
its parts are in `next_level` (what goes there), `invalidation`, `prefetchers`, `miss_kinds`.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from numba import njit

from rooflab.cachesim.level import last_line
from rooflab.cachesim.level.invalidation import make_invalidation
from rooflab.cachesim.level.next_level import ask_next_level, fetch, finish_eviction, send
from rooflab.cachesim.level.prefetchers import make_prefetchers
from rooflab.cachesim.native.compile import INLINED, Named, callback, native_address
from rooflab.cachesim.native.layout import (
    ADJACENT,
    ALLOCATE,
    BEFORE_VICTIM,
    CHANGES,
    CLASSIFIED,
    CLASSIFY_CALL,
    COLD,
    COUNTER_WORDS,
    COUNTS,
    EVICTIONS,
    EXCLUSIVE,
    FLAGS,
    GENERAL_CALL,
    HITS,
    INCLUSIVE,
    INVALIDATE,
    LOAD,
    MISSES,
    NEXT_LINE,
    NOTES_LAST_LINE,
    PREFETCH,
    READ_BYTES,
    SECTORED,
    SECTORS,
    SHIFT,
    STORE,
    STREAM,
    STRIDE,
    UNIT_SHIFT,
    VICTIM,
    WRITE_BACK,
    WRITE_VALIDATE,
    WRITEBACK,
)
from rooflab.cachesim.native.words import CALL_SIGNATURE, WORD, add, call, load, shift_right, store
from rooflab.cachesim.sets import policies
from rooflab.cachesim.sets.addressing import is_valid, sector_bit, set_of

_PREFETCHING = NEXT_LINE | ADJACENT | STRIDE
_SPECIAL = SECTORED | EXCLUSIVE | CLASSIFIED | WRITE_VALIDATE | _PREFETCHING
_STAYS = WRITE_BACK | ALLOCATE  # what a store needs to end in this level
_KEPT: list[Any] = []  # machine code lives as long as what compiled it


@njit(**INLINED)
def _count(level, row, hit):
    if hit:
        add(row, HITS, 1)
        return
    add(row, MISSES, 1)
    # A miss stands for a read and an eviction: in the general function these are counted where they happen.
    add(row, EVICTIONS, -1)
    add(row, READ_BYTES, -(1 << load(level, UNIT_SHIFT)))


@njit(**INLINED)
def _is_read_first(level, nbytes, request, flags):
    # Whether what comes to a unit that is not here leaves something of it to be read.
    if request == VICTIM or (request == WRITEBACK and nbytes >> load(level, UNIT_SHIFT) != 0):
        return False
    return flags & WRITE_VALIDATE == 0 or request in (LOAD, PREFETCH)


def _make_hit(policy: policies.Policy, named: Named) -> Any:
    touch = policy.touch

    @named.inlined
    def on_hit(level, index, place, address, request, flags):
        dirty = 1 if flags & WRITE_BACK and request in (STORE, WRITEBACK) else 0
        entry = touch(level, index, place, dirty)
        if flags & SECTORED:
            # The dirty bit of the entry is the line's, not the sector's.
            entry = 0
        last_line.note(level, flags, address, request, entry & 1)

    return on_hit


def _make_fill(policy: policies.Policy, named: Named) -> Any:
    find, touch, insert = policy.find, policy.touch, policy.insert

    @named.part
    def fill(level, row, address, nbytes, request, reference, flags):
        # The unit is not here: read it, make room, write back what left.
        dirty = 0
        if _is_read_first(level, nbytes, request, flags):
            dirty = fetch(level, row, address, request, reference)
        if flags & WRITE_BACK and request in (STORE, WRITEBACK):
            dirty = 1
        line, sectors = shift_right(address, load(level, SHIFT)), 0
        # Only now: the next level may have invalidated lines.
        index, place = set_of(level, line), -1
        if flags & SECTORED:
            bit = sector_bit(level, address)
            sectors = bit | (bit << 32 if dirty else 0)
            place = find(level, index, line)
        if place >= 0:
            all_sectors = load(level, SECTORS)
            store(all_sectors, place, load(all_sectors, place) | sectors)
            touch(level, index, place, dirty)
            last_line.note(level, flags, address, request, dirty)
            return
        old = insert(level, index, line << 1 | dirty, sectors)
        last_line.note(level, flags, address, request, dirty)
        if old >= 0:
            add(row, EVICTIONS, 1)
            finish_eviction(level, row, old, reference)

    return fill


def _make_general(policy: policies.Policy, named: Named) -> Any:
    """What a level of that policy does with any request, whatever its flags are."""
    find, on_hit, fill = policy.find, _make_hit(policy, named), _make_fill(policy, named)
    remove_line, invalidate, stream = make_invalidation(policy, named)
    prefetch = make_prefetchers(policy, named)

    def general(level, address, nbytes, request, reference):
        row = load(level, COUNTS) + reference * (COUNTER_WORDS * WORD)
        if request == INVALIDATE:
            return invalidate(level, address, nbytes, reference)
        if request == STREAM:
            return stream(level, row, address, nbytes, reference)
        flags = load(level, FLAGS)
        line = shift_right(address, load(level, SHIFT))
        index = set_of(level, line)
        place = find(level, index, line)
        hit, writes = is_valid(level, place, address), request in (STORE, WRITEBACK)
        # What an exclusive level is filled by is no request that could hit.
        counted = request <= STORE or (request == WRITEBACK and flags & EXCLUSIVE == 0)
        if counted:
            _count(level, row, hit)
        if flags & CLASSIFIED and (request <= STORE or request == WRITEBACK):
            call(load(level, CLASSIFY_CALL), level, address, 1 if hit else 0, 1 if counted else 0, reference)
        if flags & EXCLUSIVE and request in (LOAD, PREFETCH):
            if hit:
                return remove_line(level, line, index, place)
            return fetch(level, row, address, request, reference)
        kept = hit or not writes
        if not kept and flags & ALLOCATE:
            kept = request == WRITEBACK or flags & EXCLUSIVE == 0
        if hit:
            if flags & SECTORED and writes and flags & WRITE_BACK:
                sectors = load(level, SECTORS)
                store(sectors, place, load(sectors, place) | sector_bit(level, address) << 32)
            on_hit(level, index, place, address, request, flags)
        elif kept:
            add(level, CHANGES, 1)
            fill(level, row, address, nbytes, request, reference, flags)
        elif flags & CLASSIFIED and flags & NOTES_LAST_LINE:
            # It changes nothing here, but is now the newest where misses are classified.
            last_line.forget(level, address)
        if writes and (not kept or flags & WRITE_BACK == 0):
            add(level, CHANGES, 1)
            send(level, row, address, nbytes, request, reference)
        if flags & _PREFETCHING and request <= STORE:
            prefetch(level, row, address, hit, reference)
        return 0

    return named.name(general)


def _make_plain(policy: policies.Policy, named: Named) -> Any:
    """What a level of that policy does with a load, or a store or write-back that ends in it: the common case."""
    find, touch, insert = policy.find, policy.touch, policy.insert

    def answer(level, address, nbytes, request, reference):
        flags, bits = load(level, FLAGS), load(level, UNIT_SHIFT)
        writes = 0 if request == LOAD else 1
        written_back = request == WRITEBACK and nbytes >> bits != 0
        if flags & _SPECIAL or (writes and (flags & _STAYS != _STAYS or not (request == STORE or written_back))):
            return call(load(level, GENERAL_CALL), level, address, nbytes, request, reference)
        row = load(level, COUNTS) + reference * (COUNTER_WORDS * WORD)
        line = shift_right(address, load(level, SHIFT))
        index = set_of(level, line)
        place = find(level, index, line)
        if place >= 0:
            add(row, HITS, 1)
            last_line.note(level, flags, address, request, touch(level, index, place, writes) & 1)
            return 0
        add(row, MISSES, 1)
        dirty = writes
        if written_back:
            add(row, READ_BYTES, -(1 << bits))  # a whole unit comes in: there is nothing to read
        else:
            dirty |= ask_next_level(level, address >> bits << bits, 1 << bits, LOAD, reference)
        old = insert(level, index, line << 1 | dirty, 0)
        last_line.note(level, flags, address, request, dirty)
        if old < 0:
            add(row, COLD, 1)
        elif old & 1 or flags & (INCLUSIVE | BEFORE_VICTIM):
            finish_eviction(level, row, old, reference)
        return 0

    return named.name(answer)


class Compiled(NamedTuple):
    """The addresses of a level's two functions: for plain loads and stores, and for everything."""

    address: int
    general: int


@functools.cache
def compiled_level(kind: str, ways: int) -> Compiled:
    """The compiled functions of a level of that policy and number of ways; they stay in memory."""
    if ways > policies.WIDEST and kind in ("lru", "fifo"):
        ways = policies.WIDEST + 1  # hashed sets: one function for all widths
    name, policy = f"{kind} {ways}", policies.make(kind, ways)
    plain, general = _make_plain(policy, Named(name)), _make_general(policy, Named(name))
    callbacks = (
        callback(CALL_SIGNATURE, plain, f"level {name}"),
        callback(CALL_SIGNATURE, general, f"general {name}"),
    )
    _KEPT.extend(callbacks)
    return Compiled(*(native_address(each) for each in callbacks))
