"""Where a level's state lies: the words of its descriptor, its flags, its counters, its requests.

A level is one array of 64-bit words, its descriptor; the words name the arrays that hold tags and the
like by address. Compiled functions are handed the descriptor's address and nothing else.

The first level has a last-line slot for each set (or one for all): the unit of which one more access changes
nothing, so that the inlined part of an access (`level/access.py`) only compares. Where none is noted, it is −1.

    LAST_LINES + (address >> SLOT_SHIFT & SLOT_MASK)
        │   63                                       1   0
        └→  ┌──────────────────────────────────────┬───────┐
            │ unit: address >> UNIT_SHIFT          │ dirty │    entries of 64 bits
            └──────────────────────────────────────┴───────┘
            63                33    32   31         1    0
            ┌───────────────────┬───────┬───────────┬───────┐    PAIRED: the first two entries of the set's
            │ second newest     │ dirty │ newest    │ dirty │    own tags, of 32 bits each; IGNORED masks
            └───────────────────┴───────┴───────────┴───────┘    the upper half
"""

from __future__ import annotations

# fmt: off
# Words of a level's descriptor.
(
    TAGS,         # address: one entry a way, line × 2 + dirty
    SECTORS,      # address: one word a way, valid sectors in the low half, dirty ones in the high half
    META,         # address: what the policy remembers of each set
    SETS, MASK,   # number of sets; sets − 1 where the index is a plain mask, else −1
    SHIFT,        # log2 of the line
    UNIT_SHIFT,   # log2 of what one request moves: a sector, or the line
    FLAGS,
    NEXT_LEVEL, NEXT_CALL,   # the next level: its descriptor and its function; 0 for main memory
    PREVIOUS_LEVEL, PREVIOUS_CALL,   # the level before; 0 for the first
    SELF_CALL,    # this level's own function
    COUNTS,       # address: a row of counters for each reference
    LAST_LINES, LAST_LINES_MASK,   # address of the last-line slots, and slots − 1 (see above)
    SLOT_SHIFT, SLOT_MASK,   # an address, shifted and masked, is the offset of its last-line slot
    SET_SHIFT,    # log2 of the bytes of a set's tags, where they are a power of two, else 0
    IGNORED,      # the bits of a last-line slot that do not count
    PAIRED,       # whether a slot is the two newest entries of its set, of 32 bits (see plain_levels.py), else 0
    FOLD_BITS,    # bits of the line number that one fold of the XOR index takes
    RANDOM,       # state of the generator of random victims
    AGES,         # the QLRU variant, packed (see policies.py)
    STRIDES,      # address: the stride prefetcher's table
    AHEAD,        # how many strides ahead it fetches
    SHADOW,       # address: descriptor of a fully associative LRU cache of the same capacity, or 0
    SEEN,         # address: the set of units seen before, or 0
    SCRATCH,      # the sectors of the entry that was evicted last
    TLB, TLB_CALL,     # of the first level: the translation look-aside buffer's descriptor and function, or 0
    UNIT_CALL, SPLIT_CALL,   # of the first level: what answers an access within a unit, and any other
    GENERAL_CALL,   # what answers anything but the plainest requests
    CLASSIFY_CALL,   # what tells misses apart (see miss_kinds.py); 0 unless classified
    CHANGES,      # how often a request changed what the level holds
    RETURNED, RAISED,   # where a called function leaves its result (see words.call)
    QUEUE,        # address: requests to the next level that wait (see queued_levels.py), or 0
    QUEUED, QUEUE_FULL,   # address where the next one is put; address from which on they are to be answered
    DRAIN_CALL, SETTLE_CALL,   # what answers them; what also completes the counters; 0 where nothing waits
    REFERENCES,   # how many rows of counters there are
    QUEUED_WAYS,   # of the first level where the next is asked later, so that callers may inline it; else 0
) = range(45)
DESCRIPTOR_WORDS = 48

# Flags of a level.
(
    WRITE_BACK, ALLOCATE, INCLUSIVE, EXCLUSIVE, XOR_INDEX, SECTORED, FIRST, NOTES_LAST_LINE, BEFORE_VICTIM,
    NEXT_LINE, ADJACENT, STRIDE, CLASSIFIED, WRITE_VALIDATE,
) = (1 << bit for bit in range(14))

# Counters of a reference at a level. A miss stands for a read of one unit and the eviction of one line as well:
# EVICTIONS and READ_BYTES hold what is to be added to that, COLD the misses that found an empty way. EXTRA are
# the requests of accesses that cross units beyond one each.
(
    HITS, MISSES, EVICTIONS, WRITEBACKS, READ_BYTES, WRITE_BYTES, COMPULSORY, CAPACITY, INVALIDATIONS,
    PREFETCHES, COLD, EXTRA,
) = range(12)
COUNTER_WORDS = 16

# Requests that a level answers. Loads, stores and write-backs count as hits and misses; STREAM is a
# non-temporal store.
LOAD, STORE, STREAM, PREFETCH, WRITEBACK, VICTIM, INVALIDATE = range(7)
# fmt: on

STRIDE_ENTRIES, STRIDE_WORDS = 64, 4  # last address, stride, confidence
CONFIDENT = 2  # equal strides in a row before the stride prefetcher fetches
PAGE_SHIFT = 12  # prefetchers stop at the 4 KiB page: what comes after is another physical page
