"""Kinds of miss: compulsory where the unit was never asked for, capacity where full associativity would miss too.

The rest are conflicts. A function of its own, called by address: it is compiled where misses are told apart.
"""

from __future__ import annotations

import functools
from typing import Any

from numba import njit

from rooflab.cachesim.native.compile import OPTIONS, callback, native_address
from rooflab.cachesim.native.layout import CAPACITY, COMPULSORY, COUNTER_WORDS, COUNTS, SEEN, SHADOW, UNIT_SHIFT
from rooflab.cachesim.native.words import CALL_SIGNATURE, WORD, add, load, shift_right, store
from rooflab.cachesim.sets import hashed_sets


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


def _classify(level, address, hit, counted, reference):
    """Note a request to `level`, whether it was a `hit` and is `counted`; where it is a miss, count its kind."""
    row = load(level, COUNTS) + reference * (COUNTER_WORDS * WORD)
    unit, shadow = shift_right(address, load(level, UNIT_SHIFT)), load(level, SHADOW)
    at = hashed_sets.find(shadow, 0, unit)
    if at >= 0:
        hashed_sets.touch_newest(shadow, 0, at, 0)
    else:
        hashed_sets.insert(shadow, 0, unit << 1, 0)
    if counted:
        first = first_sight(load(level, SEEN), unit)
        if first and not hit:
            add(row, COMPULSORY, 1)
        elif at < 0 and not hit:
            add(row, CAPACITY, 1)
    return 0


@functools.cache
def _compiled() -> Any:
    return callback(CALL_SIGNATURE, _classify, "kind of miss")


def classify_address() -> int:
    """The address of the compiled function that tells misses apart."""
    return native_address(_compiled())
