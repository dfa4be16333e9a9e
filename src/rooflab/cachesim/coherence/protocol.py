"""What happens to one line when one core accesses it: states, private copies, the shared level behind.

A directory is assumed that knows every private copy: no broadcast, no message lost, nothing overlaps. States
are those of MESI, and OWNED of MOESI (a modified line that others read stays dirty at its owner). A core's
state of a line is one for all its private levels: the outermost includes the nearer ones.

- A miss is answered by the owner where another core holds the line modified, owned or exclusive, else by the
  shared level, else by the memory.
- A load makes the owner share: MESI writes a modified line back to the shared level, MOESI keeps it owned.
- A store takes every other copy away; from a shared or owned copy of its own it is an upgrade, without data.
"""

from __future__ import annotations

from numba import njit

from rooflab.cachesim.coherence.layout import (
    CACHE_WORDS,
    CELL_WORDS,
    CELLS,
    CLEAN,
    CORE_ROWS,
    CORE_WORDS,
    CORES,
    COSTS,
    DEPTH,
    DOWNGRADES,
    DROP,
    EVICTIONS,
    EXCLUSIVE_STATE,
    FALSE_SHARING,
    HITS,
    INCLUSIVE,
    INVALID,
    INVALIDATIONS,
    LINE_DOWNGRADES,
    LINE_FALSE,
    LINE_INVALIDATIONS,
    LINE_SHIFT,
    LINE_TRANSFERS,
    LINE_TRUE,
    LINE_UPGRADES,
    LINE_WORDS,
    LINES,
    LOOK,
    LOST,
    LOST_COPIES,
    MISSES,
    MODIFIED,
    MOESI,
    NEWS,
    OWNED,
    PENDING,
    PRIVATE,
    PUT,
    READ,
    READ_BYTES,
    RECEIVED,
    SHARED,
    SHARED_STATE,
    SHELVES,
    SINCE,
    STATE,
    STATE_BITS,
    SUPPLIED,
    TRUE_SHARING,
    UPGRADES,
    WRITE_BYTES,
    WRITEBACKS,
    WRITTEN,
)
from rooflab.cachesim.coherence.standalone_cache import ask_shelf
from rooflab.cachesim.native.compile import OPTIONS
from rooflab.cachesim.native.layout import COUNTS, MEMO, MEMO_MASK
from rooflab.cachesim.native.words import WORD, add, load, store

CELL_BYTES, LINE_BYTES, CORE_BYTES = CELL_WORDS * WORD, LINE_WORDS * WORD, CORE_WORDS * WORD
ROW_BYTES = CACHE_WORDS * WORD


@njit(**OPTIONS)
def cell_of(world, core, line):
    """The cell of `line` at `core`."""
    return load(world, CELLS) + (line * load(world, CORES) + core) * CELL_BYTES


@njit(**OPTIONS)
def tally(world, core, line, of_core, of_line):
    """One more of an event, for the core and for the line."""
    add(load(world, CORE_ROWS) + core * CORE_BYTES, of_core, 1)
    add(load(world, LINES) + line * LINE_BYTES, of_line, 1)


@njit(**OPTIONS)
def private(world, core, depth):
    """The descriptor of a private level."""
    return load(load(world, PRIVATE), core * load(world, DEPTH) + depth)


@njit(**OPTIONS)
def ask(world, depth, level, request, line, dirty):
    """What the shelf of `level` answers."""
    return ask_shelf(load(load(world, SHELVES), depth), level, request, line, dirty)


@njit(**OPTIONS)
def forget(level, line):
    """Let the first level's memo no longer say that the line is there, or clean or dirty."""
    memo, slot = load(level, MEMO), line & load(level, MEMO_MASK)
    if memo and load(memo, slot) >> 1 == line:
        store(memo, slot, -1)


@njit(**OPTIONS)
def nearer(world, core, line, depth, request):
    """Drop or clean a line in the levels nearer than `depth`: whether one of them had it dirty."""
    dirty, line_bytes = 0, 1 << load(world, LINE_SHIFT)
    for each in range(depth):
        level = private(world, core, each)
        found = ask(world, each, level, request, line, 0)
        if each == 0:
            forget(level, line)
        dirty |= found & 1
        row = load(level, COUNTS)
        if found and request == DROP:
            add(row, INVALIDATIONS, 1)
        add(row, WRITE_BYTES, dirty * line_bytes)
    return dirty


@njit(**OPTIONS)
def end_of_copy(world, core, line, cell, mark):
    """The core no longer holds the line: what it has written is news to those who lost it before."""
    word = load(cell, STATE)
    if word & PENDING:
        tally(world, core, line, FALSE_SHARING, LINE_FALSE)
    spread(world, core, line, cell)
    store(cell, STATE, mark)


