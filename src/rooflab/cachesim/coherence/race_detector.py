"""Conflicting accesses that nothing orders, found as the streams run: vector clocks, FastTrack with all reads.

Each core has a clock, which counts its releases, and knows of each other core the clock up to which that one's
accesses come before its own. A barrier makes every core know all; a release leaves what a core knows with the
word released, an acquire takes it from there; an atomic is both. An access races with the last write, or with
another core's last read, of the same granule where the core does not know that clock yet.

Source: Flanagan and Freund, FastTrack, PLDI 2009; Lamport's happens-before.
"""

from __future__ import annotations

from numba import njit

from rooflab.cachesim.coherence.layout import (
    BEFORE,
    CLOCKS,
    CORE_ROWS,
    CORE_WORDS,
    CORES,
    GRANULE_SHIFT,
    LOG,
    LOG_ROOM,
    LOG_USED,
    LOG_WORDS,
    POSITION,
    RACE_COUNTS,
    RACE_WORDS,
    RACES,
    RACES_ROOM,
    RACES_USED,
    READ_WRITE,
    SHADOW,
    SYNC_ADDRESSES,
    SYNC_CLOCKS,
    SYNCS,
    WATCHED,
    WRITE_READ,
    WRITE_WRITE,
)
from rooflab.cachesim.native.compile import OPTIONS
from rooflab.cachesim.native.words import WORD, add, load, store

FLAG_BITS, CORE_SHIFT, CLOCK_SHIFT = 255, 8, 16


@njit(**OPTIONS)
def check(system, core, ordinal, address, nbytes, operation):
    """Look at every granule that an access touches."""
    shift, cores = load(system, GRANULE_SHIFT), load(system, CORES)
    clocks = load(system, CLOCKS) + core * cores * WORD
    for granule in range(address >> shift, ((address + nbytes - 1) >> shift) + 1):
        row = load(system, SHADOW) + granule * (1 + cores) * WORD
        last, mine = load(row, 0), load(clocks, core)
        writer = last >> CORE_SHIFT & FLAG_BITS
        if writer != core and last >> CLOCK_SHIFT > load(clocks, writer):
            kind = WRITE_WRITE if operation else WRITE_READ
            record_race(system, row, granule, kind, writer, core, ordinal)
        if operation:
            for other in range(cores):
                if other != core and load(row, 1 + other) > load(clocks, other):
                    record_race(system, row, granule, READ_WRITE, other, core, ordinal)
            store(row, 0, mine << CLOCK_SHIFT | core << CORE_SHIFT | load(row, 0) & FLAG_BITS)
        elif load(row, 1 + core) != mine:
            store(row, 1 + core, mine)
        if last & WATCHED:
            log_access(system, clocks, granule, operation, core, ordinal)


@njit(**OPTIONS)
def record_race(system, row, granule, kind, earlier, later, ordinal):
    """Count a race; keep the first of each kind of a granule."""
    add(load(system, RACE_COUNTS), kind, 1)
    used, word = load(system, RACES_USED), load(row, 0)
    if word >> kind & 1 == 0 and used < load(system, RACES_ROOM):
        store(row, 0, word | 1 << kind)
        record = load(system, RACES) + used * (RACE_WORDS * WORD)
        store(record, 0, granule)
        store(record, 1, kind)
        store(record, 2, earlier)
        store(record, 3, later)
        store(record, 4, ordinal)
        store(system, RACES_USED, used + 1)


@njit(**OPTIONS)
def log_access(system, clocks, granule, operation, core, ordinal):
    """Write an access of a watched granule into the log, with all that its core knows."""
    used, cores = load(system, LOG_USED), load(system, CORES)
    store(system, LOG_USED, used + 1)
    if used >= load(system, LOG_ROOM):
        return
    record = load(system, LOG) + used * ((LOG_WORDS + cores) * WORD)
    store(record, 0, granule)
    store(record, 1, operation)
    store(record, 2, core)
    store(record, 3, ordinal)
    for other in range(cores):
        store(record, LOG_WORDS + other, load(clocks, other))


@njit(**OPTIONS)
def ordinal_of(system, core):
    """Which record of its stream a core is at."""
    row = load(system, CORE_ROWS) + core * (CORE_WORDS * WORD)
    return load(row, BEFORE) + load(row, POSITION)


@njit(**OPTIONS)
def sync_of(system, address):
    """The number of the word at `address` that orders cores; −1 where it is none of those announced."""
    low, high, table = 0, load(system, SYNCS), load(system, SYNC_ADDRESSES)
    while low + 1 < high:
        middle = (low + high) >> 1
        if load(table, middle) <= address:
            low = middle
        else:
            high = middle
    return low if high > 0 and load(table, low) == address else -1


@njit(**OPTIONS)
def join(into, source, cores):
    """The later of two vector clocks, word for word, kept in the first."""
    for each in range(cores):
        if load(source, each) > load(into, each):
            store(into, each, load(source, each))


@njit(**OPTIONS)
def acquire(system, core, sync):
    """`core` knows what was released with that word."""
    cores = load(system, CORES)
    join(load(system, CLOCKS) + core * cores * WORD, load(system, SYNC_CLOCKS) + sync * cores * WORD, cores)


@njit(**OPTIONS)
def release(system, core, sync):
    """What `core` knows is left with that word; what it does next comes after."""
    cores = load(system, CORES)
    clocks = load(system, CLOCKS) + core * cores * WORD
    join(load(system, SYNC_CLOCKS) + sync * cores * WORD, clocks, cores)
    add(clocks, core, 1)


@njit(**OPTIONS)
def join_all(system):
    """A barrier: every core knows all."""
    cores, clocks = load(system, CORES), load(system, CLOCKS)
    for core in range(1, cores):
        join(clocks, clocks + core * cores * WORD, cores)
    for core in range(cores):
        mine = clocks + core * cores * WORD
        join(mine, clocks, cores)
    for core in range(cores):
        add(clocks + core * cores * WORD, core, 1)
