"""What a profile of optimised code calls: a branch predictor, and a table of what was stored last and where.

The predictor is a TAGE (Seznec and Michaud, "A case for (partially) TAgged GEometric history length branch
prediction", 2006; Seznec, "TAGE-SC-L branch predictors again", 2016): a table of two-bit counters and five tagged
ones of 16,384 entries, chosen by the last 8, 16, 32, 64 and 256 branches. As there, an entry is of use where it is
right and what it stands before is wrong, one that has only been allotted is followed where such ones are right
oftener than what they stand before, a miss allots several entries, and all are of less use when none is free.

What no history foretells, all predictors miss as often. What comes round is learnt by heart until the tables
are full, and beyond that soon hardly any. Number and size of the tables and their histories were chosen among
two dozen by what a Zen 4 takes for branches at random that come round, taken by 1 in 2, 8 and 32, one and
four in turn; how many entries a miss allots by what was kept back of that, 1 in 4 and 16, sixteen in turn and
ends of rows. Of 100 that an untrained predictor misses, of 2¹⁵ to 2¹⁹ branches, four in turn: 1 in 2 taken,
3, 11, 63, 100, 100 (a Zen 4 0, 1, 67, 94, 98); 1 in 8, 0, 0, 4, 42, 83 (0, 0, 0, 60, 93). Off by 12 in the
root of the mean square, as of what was kept back; by 5 and 9 with what `kept_in_mind` adds.

A warm run is one of several on the same data, of which a predictor keeps what its tables hold: what a short run
asks is noted, and asked again until little more is learnt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numba import njit

from rooflab.cachesim.native.compile import OPTIONS
from rooflab.cachesim.native.words import add, load, shift_right, store

HISTORIES = (8, 16, 32, 64, 256)  # branches that each tagged table is chosen by
TABLES = len(HISTORIES)
TABLE_BITS, TAG_BITS = 14, 12
ENTRIES = 1 << TABLE_BITS
ALLOTTED = 2  # entries at most for a branch that was missed
SCARCE = 1 << 13  # entries found in use, less those found free, after which each is of less use
TRUST = 7  # how sure one may be that what was only allotted is wrong, or right

# The predictor's state, in words.
ASKED, ROOM, NOTED = 0, 1, 2
# ROOM: how many branches are noted, from address NOTED on: a word each, its number << 1 | whether it was taken
IN_USE, DOUBTED = 3, 4  # what SCARCE and TRUST bound
PLACE = 5  # in PAST, of the next branch
LENGTH = 8  # of the history of each tagged table
LEAVING = LENGTH + TABLES  # _TURN to the power of that length: what a branch weighs when it leaves the history
ROLLED = LEAVING + TABLES  # the sum over the history of 1 or 2, if taken, times _TURN to the power of its age
PAST = ROLLED + TABLES  # the last branches, round and round: 1 or 2, or 0 of none
PAST_WORDS = 512
BASE = PAST + PAST_WORDS
# plain counters; of each tagged table an entry is tag << 8 | useful << 4 | counter + 4
STATE_WORDS = BASE + (1 + TABLES) * ENTRIES
_TURN = 0x1E3779B97F4A7C15  # odd
MOST_ASKED = 20_000_000  # branches that are simulated; shares of the rest are taken as equal
# Of a run of no more branches it is simulated what runs after it miss: so many, the last of which counts; not of
# one that missed half as many again as the tables have entries (a Zen 4 learns 2 to 6 of 100 of them), nor further
# where one later run missed hardly less than another before it.
MOST_AGAIN, AGAIN = 2_000_000, 5
MOST_MISSED = 3 * TABLES * ENTRIES // 2
SETTLED = 0.99  # of what the run before missed
# Of what is missed in a later run, of a share r of the first's from LEARNT on: so many r (1 - r) more. With it
# those four kinds of branches are 5 of 100 off in the root of the mean square, before 10; what was kept back 9,
# before 13.
LEARNT, HALF_LEARNT = 0.2, 0.6
# What is kept of each branch: how often it was simulated, taken, mispredicted.
SIMULATED, TAKEN, MISSED, BRANCH_WORDS = 0, 1, 2, 4


def fresh() -> np.ndarray:
    """The state of a predictor that has seen nothing, words."""
    state = np.zeros(STATE_WORDS, np.int64)
    for table, length in enumerate(HISTORIES):
        state[LENGTH + table] = length
        weight = pow(_TURN, length, 1 << 64)
        state[LEAVING + table] = weight - (weight >> 63 << 64)
    return state


def learns_more(missed: Sequence[float]) -> bool:
    """Whether one more run on the same data is worth asking about, by how many branches each so far missed."""
    if len(missed) > AGAIN or missed[-1] == 0 or missed[0] > MOST_MISSED:
        return False
    return len(missed) < 3 or missed[-1] <= SETTLED * missed[-2]


def ask_again(once: Callable[[], None], state: np.ndarray, rows: np.ndarray) -> None:
    """Have `rows` hold what a later run on the same data misses, as far as more is learnt of it.

    Args:
        once: asks about each branch of the run once more, in order.
        state: of the predictor, which has seen the run.
        rows: what it found of each branch then; written anew.
    """
    first = rows[:, MISSED].copy()
    missed = [int(first.sum())]
    while learns_more(missed):
        rows[:] = state[ASKED] = 0
        once()
        missed.append(int(rows[:, MISSED].sum()))
    rows[:, MISSED] = kept_in_mind(first, rows[:, MISSED])


def kept_in_mind(first: np.ndarray, again: np.ndarray) -> np.ndarray:
    """Misses of each branch in a later run, of those of the `first` and of the simulated later one.

    What this predictor has half learnt a Zen 4 has forgotten: see `HALF_LEARNT`.
    """
    share = np.divide(again, first, out=np.zeros(len(first)), where=first > 0)
    more = np.where((share > LEARNT) & (share < 1), HALF_LEARNT * share * (1 - share), 0.0)
    return again + np.rint(first * more).astype(again.dtype)


def _mix(rolled, number):
    mixed = rolled ^ (number * 0x5DEECE66D1CE4E5B)
    mixed = (mixed ^ shift_right(mixed, 32)) * 0x3F58476D1CE4E5B9
    return mixed ^ shift_right(mixed, 29)


def _tag_of(mixed):
    return (shift_right(mixed, 40) & ((1 << TAG_BITS) - 1)) + 1


def _count_plain(where, taken):
    """Have a counter of two bits see whether a branch was taken."""
    store(where, 0, min(1, max(-2, load(where, 0) + (1 if taken != 0 else -1))))


def _count_tagged(where, taken):
    """Have an entry's counter of three bits see whether a branch was taken."""
    word = load(where, 0)
    store(where, 0, (word >> 4 << 4) | min(7, max(0, (word & 15) + (1 if taken != 0 else -1))))