@njit(**OPTIONS)
def spread(world, core, line, cell):
    """What `core` wrote while it alone held the line is news to those who lost it before."""
    since = load(cell, SINCE)
    if since == 0:
        return
    store(cell, WRITTEN, load(cell, WRITTEN) | since)
    store(cell, SINCE, 0)
    first = cell_of(world, 0, line)
    for other in range(load(world, CORES)):
        at = first + other * CELL_BYTES
        if other != core and load(at, STATE) & LOST:
            store(at, NEWS, load(at, NEWS) | since)


@njit(**OPTIONS)
def write_back(world, core, line):
    """A dirty line arrives at the shared level, or at the memory."""
    level, depth = load(world, SHARED), load(world, DEPTH)
    if level == 0:
        return
    row = load(level, COUNTS) + core * ROW_BYTES
    if ask(world, depth, level, LOOK, line, 1):
        add(row, HITS, 1)
        return
    add(row, MISSES, 1)
    left = ask(world, depth, level, PUT, line, 1)
    if left >= 0:
        leave_shared(world, core, left)


@njit(**OPTIONS)
def leave_shared(world, core, entry):
    """The shared level gives up a line, and private copies with it where it includes them."""
    level, line, dirty = load(world, SHARED), entry >> 1, entry & 1
    row, line_bytes = load(level, COUNTS) + core * ROW_BYTES, 1 << load(world, LINE_SHIFT)
    add(row, EVICTIONS, 1)
    if load(world, INCLUSIVE):
        last = load(world, DEPTH) - 1
        for other in range(load(world, CORES)):
            cell = cell_of(world, other, line)
            state = load(cell, STATE) & STATE_BITS
            if state != INVALID:
                modified = 1 if state >= OWNED else 0
                nearer(world, other, line, last, DROP)
                drop_outermost(world, other, line, modified)
                dirty |= modified
                end_of_copy(world, other, line, cell, INVALID)
    if dirty:
        add(row, WRITEBACKS, 1)
        add(row, WRITE_BYTES, line_bytes)


@njit(**OPTIONS)
def drop_outermost(world, core, line, written):
    """Take a line out of a core's outermost level; `written` where its bytes go to the level behind."""
    last = load(world, DEPTH) - 1
    level = private(world, core, last)
    ask(world, last, level, DROP, line, 0)
    if last == 0:
        forget(level, line)
    add(load(level, COUNTS), INVALIDATIONS, 1)
    add(load(level, COUNTS), WRITE_BYTES, written << load(world, LINE_SHIFT))


@njit(**OPTIONS)
def take_from_others(world, core, line):
    """Every other copy is invalidated."""
    last, first = load(world, DEPTH) - 1, cell_of(world, 0, line)
    for other in range(load(world, CORES)):
        cell = first + other * CELL_BYTES
        if other != core and load(cell, STATE) & STATE_BITS != INVALID:
            nearer(world, other, line, last, DROP)
            drop_outermost(world, other, line, 0)
            end_of_copy(world, other, line, cell, LOST)
            tally(world, other, line, LOST_COPIES, LINE_INVALIDATIONS)


@njit(**OPTIONS)
def evict_private(world, core, depth, entry):
    """A private level gives up a line for another."""
    level, line, last = private(world, core, depth), entry >> 1, load(world, DEPTH) - 1
    row, line_bytes = load(level, COUNTS), 1 << load(world, LINE_SHIFT)
    add(row, EVICTIONS, 1)
    dirty = entry & 1 | nearer(world, core, line, depth, DROP)
    if depth == last:
        cell = cell_of(world, core, line)
        dirty = 1 if load(cell, STATE) & STATE_BITS >= OWNED else 0
        end_of_copy(world, core, line, cell, INVALID)
    if dirty:
        add(row, WRITEBACKS, 1)
        add(row, WRITE_BYTES, line_bytes)
        if depth == last:
            write_back(world, core, line)
        else:
            behind = private(world, core, depth + 1)
            ask(world, depth + 1, behind, LOOK, line, 1)
            add(load(behind, COUNTS), HITS, 1)


@njit(**OPTIONS)
def fill(world, core, line, depth, writes):
    """Bring a line into the levels nearer than `depth`, the far ones first."""
    line_bytes = 1 << load(world, LINE_SHIFT)
    for each in range(depth - 1, -1, -1):
        level = private(world, core, each)
        add(load(level, COUNTS), READ_BYTES, line_bytes)
        left = ask(world, each, level, PUT, line, writes if each == 0 else 0)
        if left >= 0:
            evict_private(world, core, each, left)


@njit(**OPTIONS)
def owner_of(world, core, line):
    """The other core that holds the line exclusive, owned or modified, or −1; −2 where others share it."""
    found, first = -1, cell_of(world, 0, line)
    for other in range(load(world, CORES)):
        state = load(first + other * CELL_BYTES, STATE) & STATE_BITS
        if other != core and state != INVALID:
            if state >= EXCLUSIVE_STATE:
                return other
            found = -2
    return found


