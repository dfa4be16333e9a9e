"""Replacement policies: for each kind the compiled functions that a level is made of.

    find(level, set, line)            → where the line is, or −1
    touch(level, set, place, dirty)   → its entry after a hit
    insert(level, set, entry, sectors) → the entry it evicted, or EMPTY (its sectors in SCRATCH)
    remove(level, set, place)

LRU and FIFO keep a set in order, newest first: the order is the policy. Tree-PLRU, random and QLRU leave
ways in place and keep a word of state for each set. Sets wider than 32 ways are hashed (`hashed_sets.py`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from rooflab.cachesim.native.compile import Named
from rooflab.cachesim.native.layout import AGES, FLAGS, META, RANDOM, SCRATCH, SECTORED, SECTORS, TAGS
from rooflab.cachesim.native.words import load, shift_right, store
from rooflab.cachesim.sets.set_vectors import EMPTY, WIDEST, make_find, make_to_front, padded


class Policy(NamedTuple):
    """The four functions of a policy, and the words that a set's tags take."""

    find: Any
    touch: Any
    insert: Any
    remove: Any
    stride: int


def _make_find(named: Named, way_of: Any, lanes: int) -> Any:
    """The compiled `find` of sets of `lanes` words, whose ways `way_of` looks through."""

    @named.inlined
    def find(level, index, line):
        first = index * lanes
        way = way_of(load(level, TAGS), first, line)
        return way if way < 0 else first + way

    return find


def ordered(ways: int, refresh: bool) -> Policy:
    """LRU where a hit refreshes a line (`refresh`), else FIFO; at most `WIDEST` ways."""
    named = Named(f"{'lru' if refresh else 'fifo'} {ways}")
    lanes, last = padded(ways), ways - 1
    find, to_front = _make_find(named, make_find(ways), lanes), make_to_front(ways)

    @named.inlined
    def touch(level, index, place, dirty):
        tags = load(level, TAGS)
        entry = load(tags, place) | dirty
        if refresh:
            first = index * lanes
            to_front(tags, first, place - first, entry)
            if load(level, FLAGS) & SECTORED:
                sectors = load(level, SECTORS)
                to_front(sectors, first, place - first, load(sectors, place))
        else:
            store(tags, place, entry)
        return entry

    @named.inlined
    def insert(level, index, entry, sectors):
        first = index * lanes
        if load(level, FLAGS) & SECTORED:
            store(level, SCRATCH, to_front(load(level, SECTORS), first, last, sectors))
        return to_front(load(level, TAGS), first, last, entry)

    @named.part
    def remove(level, index, place):
        tags, sectors, end = load(level, TAGS), load(level, SECTORS), index * lanes + last
        for at in range(place, end):
            store(tags, at, load(tags, at + 1))
            store(sectors, at, load(sectors, at + 1))
        store(tags, end, EMPTY)

    return Policy(find, touch, insert, remove, lanes)


def positional(ways: int, kind: str) -> Policy:
    """Tree-PLRU ("plru"), "random" or "qlru": ways stay in place; an empty way is filled first."""
    named = Named(f"{kind} {ways}")
    wide = ways > WIDEST
    lanes = ways if wide else padded(ways)
    way_of = _scan(ways) if wide else make_find(ways)
    find = _make_find(named, way_of, lanes)
    note_hit, note_fill, choose = _KINDS[kind](ways)

    @named.inlined
    def touch(level, index, place, dirty):
        tags = load(level, TAGS)
        entry = load(tags, place) | dirty
        store(tags, place, entry)
        note_hit(level, index, place - index * lanes)
        return entry

    @named.inlined
    def insert(level, index, entry, sectors):
        tags, first = load(level, TAGS), index * lanes
        # EMPTY is what "line −1" would look like
        empty = way_of(tags, first, -1)
        way = choose(level, index, empty if 0 <= empty < ways else -1)
        old = load(tags, first + way)
        store(tags, first + way, entry)
        if load(level, FLAGS) & SECTORED:
            store(level, SCRATCH, load(load(level, SECTORS), first + way))
            store(load(level, SECTORS), first + way, sectors)
        note_fill(level, index, way)
        return old

    @named.part
    def remove(level, index, place):
        store(load(level, TAGS), place, EMPTY)

    return Policy(find, touch, insert, remove, lanes)


def _scan(ways: int) -> Any:
    named = Named(f"{ways}")

    @named.part
    def way_of(tags, first, line):
        for way in range(ways):
            if load(tags, first + way) >> 1 == line:
                return way
        return -1

    return way_of


