"""What a profile of optimised code calls: a branch predictor, and a table of what was stored last and where.

The predictor is a small TAGE (Seznec and Michaud, "A case for (partially) TAgged GEometric history length branch
prediction", 2006): a table of two-bit counters and four tagged ones, chosen by 8, 24, 64 and 128 bits of history.
Its tables are so large that of 16,384 branches at random which come round it misses 3 in 100, 9 of 32,768, 21 of
65,536 and 39 of 131,072: a Zen 4 1, 2, 23 and 38 (measured, a loop over bytes). What no history foretells, all
miss as often.

A warm run is one of several on the same data, of which a predictor keeps what its tables hold: what a short run
asks is noted, and asked again until little more is learnt.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit

from rooflab.cachesim.native.compile import OPTIONS
from rooflab.cachesim.native.words import add, load, shift_right, store

AGED = 1 << 17  # branches after which each entry of the tagged tables has been of less use, as in TAGE
# The predictor's state, in words: history, what was asked so far, then the tables.
HISTORY, ASKED, OLDER, ROOM, NOTED, BASE = 0, 1, 2, 3, 4, 8
# ROOM: how many branches are noted, from address NOTED on: a word each, its number << 1 | whether it was taken
TABLE_BITS = 15
ENTRIES = 1 << TABLE_BITS
# plain counters; of each tagged table an entry is tag << 8 | useful << 4 | counter + 4
TABLES = 4  # tagged ones, by more and more history
STATE_WORDS = BASE + (1 + TABLES) * ENTRIES
MOST_ASKED = 20_000_000  # branches that are simulated; shares of the rest are taken as equal
# Of a run of no more branches it is simulated what runs after it miss: so many, the last of which counts. Of
# 16,384 at random that come round, a Zen 4 misses in later and later runs 23, 9, 8 and 3 of a hundred, at last 1.
MOST_AGAIN, AGAIN = 2_000_000, 4
# What is kept of each branch: how often it was simulated, taken, mispredicted.
SIMULATED, TAKEN, MISSED, BRANCH_WORDS = 0, 1, 2, 4


def _index(number, history, older, table):
    masked = history & 0xFF if table == 1 else history & 0xFFFFFF if table == 2 else history
    mixed = (number * 0x9E3779B1) ^ (masked * 0x2545F491)
    if table == TABLES:
        mixed ^= older * 0x5851F42D
    return (mixed ^ shift_right(mixed, 15) ^ shift_right(mixed, 33)) & 0x7FFFFFFFFFFF


_mixed = njit(**OPTIONS)(_index)


def _branch(state, notes, number, taken):
    """Predict branch `number`, see whether it was `taken`, and learn from it."""
    asked = load(state, ASKED)
    if asked >= MOST_ASKED:
        return
    store(state, ASKED, asked + 1)
    if asked < load(state, ROOM):
        store(load(state, NOTED), asked, number << 1 | (1 if taken != 0 else 0))
    if asked % AGED == AGED - 1:
        for entry in range(BASE + ENTRIES, STATE_WORDS):
            word = load(state, entry)
            if (word >> 4) & 3 != 0:
                store(state, entry, word - 16)
    history, older = load(state, HISTORY), load(state, OLDER)
    row = notes + 8 * BRANCH_WORDS * number
    add(row, SIMULATED, 1)
    if taken != 0:
        add(row, TAKEN, 1)
    plain = state + 8 * (BASE + (number & (ENTRIES - 1)))
    guess = load(plain, 0) >= 0
    provider = 0
    where = plain
    for table in range(1, TABLES + 1):
        mixed = _mixed(number, history, older, table)
        entry = state + 8 * (BASE + table * ENTRIES + (mixed & (ENTRIES - 1)))
        word = load(entry, 0)
        if word != 0 and (word >> 8) == ((mixed >> TABLE_BITS) & 0xFFFF) + 1:
            provider, where = table, entry
            guess = (word & 15) >= 4
    missed = guess != (taken != 0)
    if missed:
        add(row, MISSED, 1)
    if provider == 0:
        value = load(plain, 0) + (1 if taken != 0 else -1)
        store(plain, 0, min(1, max(-2, value)))
    else:
        word = load(where, 0)
        value = min(7, max(0, (word & 15) + (1 if taken != 0 else -1)))
        useful = min(3, max(0, ((word >> 4) & 3) + (-1 if missed else 1)))
        store(where, 0, (word >> 8 << 8) | useful << 4 | value)
    if missed and provider < TABLES:
        for table in range(provider + 1, TABLES + 1):
            mixed = _mixed(number, history, older, table)
            entry = state + 8 * (BASE + table * ENTRIES + (mixed & (ENTRIES - 1)))
            word = load(entry, 0)
            if word == 0 or (word >> 4) & 3 == 0:
                store(entry, 0, (((mixed >> TABLE_BITS) & 0xFFFF) + 1) << 8 | (4 if taken != 0 else 3))
                break
            store(entry, 0, word - 16)
    store(state, HISTORY, history << 1 | (1 if taken != 0 else 0))
    store(state, OLDER, older << 1 | (shift_right(history, 63) & 1))


# The table of stores: an entry is (address + 1, number of the store, pass of its loop).
STORES_BITS = 12
STORE_WORDS = 3 << STORES_BITS
# What is kept of each load: how often it found what was stored a few passes before, the sum of how many, by whom.
FOUND, DISTANCE, STORED_BY, LOOKED, LOAD_WORDS = 0, 1, 2, 3, 4
FAR_PASSES = 8  # what was stored earlier than so many passes before has left the core


def _stored(table, number, address, now):
    """Note that store `number` wrote to `address` in pass `now` of its loop."""
    entry = table + 24 * ((address >> 2) & ((1 << STORES_BITS) - 1))
    store(entry, 0, address + 1)
    store(entry, 1, number)
    store(entry, 2, now)


def _loaded(table, notes, number, address, now):
    """Note whether load `number` finds at `address` what was stored a few passes before `now`."""
    row = notes + 8 * LOAD_WORDS * number
    add(row, LOOKED, 1)
    entry = table + 24 * ((address >> 2) & ((1 << STORES_BITS) - 1))
    if load(entry, 0) == address + 1:
        passes = now - load(entry, 2)
        if 0 <= passes <= FAR_PASSES:
            add(row, FOUND, 1)
            add(row, DISTANCE, passes)
            store(row, STORED_BY, load(entry, 1))


BRANCH: tuple[Callable[..., Any], int, bool] = (_branch, 4, False)
STORED: tuple[Callable[..., Any], int, bool] = (_stored, 4, False)
LOADED: tuple[Callable[..., Any], int, bool] = (_loaded, 5, False)
