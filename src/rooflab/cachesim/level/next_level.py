"""What a level asks of the level behind it: units that it reads, bytes that it writes, lines that it displaced."""

from __future__ import annotations

from numba import njit

from rooflab.cachesim.native.compile import INLINED, OPTIONS
from rooflab.cachesim.native.layout import (
    BEFORE_VICTIM,
    FLAGS,
    INCLUSIVE,
    INVALIDATE,
    LOAD,
    NEAR,
    NEAR_CALL,
    NEXT,
    NEXT_CALL,
    PREFETCH,
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
def hand_on(level, address, nbytes, request, reference):
    """Hand a request on to the level behind; the memory takes everything."""
    following = load(level, NEXT)
    if following == 0:
        return 0
    return call(load(level, NEXT_CALL), following, address, nbytes, request, reference)


@njit(**INLINED)
def fetch(level, row, address, request, reference):
    """Read the unit that holds `address`; whether it came dirty."""
    bits = load(level, UNIT_SHIFT)
    add(row, READ_BYTES, 1 << bits)
    wanted = LOAD if request <= STORE else PREFETCH
    return hand_on(level, address >> bits << bits, 1 << bits, wanted, reference)


@njit(**INLINED)
def send(level, row, address, nbytes, request, reference):
    """Write `nbytes`."""
    add(row, WRITE_BYTES, nbytes)
    hand_on(level, address, nbytes, request, reference)


@njit(**OPTIONS)
def displaced(level, row, entry, reference):
    """A line has left for another: take it from nearer levels that this one includes, write back what is dirty.

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
        dirty |= call(load(level, NEAR_CALL), load(level, NEAR), base, 1 << shift, INVALIDATE, tagged)
    if dirty:
        add(row, WRITEBACKS, 1)
    elif flags & BEFORE_VICTIM:
        send(level, row, base, 1 << shift, VICTIM, reference)
    while dirty:
        sector = count_bits((dirty & -dirty) - 1)
        send(level, row, base + (sector << bits), 1 << bits, WRITEBACK, reference)
        dirty &= dirty - 1