def _tree(ways: int) -> tuple[Any, Any, Any]:
    """Tree-PLRU: bit n of the set's word is inner node n of a heap; it points to the half to evict from."""
    named = Named(f"{ways}")

    @named.part
    def note(level, index, way):
        bits, node = load(load(level, META), index), way + ways
        while node > 1:
            parent = node >> 1
            bits = bits | (1 << parent) if node & 1 == 0 else bits & ~(1 << parent)
            node = parent
        store(load(level, META), index, bits)

    @named.part
    def choose(level, index, empty):
        if empty >= 0:
            return empty
        bits, node = load(load(level, META), index), 1
        while node < ways:
            node = node * 2 + (bits >> node & 1)
        return node - ways

    return note, note, choose


def _random(ways: int) -> tuple[Any, Any, Any]:
    """Random: Knuth's 64-bit generator, drawn only where the set is full."""
    named = Named(f"{ways}")

    @named.part
    def note(level, index, way):
        return None

    @named.part
    def choose(level, index, empty):
        if empty >= 0:
            return empty
        state = load(level, RANDOM) * 6364136223846793005 + 1442695040888963407
        store(level, RANDOM, state)
        return shift_right(state, 33) % ways

    return note, note, choose


def pack_ages(hit: str, miss: int, replace: int, update: int, on_miss_only: bool) -> int:
    """A QLRU variant as the word AGES: two bits for each age after a hit, insertion age, then the rules."""
    after = {0: 0, 1: 0, 2: int(hit[1]), 3: int(hit[0])}
    word = sum(to << (2 * age) for age, to in after.items())
    return word | miss << 8 | replace << 10 | update << 12 | on_miss_only << 14


def _make_aging(ways: int) -> Any:
    """A compiled `aged(ages, rule, spared)`: the ages of a set after rule U0 to U3; way `spared` is new."""
    named = Named(f"{ways}")

    @named.part
    def aged(ages, rule, spared):
        # U0 and U1 age all until the oldest is 3, U2 and U3 by one where none is 3; odd ones spare the new.
        oldest, any_three = 0, False
        for way in range(ways):
            age = ages >> (2 * way) & 3
            any_three = any_three or age == 3
            if rule != 1 or way != spared:
                oldest = max(oldest, age)
        step = 3 - oldest if rule < 2 else (0 if any_three else 1)
        if step == 0 or (rule == 1 and ways == 1):
            return ages
        older = 0
        for way in range(ways):
            age = ages >> (2 * way) & 3
            if rule & 1 == 0 or way != spared:
                age += step
            older |= (age & 3) << (2 * way)
        return older

    return aged


def _quad_age(ways: int) -> tuple[Any, Any, Any]:
    """QLRU: two bits of age for each way (Abel and Reineke, nanoBench, ISPASS 2020, section VI-B)."""
    named, aged = Named(f"{ways}"), _make_aging(ways)
    lanes = ways if ways > WIDEST else padded(ways)

    @named.part
    def note_hit(level, index, way):
        rules, ages = load(level, AGES), load(load(level, META), index)
        age = ages >> (2 * way) & 3
        ages = ages & ~(3 << (2 * way)) | (rules >> (2 * age) & 3) << (2 * way)
        if rules >> 14 & 1 == 0:
            ages = aged(ages, rules >> 12 & 3, way)
        store(load(level, META), index, ages)

    @named.part
    def note_fill(level, index, way):
        rules, ages = load(level, AGES), load(load(level, META), index)
        ages = ages & ~(3 << (2 * way)) | (rules >> 8 & 3) << (2 * way)
        if rules >> 14 & 1 == 0:
            ages = aged(ages, rules >> 12 & 3, way)
        store(load(level, META), index, ages)

    @named.part
    def choose(level, index, empty):
        rules, ages = load(level, AGES), load(load(level, META), index)
        if rules >> 14 & 1:
            ages = aged(ages, rules >> 12 & 3, -1)
            store(load(level, META), index, ages)
        if empty >= 0:
            if rules >> 10 & 3 == 2:
                tags, first = load(level, TAGS), index * lanes
                way = ways - 1
                while load(tags, first + way) != EMPTY:
                    way -= 1
                return way
            return empty
        for way in range(ways):
            if ages >> (2 * way) & 3 == 3:
                return way
        return 0

    return note_hit, note_fill, choose


_KINDS = {"plru": _tree, "random": _random, "qlru": _quad_age}


def make(kind: str, ways: int) -> Policy:
    """The functions of policy `kind` ("lru", "fifo", "plru", "random" or "qlru") for sets of `ways`."""
    if kind in ("plru", "random", "qlru"):
        return positional(ways, kind)
    if ways > WIDEST:
        from rooflab.cachesim.sets.hashed_sets import hashed

        return hashed(ways, refresh=kind == "lru")
    return ordered(ways, refresh=kind == "lru")
