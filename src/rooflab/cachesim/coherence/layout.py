"""Where the state of several cores lies: words of the system, of a core, of a line, of a record.

Everything is 64-bit words at addresses, as in `native/layout`: compiled code gets the address of the system alone.
"""

from __future__ import annotations

# fmt: off
# Words of the system.
(
    CORES, LINE_SHIFT, PART_SHIFT,   # a part is the finest piece of a line that a 64-bit mask tells apart
    MOESI,
    PRIVATE, DEPTH,      # address: a descriptor for each core and private level, near to far; how many levels
    SHARED, INCLUSIVE,   # the shared level's descriptor, or 0; whether it takes private copies along
    CACHE_CALLS,             # address: the compiled function of each level (the shared one last)
    CELLS, LINES,        # address: a cell for each line and core; a row of counters for each line
    CORE_ROWS,           # address: a row for each core
    QUANTUM, TURN, LEFT, BY_TIME, COSTS,
    CLOCKS,              # address: the vector clock of each core, one word a core
    SYNCS, SYNC_ADDRESSES, SYNC_CLOCKS, SYNC_HOLDERS,   # how many words order cores; addresses, sorted
    SHADOW, GRANULE_SHIFT,   # address: a row for each granule (a write and the reads), or 0
    RACES, RACES_USED, RACES_ROOM, RACE_COUNTS,
    LOG, LOG_USED, LOG_ROOM,
    ADDRESS_END,               # the address after all arrays
) = range(32)
SYSTEM_WORDS = 40

# Words of a core: its chunk of the stream, where it stands, what happened to it.
(
    CHUNK, POSITION, LENGTH, LAST, STATUS, WAITS, TIME, BEFORE,
    CORE_CELLS, CORE_FIRST,   # its cell of the first line; the descriptor of its first level
    CORE_LAST_LINES, CORE_LAST_LINES_MASK,   # of that first level, as in `native/layout`
    STORES, ORDERED_STORES, BARRIERS,   # plain stores; atomics and locks; what is no access
    SLOW,                # loads and plain stores but for plain hits of the first level: only they counted hits
    UPGRADES, LOST_COPIES, RECEIVED, SUPPLIED, DOWNGRADES, TRUE_SHARING, FALSE_SHARING,
) = range(23)
CORE_WORDS = 24
RUNNING, AT_BARRIER, BLOCKED, FINISHED = range(4)

# Words of a cell (what one core knows of one line), and the flags beside the state in its first. The other words
# are masks of parts: stored by others since this core lost the line; loaded here; stored here, not yet told to
# those who lost the line; stored here before that.
STATE, OTHERS_WROTE, READ, SINCE, WRITTEN = range(5)
CELL_WORDS = 5
INVALID, SHARED_STATE, EXCLUSIVE_STATE, OWNED, MODIFIED = range(5)
STATE_BITS, LOST, PENDING = 7, 8, 16

# Counters of a line.
LINE_INVALIDATIONS, LINE_TRUE, LINE_FALSE, LINE_TRANSFERS, LINE_UPGRADES, LINE_DOWNGRADES = range(6)
LINE_WORDS = 6

# Counters of a cache: plain sums, one row for each core that asks.
HITS, MISSES, EVICTIONS, WRITEBACKS, READ_BYTES, WRITE_BYTES, INVALIDATIONS = range(7)
CACHE_WORDS = 8

# Operations of a record, which is address << 16 | nbytes << 4 | operation.
READS, WRITES, ATOMIC, BARRIER, ACQUIRE, RELEASE = range(6)
ADDRESS_SHIFT, LONGEST = 16, 4095

# Requests that a standalone cache (one cache, without a next level) answers.
LOOK, PUT, DROP, CLEAN = range(4)

# A granule's row: clock << 16 | core << 8 | flags of the last write, then the clock of each core's last read.
WATCHED = 8
WRITE_READ, READ_WRITE, WRITE_WRITE = range(3)
RACE_WORDS = 5   # granule, kind, earlier core, later core, which access of that core
LOG_WORDS = 4    # granule, operation, core, which access of it; then the core's vector clock

# What `run` returns: nothing left, no core can go on, a record that cannot be; from 1 on, whose stream to refill.
DONE, STUCK, MISUSED, CORE_NEEDS = 0, -1, -2, 1
# fmt: on
