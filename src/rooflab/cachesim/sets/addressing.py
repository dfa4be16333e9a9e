"""Where an address lies in a level: its set, its sector, and whether that sector is there."""

from __future__ import annotations

from numba import njit

from rooflab.cachesim.native.compile import INLINED, OPTIONS
from rooflab.cachesim.native.layout import (
    FLAGS,
    FOLD_BITS,
    MASK,
    SECTORED,
    SECTORS,
    SETS,
    SHIFT,
    UNIT_SHIFT,
    XOR_INDEX,
)
from rooflab.cachesim.native.words import load, shift_right


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


@njit(**OPTIONS)
def sector_bit(level, address):
    """The bit of the sector that `address` lies in."""
    within = address & ((1 << load(level, SHIFT)) - 1)
    return 1 << (within >> load(level, UNIT_SHIFT))


@njit(**INLINED)
def is_valid(level, place, address):
    """Whether the unit of `address` is there, where its line was found at `place` (−1: nowhere)."""
    if place < 0 or load(level, FLAGS) & SECTORED == 0:
        return place >= 0
    return load(load(level, SECTORS), place) & sector_bit(level, address) != 0
