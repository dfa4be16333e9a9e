"""What a level asks of the next one: units that it reads, bytes that it writes, lines that it evicted."""

from __future__ import annotations

from numba import njit

from rooflab.cachesim.native.compile import INLINED, OPTIONS
from rooflab.cachesim.native.layout import (
    BEFORE_VICTIM,
    FLAGS,
    INCLUSIVE,
    INVALIDATE,
    LOAD,
    NEXT_CALL,
    NEXT_LEVEL,
    PREFETCH,
    PREVIOUS_CALL,
    PREVIOUS_LEVEL,
    READ_BYTES,
    SCRATCH,
    SECTORED,
    SHIFT,
    STORE,
    UNIT_SHIFT,
    VICTIM,
    WRITE_BYTES,
    WRITEBACK,
    WRITEBACKS,
)
from rooflab.cachesim.native.words import add, call, count_bits, load


@njit(**INLINED)
def ask_next_level(level, address, nbytes, request, reference):
    """Hand a request to the next level; main memory takes everything."""
    following = load(level, NEXT_LEVEL)
    if following == 0:
        return 0
    return call(load(level, NEXT_CALL), following, address, nbytes, request, reference)


@njit(**INLINED)
def fetch(level, row, address, request, reference):
    """Read the unit that holds `address`; whether it came dirty."""
    bits = load(level, UNIT_SHIFT)
    add(row, READ_BYTES, 1 << bits)
    wanted = LOAD if request <= STORE else PREFETCH
    return ask_next_level(level, address >> bits << bits, 1 << bits, wanted, reference)


@njit(**INLINED)
def send(level, row, address, nbytes, request, reference):
    """Write `nbytes`."""
    add(row, WRITE_BYTES, nbytes)
    ask_next_level(level, address, nbytes, request, reference)


@njit(**OPTIONS)
def finish_eviction(level, row, entry, reference):
    """A line was evicted for another: invalidate it in levels that this one includes, write back what is dirty.

    The sectors of `entry`, where there are any, are in SCRATCH.
    """
    flags, shift = load(level, FLAGS), load(level, SHIFT)
    base = entry >> 1 << shift
    # One bit for the line, or one for each sector, which is then what is written.
    dirty, bits = entry & 1, shift
    if flags & SECTORED:
        dirty, bits = load(level, SCRATCH) >> 32, load(level, UNIT_SHIFT)
    if flags & INCLUSIVE:
        tagged = reference | load(level, UNIT_SHIFT) << 32
        dirty |= call(
            load(level, PREVIOUS_CALL), load(level, PREVIOUS_LEVEL), base, 1 << shift, INVALIDATE, tagged
        )
    if dirty:
        add(row, WRITEBACKS, 1)
    elif flags & BEFORE_VICTIM:
        send(level, row, base, 1 << shift, VICTIM, reference)
    while dirty:
        sector = count_bits((dirty & -dirty) - 1)
        send(level, row, base + (sector << bits), 1 << bits, WRITEBACK, reference)
        dirty &= dirty - 1
