"""Lines that leave a level without being evicted: invalidated, passed by a store, handed to the previous level."""

from __future__ import annotations

from typing import Any, NamedTuple

from rooflab.cachesim.level.last_line import forget
from rooflab.cachesim.level.next_level import send
from rooflab.cachesim.native.compile import Named
from rooflab.cachesim.native.layout import (
    COUNTER_WORDS,
    COUNTS,
    FIRST,
    FLAGS,
    INVALIDATE,
    INVALIDATIONS,
    PREVIOUS_CALL,
    PREVIOUS_LEVEL,
    SECTORED,
    SECTORS,
    SHIFT,
    STREAM,
    TAGS,
    UNIT_SHIFT,
    WRITE_BYTES,
)
from rooflab.cachesim.native.words import WORD, add, call, count_bits, load, shift_right
from rooflab.cachesim.sets.addressing import set_of
from rooflab.cachesim.sets.policies import Policy


class Invalidation(NamedTuple):
    """Compiled functions of a level.

    remove_line(level, line, set, place): the dirty sectors (or the dirty bit) of a line that leaves.
    invalidate(level, address, nbytes, tagged): lines that the next level no longer holds; a bit for each of their
        dirty units, in units of that level. `tagged` is the reference and, from bit 32 on, log2 of that unit.
    stream(level, row, address, nbytes, reference): a non-temporal store: the line leaves every level, its dirty
        bytes flow along to main memory.
    """

    remove_line: Any
    invalidate: Any
    stream: Any


def make_invalidation(policy: Policy, named: Named) -> Invalidation:
    """Those of a level with `policy`."""
    find, remove = policy.find, policy.remove

    @named.part
    def remove_line(level, line, index, place):
        flags = load(level, FLAGS)
        dirty = load(load(level, TAGS), place) & 1
        if flags & SECTORED:
            dirty = load(load(level, SECTORS), place) >> 32
        remove(level, index, place)
        if flags & FIRST:
            forget(level, line << load(level, SHIFT))
        return dirty

    @named.part
    def invalidate(level, address, nbytes, tagged):
        reference, far_shift, shift = tagged & 0xFFFFFFFF, tagged >> 32, load(level, SHIFT)
        row = load(level, COUNTS) + reference * (COUNTER_WORDS * WORD)
        mask = 0
        if load(level, PREVIOUS_LEVEL):
            mask = call(
                load(level, PREVIOUS_CALL), load(level, PREVIOUS_LEVEL), address, nbytes, INVALIDATE, tagged
            )
        for line in range(address >> shift, (address + nbytes) >> shift):
            index = set_of(level, line)
            place = find(level, index, line)
            if place >= 0:
                add(row, INVALIDATIONS, 1)
                dirty, bits = remove_line(level, line, index, place), load(level, UNIT_SHIFT)
                while dirty:
                    at = (line << shift) + (count_bits((dirty & -dirty) - 1) << bits)
                    mask |= 1 << ((at - address) >> far_shift)
                    dirty &= dirty - 1
        add(row, WRITE_BYTES, count_bits(mask) << far_shift)
        return mask

    @named.part
    def stream(level, row, address, nbytes, reference):
        line = shift_right(address, load(level, SHIFT))
        index = set_of(level, line)
        place = find(level, index, line)
        if place >= 0:
            add(row, INVALIDATIONS, 1)
            nbytes += count_bits(remove_line(level, line, index, place)) << load(level, UNIT_SHIFT)
        send(level, row, address, nbytes, STREAM, reference)
        return 0

    return Invalidation(remove_line, invalidate, stream)