@njit(**OPTIONS)
def share(world, owner, line):
    """The owner keeps its copy and lets another core read it."""
    cell = cell_of(world, owner, line)
    word = load(cell, STATE)
    state = word & STATE_BITS
    spread(world, owner, line, cell)
    if state == OWNED:
        return
    forget(private(world, owner, 0), line)
    if state == MODIFIED and load(world, MOESI):
        store(cell, STATE, word - MODIFIED + OWNED)
        return
    store(cell, STATE, word - state + SHARED_STATE)
    if state == MODIFIED:
        last, line_bytes = load(world, DEPTH) - 1, 1 << load(world, LINE_SHIFT)
        nearer(world, owner, line, last, CLEAN)
        level = private(world, owner, last)
        ask(world, last, level, CLEAN, line, 0)
        add(load(level, COUNTS), WRITE_BYTES, line_bytes)
        tally(world, owner, line, DOWNGRADES, LINE_DOWNGRADES)
        write_back(world, owner, line)


@njit(**OPTIONS)
def from_behind(world, core, line):
    """Read a line from the shared level or the memory: what that costs."""
    level, depth, costs = load(world, SHARED), load(world, DEPTH), load(world, COSTS)
    if level == 0:
        return load(costs, depth + 1)
    row = load(level, COUNTS) + core * ROW_BYTES
    if ask(world, depth, level, LOOK, line, 0):
        add(row, HITS, 1)
        return load(costs, depth)
    add(row, MISSES, 1)
    add(row, READ_BYTES, 1 << load(world, LINE_SHIFT))
    left = ask(world, depth, level, PUT, line, 0)
    if left >= 0:
        leave_shared(world, core, left)
    return load(costs, depth + 1)


@njit(**OPTIONS)
def miss(world, core, line, cell, writes):
    """The core holds no copy: get one."""
    depth = load(world, DEPTH)
    for each in range(depth):
        add(load(private(world, core, each), COUNTS), MISSES, 1)
    owner = owner_of(world, core, line)
    if owner >= 0:
        cost = load(load(world, COSTS), depth + 2)
        tally(world, core, line, RECEIVED, LINE_TRANSFERS)
        add(load(world, CORE_ROWS) + owner * CORE_BYTES, SUPPLIED, 1)
        if not writes:
            share(world, owner, line)
    else:
        cost = from_behind(world, core, line)
    if writes:
        take_from_others(world, core, line)
    word = load(cell, STATE)
    if word & LOST == 0:
        store(cell, NEWS, 0)
    state = MODIFIED if writes else (EXCLUSIVE_STATE if owner == -1 else SHARED_STATE)
    store(cell, STATE, state | (PENDING if word & LOST else 0))
    fill(world, core, line, depth, writes)
    return cost


@njit(**OPTIONS)
def hit(world, core, line, cell, writes):
    """The core holds a copy in one of its levels: find it, and own it where it is written."""
    depth, place = load(world, DEPTH), 0
    while True:
        level = private(world, core, place)
        row = load(level, COUNTS)
        if ask(world, place, level, LOOK, line, writes if place == 0 else 0):
            add(row, HITS, 1)
            break
        add(row, MISSES, 1)
        place += 1
    cost = load(load(world, COSTS), place)
    word = load(cell, STATE)
    state = word & STATE_BITS
    if writes and state != MODIFIED:
        if state != EXCLUSIVE_STATE:
            cost += load(load(world, COSTS), depth + 3)
            tally(world, core, line, UPGRADES, LINE_UPGRADES)
            take_from_others(world, core, line)
        store(cell, STATE, word - state + MODIFIED)
    fill(world, core, line, place, writes)
    return cost


@njit(**OPTIONS)
def access_line(world, core, line, mask, writes):
    """One access of the parts `mask` of a line: what it costs."""
    cell = cell_of(world, core, line)
    if load(cell, STATE) & STATE_BITS == INVALID:
        cost = miss(world, core, line, cell, writes)
    else:
        cost = hit(world, core, line, cell, writes)
    word = load(cell, STATE)
    if word & PENDING and load(cell, NEWS) & mask:
        tally(world, core, line, TRUE_SHARING, LINE_TRUE)
        store(cell, NEWS, 0)
        store(cell, STATE, word - PENDING)
    used = SINCE if writes else READ
    store(cell, used, load(cell, used) | mask)
    note_last(private(world, core, 0), line, writes)
    return cost


@njit(**OPTIONS)
def note_last(level, line, writes):
    """Note at the first level that one more access of the line, the newest of its set now, is a plain repeat.

    A load then finds the line noted, a store finds it noted dirty: modified, and held by this core alone. Where
    even a repeat changes the policy's state, nothing is noted.
    """
    memo = load(level, MEMO)
    if memo:
        slot = line & load(level, MEMO_MASK)
        dirty = 1 if writes or load(memo, slot) == (line << 1 | 1) else 0
        store(memo, slot, line << 1 | dirty)
