"""What a level does with a request: one compiled function per number of ways and policy, all else run-time flags.

    level(descriptor, address, nbytes, request, reference) → whether a line came back dirty

A request never crosses a unit (a line, or a sector of one) of the level that gets it. A miss reads the unit
from behind first, then displaces a line, then writes that back; prefetches come last.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from numba import njit

from rooflab.cachesim import lists, policies
from rooflab.cachesim.compiled import INLINED, OPTIONS, Named, callback, native_address
from rooflab.cachesim.layout import (
    ADJACENT,
    AHEAD,
    ALLOCATE,
    BEFORE_VICTIM,
    CAPACITY,
    CHANGES,
    CLASSIFIED,
    COLD,
    COMPULSORY,
    CONFIDENT,
    COUNTER_WORDS,
    COUNTS,
    EVICTIONS,
    EXCLUSIVE,
    FIRST,
    FLAGS,
    FOLD_BITS,
    GENERAL_CALL,
    HITS,
    INCLUSIVE,
    INVALIDATE,
    INVALIDATIONS,
    LOAD,
    MASK,
    MEMO,
    MEMOIZED,
    MISSES,
    NEAR,
    NEAR_CALL,
    NEXT,
    NEXT_CALL,
    NEXT_LINE,
    PAGE_SHIFT,
    PREFETCH,
    PREFETCHES,
    READ_BYTES,
    SCRATCH,
    SECTORED,
    SECTORS,
    SEEN,
    SELF_CALL,
    SETS,
    SHADOW,
    SHIFT,
    SLOT_MASK,
    SLOT_SHIFT,
    STORE,
    STREAM,
    STRIDE,
    STRIDE_ENTRIES,
    STRIDE_WORDS,
    STRIDES,
    TAGS,
    UNIT_SHIFT,
    VICTIM,
    WRITE_BACK,
    WRITE_BYTES,
    WRITE_VALIDATE,
    WRITEBACK,
    WRITEBACKS,
    XOR_INDEX,
)
from rooflab.cachesim.memory import CALL_SIGNATURE, WORD, add, call, count_bits, load, shift_right, store

PLAIN = WRITE_BACK | ALLOCATE
_KEPT: list[Any] = []  # machine code lives as long as what compiled it
SPECIAL = SECTORED | EXCLUSIVE | CLASSIFIED | NEXT_LINE | ADJACENT | STRIDE | WRITE_VALIDATE


@njit(**OPTIONS)
def set_of(level, line):
    """The set that `line` belongs to."""
    mask = load(level, MASK)
    if mask >= 0:
        return line & mask
    folded, rest = line, line
    if load(level, FLAGS) & XOR_INDEX:
        bits = load(level, FOLD_BITS)
        rest = shift_right(rest, bits)
        while rest:
            folded ^= rest
            rest = shift_right(rest, bits)
    return folded % load(level, SETS)


@njit(**INLINED)
def behind(level, address, nbytes, request, reference):
    """Hand a request on to the level behind; the memory takes everything."""
    following = load(level, NEXT)
    if following == 0:
        return 0
    return call(load(level, NEXT_CALL), following, address, nbytes, request, reference)


@njit(**INLINED)
def fetch(level, row, address, request, reference):
    """Read the unit that holds `address` from behind; whether it came dirty."""
    bits = load(level, UNIT_SHIFT)
    add(row, READ_BYTES, 1 << bits)
    wanted = LOAD if request <= STORE else PREFETCH
    return behind(level, address >> bits << bits, 1 << bits, wanted, reference)


@njit(**OPTIONS)
def send(level, row, address, nbytes, request, reference):
    """Write `nbytes` to the level behind."""
    add(row, WRITE_BYTES, nbytes)
    behind(level, address, nbytes, request, reference)


@njit(**OPTIONS)
def sector_bit(level, address):
    """The bit of the sector that `address` lies in."""
    within = address & ((1 << load(level, SHIFT)) - 1)
    return 1 << (within >> load(level, UNIT_SHIFT))


@njit(**OPTIONS)
def send_sectors(level, row, base, mask, request, reference):
    """Write each sector in `mask` of the line at `base` to the level behind."""
    bits = load(level, UNIT_SHIFT)
    while mask:
        sector = count_bits((mask & -mask) - 1)
        send(level, row, base + (sector << bits), 1 << bits, request, reference)
        mask &= mask - 1


@njit(**OPTIONS)
def evicted(level, row, entry, sectors, reference):
    """A line has left for another: take it from nearer levels where this one includes them, write it back."""
    flags, shift = load(level, FLAGS), load(level, SHIFT)
    base = entry >> 1 << shift
    dirty = sectors >> 32 if flags & SECTORED else entry & 1
    if flags & INCLUSIVE:
        tagged = reference | load(level, UNIT_SHIFT) << 32
        dirty |= call(load(level, NEAR_CALL), load(level, NEAR), base, 1 << shift, INVALIDATE, tagged)
    if dirty:
        add(row, WRITEBACKS, 1)
        if flags & SECTORED:
            send_sectors(level, row, base, dirty, WRITEBACK, reference)
        else:
            send(level, row, base, 1 << shift, WRITEBACK, reference)
    elif flags & BEFORE_VICTIM:
        send(level, row, base, 1 << shift, VICTIM, reference)


@njit(**OPTIONS)
def classify(level, row, address, hit, counted):
    """Compulsory where the unit was never asked for, capacity where full associativity would miss it too."""
    unit, shadow = shift_right(address, load(level, UNIT_SHIFT)), load(level, SHADOW)
    at = lists.find(shadow, 0, unit)
    if at >= 0:
        lists.touch_newest(shadow, 0, at, 0)
    else:
        lists.insert(shadow, 0, unit << 1, 0)
    if not counted:
        return
    first = first_sight(load(level, SEEN), unit)
    if not hit:
        if first:
            add(row, COMPULSORY, 1)
        elif at < 0:
            add(row, CAPACITY, 1)


@njit(**OPTIONS)
def first_sight(seen, key):
    """Whether `key` is new to the set at `seen` (words: mask, hash shift, used, then slots of key + 1)."""
    mask = load(seen, 0)
    slot = shift_right(key * -7046029254386353131, load(seen, 1))
    while True:
        held = load(seen, 3 + slot)
        if held == key + 1:
            return False
        if held == 0:
            store(seen, 3 + slot, key + 1)
            add(seen, 2, 1)
            return True
        slot = (slot + 1) & mask


@njit(**INLINED)
def memoize(level, flags, address, request, entry_dirty):
    """Note at the first level that one more access of this unit changes nothing (a prefetch undoes that)."""
    if flags & MEMOIZED:
        note = -1 if request == PREFETCH else address >> load(level, UNIT_SHIFT) << 1 | entry_dirty
        store(load(level, MEMO) + ((address >> load(level, SLOT_SHIFT)) & load(level, SLOT_MASK)), 0, note)


@njit(**OPTIONS)
def next_stride(level, address, reference):
    """The address that the stride prefetcher asks for after this access, or −1."""
    entry = load(level, STRIDES) + (reference & (STRIDE_ENTRIES - 1)) * (STRIDE_WORDS * WORD)
    stride = address - load(entry, 0)
    store(entry, 0, address)
    confidence = load(entry, 2) + 1 if stride == load(entry, 1) else 0
    store(entry, 1, stride)
    store(entry, 2, confidence)
    if confidence < CONFIDENT or stride == 0:
        return -1
    return address + stride * load(level, AHEAD)


def make_level(policy: policies.Policy, tag: str) -> tuple[Any, Any]:
    """The plain functions (request, invalidate, stream) of a level with that policy, compiled as one."""
    find, touch, insert, remove, _ = policy
    named = Named(tag)

    @named.part
    def present(level, address):
        line = shift_right(address, load(level, SHIFT))
        place = find(level, set_of(level, line), line)
        if place < 0 or load(level, FLAGS) & SECTORED == 0:
            return place >= 0
        return load(load(level, SECTORS), place) & sector_bit(level, address) != 0

    @named.part
    def take_out(level, line, index, place):
        # The dirty sectors (or the dirty bit) of an entry that leaves without being displaced.
        flags = load(level, FLAGS)
        dirty = load(load(level, TAGS), place) & 1
        if flags & SECTORED:
            dirty = load(load(level, SECTORS), place) >> 32
        remove(level, index, place)
        if flags & FIRST:
            slot = (line << load(level, SHIFT) >> load(level, SLOT_SHIFT)) & load(level, SLOT_MASK)
            store(load(level, MEMO) + slot, 0, -1)
        return dirty

    @named.part
    def invalidate(level, address, nbytes, tagged):
        # Lines that a level behind no longer holds; returns their dirty units, in units of that level.
        reference, far_shift, shift = tagged & 0xFFFFFFFF, tagged >> 32, load(level, SHIFT)
        row = load(level, COUNTS) + reference * (COUNTER_WORDS * WORD)
        mask = 0
        if load(level, NEAR):
            mask = call(load(level, NEAR_CALL), load(level, NEAR), address, nbytes, INVALIDATE, tagged)
        for line in range(address >> shift, (address + nbytes) >> shift):
            index = set_of(level, line)
            place = find(level, index, line)
            if place >= 0:
                add(row, INVALIDATIONS, 1)
                dirty, bits = take_out(level, line, index, place), load(level, UNIT_SHIFT)
                while dirty:
                    at = (line << shift) + (count_bits((dirty & -dirty) - 1) << bits)
                    mask |= 1 << ((at - address) >> far_shift)
                    dirty &= dirty - 1
        add(row, WRITE_BYTES, count_bits(mask) << far_shift)
        return mask

    @named.part
    def stream(level, row, address, nbytes, reference):
        # A non-temporal store: the line leaves every level, its dirty bytes flow along to the memory.
        line = shift_right(address, load(level, SHIFT))
        index = set_of(level, line)
        place = find(level, index, line)
        if place >= 0:
            add(row, INVALIDATIONS, 1)
            nbytes += count_bits(take_out(level, line, index, place)) << load(level, UNIT_SHIFT)
        send(level, row, address, nbytes, STREAM, reference)
        return 0

    @named.part
    def prefetch(level, row, address, wanted, reference):
        # Into this level, where it is not there yet and lies in the same page as the access.
        if wanted >= 0 and wanted >> PAGE_SHIFT == address >> PAGE_SHIFT and not present(level, wanted):
            add(row, PREFETCHES, 1)
            bits = load(level, UNIT_SHIFT)
            call(load(level, SELF_CALL), level, wanted >> bits << bits, 1 << bits, PREFETCH, reference)

    @named.part
    def fill(level, row, address, nbytes, request, reference, flags):
        # The unit is not here: read it, make room, write back what left.
        index_line = shift_right(address, load(level, SHIFT))
        writes = request in (STORE, WRITEBACK)
        whole = request == VICTIM or (request == WRITEBACK and nbytes >> load(level, UNIT_SHIFT) != 0)
        unread = whole or (writes and flags & WRITE_VALIDATE != 0)
        dirty = 0 if unread else fetch(level, row, address, request, reference)
        if writes and flags & WRITE_BACK:
            dirty = 1
        index = set_of(level, index_line)
        if flags & SECTORED:
            bit = sector_bit(level, address)
            mine = bit | (bit << 32 if dirty else 0)
            place = find(level, index, index_line)
            if place >= 0:
                sectors = load(level, SECTORS)
                store(sectors, place, load(sectors, place) | mine)
                touch(level, index, place, dirty)
                memoize(level, flags, address, request, dirty)
                return
            old = insert(level, index, index_line << 1 | dirty, mine)
            memoize(level, flags, address, request, dirty)
            if old >= 0:
                add(row, EVICTIONS, 1)
                evicted(level, row, old, load(level, SCRATCH), reference)
            return
        old = insert(level, index, index_line << 1 | dirty, 0)
        memoize(level, flags, address, request, dirty)
        if old >= 0:
            add(row, EVICTIONS, 1)
            evicted(level, row, old, 0, reference)

    @named.part
    def special(level, row, address, nbytes, request, reference, hit, index, place, flags, counted):
        # Sectors, exclusive levels, classification: what a plain level does without. −1: go on.
        if flags & CLASSIFIED and (request <= STORE or request == WRITEBACK):
            classify(level, row, address, hit, counted)
        if flags & EXCLUSIVE and request in (LOAD, PREFETCH):
            if hit:
                return take_out(level, shift_right(address, load(level, SHIFT)), index, place)
            return fetch(level, row, address, request, reference)
        return -1

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
        hit = place >= 0
        if hit and flags & SECTORED:
            hit = load(load(level, SECTORS), place) & sector_bit(level, address) != 0
        # What an exclusive level is filled by is no request that could hit.
        counted = request <= STORE or (request == WRITEBACK and flags & EXCLUSIVE == 0)
        if counted and hit:
            add(row, HITS, 1)
        elif counted:
            add(row, MISSES, 1)
            # A miss stands for a read and an eviction: here they are counted where they happen.
            add(row, EVICTIONS, -1)
            add(row, READ_BYTES, -(1 << load(level, UNIT_SHIFT)))
        if flags & SPECIAL:
            done = special(level, row, address, nbytes, request, reference, hit, index, place, flags, counted)
            if done >= 0:
                return done
        writes = request in (STORE, WRITEBACK)
        allocates = flags & ALLOCATE != 0 and (request == WRITEBACK or flags & EXCLUSIVE == 0)
        kept = hit or not writes or allocates
        if hit:
            dirty = 1 if writes and (flags & WRITE_BACK) else 0
            if flags & SECTORED and dirty:
                sectors, bit = load(level, SECTORS), sector_bit(level, address)
                store(sectors, place, load(sectors, place) | bit << 32)
            entry = touch(level, index, place, dirty)
            if flags & MEMOIZED:
                if flags & SECTORED:
                    entry = 0  # the dirty bit is the line's, not the sector's
                memoize(level, flags, address, request, entry & 1)
        elif kept:
            add(level, CHANGES, 1)
            fill(level, row, address, nbytes, request, reference, flags)
        if writes and (not kept or flags & WRITE_BACK == 0):
            add(level, CHANGES, 1)
            send(level, row, address, nbytes, request, reference)
        if flags & (NEXT_LINE | ADJACENT | STRIDE) and request <= STORE:
            bits = load(level, UNIT_SHIFT)
            if flags & NEXT_LINE and not hit:
                prefetch(level, row, address, address + (1 << bits), reference)
            if flags & ADJACENT and not hit:
                prefetch(level, row, address, address ^ (1 << bits), reference)
            if flags & STRIDE:
                prefetch(level, row, address, next_stride(level, address, reference), reference)
        return 0

    def answer(level, address, nbytes, request, reference):
        flags = load(level, FLAGS)
        writes = 0 if request == LOAD else 1
        bits = load(level, UNIT_SHIFT)
        written_back = request == WRITEBACK and nbytes >> bits != 0
        if flags & SPECIAL or (writes and (flags & PLAIN != PLAIN or not (request == STORE or written_back))):
            return call(load(level, GENERAL_CALL), level, address, nbytes, request, reference)
        # The common case, kept short: nothing special, a load, or a store or write-back that stays here.
        row = load(level, COUNTS) + reference * (COUNTER_WORDS * WORD)
        line = shift_right(address, load(level, SHIFT))
        index = set_of(level, line)
        place = find(level, index, line)
        if place >= 0:
            add(row, HITS, 1)
            memoize(level, flags, address, request, touch(level, index, place, writes) & 1)
            return 0
        add(row, MISSES, 1)
        dirty = writes
        if written_back:
            add(row, READ_BYTES, -(1 << bits))  # a whole unit comes in: there is nothing to read
        else:
            dirty |= behind(level, address >> bits << bits, 1 << bits, LOAD, reference)
        old = insert(level, index, line << 1 | dirty, 0)
        memoize(level, flags, address, request, dirty)
        if old < 0:
            add(row, COLD, 1)
        elif old & 1 or flags & (INCLUSIVE | BEFORE_VICTIM):
            evicted(level, row, old, 0, reference)
        return 0

    return named.name(answer), named.name(general)


class Compiled(NamedTuple):
    """The addresses of a level's two functions: for plain loads and stores, and for everything."""

    address: int
    general: int


@functools.cache
def compiled_level(kind: str, ways: int) -> Compiled:
    """The compiled functions of a level of that policy and number of ways; they stay in memory."""
    if ways > policies.WIDEST and kind in ("lru", "fifo"):
        ways = policies.WIDEST + 1  # hashed sets: one function for all widths
    name = f"{kind} {ways}"
    plain, general = make_level(policies.make(kind, ways), name)
    made = callback(CALL_SIGNATURE, plain, f"level {name}"), callback(CALL_SIGNATURE, general, f"general {name}")
    _KEPT.extend(made)
    return Compiled(*(native_address(each) for each in made))