_mixed, _tag = njit(**OPTIONS)(_mix), njit(**OPTIONS)(_tag_of)
_plain_sees, _tagged_sees = njit(**OPTIONS)(_count_plain), njit(**OPTIONS)(_count_tagged)


def _allot_entries(state, number, taken, first):
    """Give entries to a missed branch in the tables from `first` on, where some are of no use."""
    given, in_use = 0, load(state, IN_USE)
    for table in range(first, TABLES):
        mixed = _mixed(load(state, ROLLED + table), number)
        entry = state + 8 * (BASE + (1 + table) * ENTRIES + (mixed & (ENTRIES - 1)))
        if (load(entry, 0) >> 4) & 3 != 0:
            in_use += 1
        elif given < ALLOTTED:
            store(entry, 0, _tag(mixed) << 8 | (4 if taken != 0 else 3))
            given += 1
            in_use = max(0, in_use - 1)
    if in_use >= SCARCE:
        in_use = 0
        for entry in range(BASE + ENTRIES, STATE_WORDS):
            word = load(state, entry)
            store(state, entry, (word & ~0x30) | ((word >> 1) & 0x10))
    store(state, IN_USE, in_use)


def _remember_branch(state, taken):
    """Move the histories on by a branch."""
    came, place = 2 if taken != 0 else 1, load(state, PLACE)
    for table in range(TABLES):
        left = load(state, PAST + ((place - load(state, LENGTH + table)) & (PAST_WORDS - 1)))
        rolled = load(state, ROLLED + table) * _TURN + came - load(state, LEAVING + table) * left
        store(state, ROLLED + table, rolled)
    store(state, PAST + place, came)
    store(state, PLACE, (place + 1) & (PAST_WORDS - 1))


_allot, _remember = njit(**OPTIONS)(_allot_entries), njit(**OPTIONS)(_remember_branch)


def _branch(state, notes, number, taken):
    """Predict branch `number`, see whether it was `taken`, and learn from it."""
    asked = load(state, ASKED)
    if asked >= MOST_ASKED:
        return
    store(state, ASKED, asked + 1)
    if asked < load(state, ROOM):
        store(load(state, NOTED), asked, number << 1 | (1 if taken != 0 else 0))
    row = notes + 8 * BRANCH_WORDS * number
    add(row, SIMULATED, 1)
    came = taken != 0
    if came:
        add(row, TAKEN, 1)
    plain = state + 8 * (BASE + (number & (ENTRIES - 1)))
    guess = load(plain, 0) >= 0
    provider, where = -1, plain
    behind, instead = plain, guess  # what the provider stands before, and what that says
    for table in range(TABLES):
        mixed = _mixed(load(state, ROLLED + table), number)
        entry = state + 8 * (BASE + (1 + table) * ENTRIES + (mixed & (ENTRIES - 1)))
        word = load(entry, 0)
        if word >> 8 == _tag(mixed):
            behind, instead = where, guess
            provider, where = table, entry
            guess = (word & 15) >= 4
    word = load(where, 0)
    value = word & 15
    only_allotted = provider >= 0 and (word >> 4) & 3 == 0 and 3 <= value <= 4
    doubted = load(state, DOUBTED)
    missed = (instead if only_allotted and doubted >= 0 else guess) != came
    if missed:
        add(row, MISSED, 1)
    if provider < 0:
        _plain_sees(plain, taken)
    else:
        if guess != instead:
            useful = min(3, max(0, ((word >> 4) & 3) + (1 if guess == came else -1)))
            store(where, 0, (word >> 8 << 8) | useful << 4 | value)
            if only_allotted:
                doubted += 1 if instead == came else -1
                store(state, DOUBTED, min(TRUST, max(-TRUST - 1, doubted)))
        _tagged_sees(where, taken)
        if only_allotted and behind == plain:
            _plain_sees(plain, taken)
        elif only_allotted:
            _tagged_sees(behind, taken)
    if missed and not (only_allotted and guess == came):
        _allot(state, number, taken, provider + 1)
    _remember(state, taken)


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
