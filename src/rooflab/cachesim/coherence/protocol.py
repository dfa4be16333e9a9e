"""What happens to one line when one core accesses it: states, private copies, the shared level.

A directory is assumed that knows every private copy: no broadcast, no message lost, nothing overlaps. States
are those of MESI, and OWNED of MOESI (a modified line that others read stays dirty at its owner). A core's
state of a line is one for all its private levels: the outermost includes the inner ones.

- A miss is answered by the owner where another core holds the line modified, owned or exclusive, else by the
  shared level, else by main memory.
- A load makes the owner share: MESI writes a modified line back to the shared level, MOESI keeps it owned.
- A store takes every other copy away; from a shared or owned copy of its own it is an upgrade, without data.
"""

from __future__ import annotations

from numba import njit

from rooflab.cachesim.coherence.layout import (
    CACHE_CALLS,
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
    OTHERS_WROTE,
    OWNED,
    PENDING,
    PRIVATE,
    PUT,
    READ,
    READ_BYTES,
    RECEIVED,
    SHARED,
    SHARED_STATE,
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
from rooflab.cachesim.coherence.standalone_cache import ask_cache
from rooflab.cachesim.native.compile import OPTIONS
from rooflab.cachesim.native.layout import COUNTS, LAST_LINES, LAST_LINES_MASK
from rooflab.cachesim.native.words import WORD, add, load, store

CELL_BYTES, LINE_BYTES, CORE_BYTES = CELL_WORDS * WORD, LINE_WORDS * WORD, CORE_WORDS * WORD
ROW_BYTES = CACHE_WORDS * WORD


@njit(**OPTIONS)
def cell_of(system, core, line):
    """The cell of `line` at `core`."""
    return load(system, CELLS) + (line * load(system, CORES) + core) * CELL_BYTES


@njit(**OPTIONS)
def count_event(system, core, line, of_core, of_line):
    """One more of an event, for the core and for the line."""
    add(load(system, CORE_ROWS) + core * CORE_BYTES, of_core, 1)
    add(load(system, LINES) + line * LINE_BYTES, of_line, 1)


@njit(**OPTIONS)
def private(system, core, depth):
    """The descriptor of a private level."""
    return load(load(system, PRIVATE), core * load(system, DEPTH) + depth)


@njit(**OPTIONS)
def ask(system, depth, level, request, line, dirty):
    """What the cache of `level` answers."""
    return ask_cache(load(load(system, CACHE_CALLS), depth), level, request, line, dirty)


@njit(**OPTIONS)
def forget_last_line(level, line):
    """Let the first level's last lines no longer hold the line, clean or dirty."""
    last_lines, slot = load(level, LAST_LINES), line & load(level, LAST_LINES_MASK)
    if last_lines and load(last_lines, slot) >> 1 == line:
        store(last_lines, slot, -1)


@njit(**OPTIONS)
def ask_inner_levels(system, core, line, depth, request):
    """Drop or clean a line in the levels before `depth`: whether one of them had it dirty."""
    dirty, line_bytes = 0, 1 << load(system, LINE_SHIFT)
    for each in range(depth):
        level = private(system, core, each)
        answer = ask(system, each, level, request, line, 0)
        if each == 0:
            forget_last_line(level, line)
        dirty |= answer & 1
        row = load(level, COUNTS)
        if answer and request == DROP:
            add(row, INVALIDATIONS, 1)
        add(row, WRITE_BYTES, dirty * line_bytes)
    return dirty


@njit(**OPTIONS)
def end_copy(system, core, line, cell, mark):
    """The core no longer holds the line: its stores are now known to those who lost it before."""
    word = load(cell, STATE)
    if word & PENDING:
        count_event(system, core, line, FALSE_SHARING, LINE_FALSE)
    publish_stores(system, core, line, cell)
    store(cell, STATE, mark)


@njit(**OPTIONS)
def publish_stores(system, core, line, cell):
    """Tell those who lost the line before what `core` stored while it alone held it."""
    since = load(cell, SINCE)
    if since == 0:
        return
    store(cell, WRITTEN, load(cell, WRITTEN) | since)
    store(cell, SINCE, 0)
    first = cell_of(system, 0, line)
    for other in range(load(system, CORES)):
        at = first + other * CELL_BYTES
        if other != core and load(at, STATE) & LOST:
            store(at, OTHERS_WROTE, load(at, OTHERS_WROTE) | since)


@njit(**OPTIONS)
def write_back(system, core, line):
    """A dirty line arrives at the shared level, or at main memory."""
    level, depth = load(system, SHARED), load(system, DEPTH)
    if level == 0:
        return
    row = load(level, COUNTS) + core * ROW_BYTES
    if ask(system, depth, level, LOOK, line, 1):
        add(row, HITS, 1)
        return
    add(row, MISSES, 1)
    evicted = ask(system, depth, level, PUT, line, 1)
    if evicted >= 0:
        evict_shared(system, core, evicted)


@njit(**OPTIONS)
def evict_shared(system, core, entry):
    """The shared level gives up a line, and private copies with it where it includes them."""
    level, line, dirty = load(system, SHARED), entry >> 1, entry & 1
    row, line_bytes = load(level, COUNTS) + core * ROW_BYTES, 1 << load(system, LINE_SHIFT)
    add(row, EVICTIONS, 1)
    if load(system, INCLUSIVE):
        last = load(system, DEPTH) - 1
        for other in range(load(system, CORES)):
            cell = cell_of(system, other, line)
            state = load(cell, STATE) & STATE_BITS
            if state != INVALID:
                modified = 1 if state >= OWNED else 0
                ask_inner_levels(system, other, line, last, DROP)
                drop_outermost(system, other, line, modified)
                dirty |= modified
                end_copy(system, other, line, cell, INVALID)
    if dirty:
        add(row, WRITEBACKS, 1)
        add(row, WRITE_BYTES, line_bytes)


@njit(**OPTIONS)
def drop_outermost(system, core, line, written):
    """Take a line out of a core's outermost level; `written` where its bytes go to the next level."""
    last = load(system, DEPTH) - 1
    level = private(system, core, last)
    ask(system, last, level, DROP, line, 0)
    if last == 0:
        forget_last_line(level, line)
    add(load(level, COUNTS), INVALIDATIONS, 1)
    add(load(level, COUNTS), WRITE_BYTES, written << load(system, LINE_SHIFT))


@njit(**OPTIONS)
def invalidate_others(system, core, line):
    """Every other copy is invalidated."""
    last, first = load(system, DEPTH) - 1, cell_of(system, 0, line)
    for other in range(load(system, CORES)):
        cell = first + other * CELL_BYTES
        if other != core and load(cell, STATE) & STATE_BITS != INVALID:
            ask_inner_levels(system, other, line, last, DROP)
            drop_outermost(system, other, line, 0)
            end_copy(system, other, line, cell, LOST)
            count_event(system, other, line, LOST_COPIES, LINE_INVALIDATIONS)


@njit(**OPTIONS)
def evict_private(system, core, depth, entry):
    """A private level gives up a line for another."""
    level, line, last = private(system, core, depth), entry >> 1, load(system, DEPTH) - 1
    row, line_bytes = load(level, COUNTS), 1 << load(system, LINE_SHIFT)
    add(row, EVICTIONS, 1)
    dirty = entry & 1 | ask_inner_levels(system, core, line, depth, DROP)
    if depth == last:
        cell = cell_of(system, core, line)
        dirty = 1 if load(cell, STATE) & STATE_BITS >= OWNED else 0
        end_copy(system, core, line, cell, INVALID)
    if dirty:
        add(row, WRITEBACKS, 1)
        add(row, WRITE_BYTES, line_bytes)
        if depth == last:
            write_back(system, core, line)
        else:
            next_level = private(system, core, depth + 1)
            ask(system, depth + 1, next_level, LOOK, line, 1)
            add(load(next_level, COUNTS), HITS, 1)


@njit(**OPTIONS)
def fill(system, core, line, depth, writes):
    """Bring a line into the levels before `depth`, the outermost first."""
    line_bytes = 1 << load(system, LINE_SHIFT)
    for each in range(depth - 1, -1, -1):
        level = private(system, core, each)
        add(load(level, COUNTS), READ_BYTES, line_bytes)
        evicted = ask(system, each, level, PUT, line, writes if each == 0 else 0)
        if evicted >= 0:
            evict_private(system, core, each, evicted)


@njit(**OPTIONS)
def owner_of(system, core, line):
    """The other core that holds the line exclusive, owned or modified, or −1; −2 where others share it."""
    no_owner, first = -1, cell_of(system, 0, line)
    for other in range(load(system, CORES)):
        state = load(first + other * CELL_BYTES, STATE) & STATE_BITS
        if other != core and state != INVALID:
            if state >= EXCLUSIVE_STATE:
                return other
            no_owner = -2
    return no_owner


@njit(**OPTIONS)
def share(system, owner, line):
    """The owner keeps its copy and lets another core read it."""
    cell = cell_of(system, owner, line)
    word = load(cell, STATE)
    state = word & STATE_BITS
    publish_stores(system, owner, line, cell)
    if state == OWNED:
        return
    forget_last_line(private(system, owner, 0), line)
    if state == MODIFIED and load(system, MOESI):
        store(cell, STATE, word - MODIFIED + OWNED)
        return
    store(cell, STATE, word - state + SHARED_STATE)
    if state == MODIFIED:
        last, line_bytes = load(system, DEPTH) - 1, 1 << load(system, LINE_SHIFT)
        ask_inner_levels(system, owner, line, last, CLEAN)
        level = private(system, owner, last)
        ask(system, last, level, CLEAN, line, 0)
        add(load(level, COUNTS), WRITE_BYTES, line_bytes)
        count_event(system, owner, line, DOWNGRADES, LINE_DOWNGRADES)
        write_back(system, owner, line)


@njit(**OPTIONS)
def fetch_shared(system, core, line):
    """Read a line from the shared level or main memory: what that costs."""
    level, depth, costs = load(system, SHARED), load(system, DEPTH), load(system, COSTS)
    if level == 0:
        return load(costs, depth + 1)
    row = load(level, COUNTS) + core * ROW_BYTES
    if ask(system, depth, level, LOOK, line, 0):
        add(row, HITS, 1)
        return load(costs, depth)
    add(row, MISSES, 1)
    add(row, READ_BYTES, 1 << load(system, LINE_SHIFT))
    evicted = ask(system, depth, level, PUT, line, 0)
    if evicted >= 0:
        evict_shared(system, core, evicted)
    return load(costs, depth + 1)


@njit(**OPTIONS)
def miss(system, core, line, cell, writes):
    """The core holds no copy: get one."""
    depth = load(system, DEPTH)
    for each in range(depth):
        add(load(private(system, core, each), COUNTS), MISSES, 1)
    owner = owner_of(system, core, line)
    if owner >= 0:
        cost = load(load(system, COSTS), depth + 2)
        count_event(system, core, line, RECEIVED, LINE_TRANSFERS)
        add(load(system, CORE_ROWS) + owner * CORE_BYTES, SUPPLIED, 1)
        if not writes:
            share(system, owner, line)
    else:
        cost = fetch_shared(system, core, line)
    if writes:
        invalidate_others(system, core, line)
    word = load(cell, STATE)
    if word & LOST == 0:
        store(cell, OTHERS_WROTE, 0)
    state = MODIFIED if writes else (EXCLUSIVE_STATE if owner == -1 else SHARED_STATE)
    store(cell, STATE, state | (PENDING if word & LOST else 0))
    fill(system, core, line, depth, writes)
    return cost


@njit(**OPTIONS)
def hit(system, core, line, cell, writes):
    """The core holds a copy in one of its levels: find it, and own it where it is written."""
    depth, place = load(system, DEPTH), 0
    while True:
        level = private(system, core, place)
        row = load(level, COUNTS)
        if ask(system, place, level, LOOK, line, writes if place == 0 else 0):
            add(row, HITS, 1)
            break
        add(row, MISSES, 1)
        place += 1
    cost = load(load(system, COSTS), place)
    word = load(cell, STATE)
    state = word & STATE_BITS
    if writes and state != MODIFIED:
        if state != EXCLUSIVE_STATE:
            cost += load(load(system, COSTS), depth + 3)
            count_event(system, core, line, UPGRADES, LINE_UPGRADES)
            invalidate_others(system, core, line)
        store(cell, STATE, word - state + MODIFIED)
    fill(system, core, line, place, writes)
    return cost


@njit(**OPTIONS)
def access_line(system, core, line, mask, writes):
    """One access of the parts `mask` of a line: what it costs."""
    cell = cell_of(system, core, line)
    if load(cell, STATE) & STATE_BITS == INVALID:
        cost = miss(system, core, line, cell, writes)
    else:
        cost = hit(system, core, line, cell, writes)
    word = load(cell, STATE)
    if word & PENDING and load(cell, OTHERS_WROTE) & mask:
        count_event(system, core, line, TRUE_SHARING, LINE_TRUE)
        store(cell, OTHERS_WROTE, 0)
        store(cell, STATE, word - PENDING)
    used = SINCE if writes else READ
    store(cell, used, load(cell, used) | mask)
    note_last_line(private(system, core, 0), line, writes)
    return cost


@njit(**OPTIONS)
def note_last_line(level, line, writes):
    """Note at the first level that one more access of the line, the newest of its set now, is a plain repeat.

    A load then finds the line noted, a store finds it noted dirty: modified, and held by this core alone. Where
    even a repeat changes the policy's state, nothing is noted.
    """
    last_lines = load(level, LAST_LINES)
    if last_lines:
        slot = line & load(level, LAST_LINES_MASK)
        dirty = 1 if writes or load(last_lines, slot) == (line << 1 | 1) else 0
        store(last_lines, slot, line << 1 | dirty)
