"""Whose turn it is: the streams of several cores run side by side until they end, or until one wants a refill."""

from __future__ import annotations

from numba import njit

from rooflab.cachesim.coherence import race_detector
from rooflab.cachesim.coherence.layout import (
    ACQUIRE,
    ADDRESS_END,
    ADDRESS_SHIFT,
    AT_BARRIER,
    BARRIER,
    BARRIERS,
    BEFORE,
    BLOCKED,
    BY_TIME,
    CACHE_CALLS,
    CHUNK,
    CORE_CELLS,
    CORE_FIRST,
    CORE_LAST_LINES,
    CORE_LAST_LINES_MASK,
    CORE_NEEDS,
    CORE_ROWS,
    CORES,
    COSTS,
    DONE,
    FINISHED,
    INVALID,
    LAST,
    LEFT,
    LENGTH,
    LINE_SHIFT,
    LONGEST,
    LOOK,
    MISUSED,
    MODIFIED,
    ORDERED_STORES,
    OTHERS_WROTE,
    PART_SHIFT,
    POSITION,
    QUANTUM,
    READ,
    RELEASE,
    RUNNING,
    SHADOW,
    SINCE,
    SLOW,
    STATE,
    STATE_BITS,
    STATUS,
    STORES,
    STUCK,
    SYNC_HOLDERS,
    TIME,
    TURN,
    WAITS,
)
from rooflab.cachesim.coherence.protocol import CELL_BYTES, CORE_BYTES, access_line, note_last_line
from rooflab.cachesim.coherence.standalone_cache import ask_cache
from rooflab.cachesim.native.compile import INLINED, OPTIONS, kernel
from rooflab.cachesim.native.words import add, load, shift_right, store


@njit(**INLINED)
def part_mask(first, last, part_shift):
    """A mask of the parts of a line from byte `first` to byte `last` of it."""
    low = first >> part_shift
    return shift_right(-1, 63 - ((last >> part_shift) - low)) << low


@njit(**OPTIONS)
def across_lines(system, core, address, nbytes, writes):
    """An access of any length: what it costs."""
    shift, part_shift, cost, end = load(system, LINE_SHIFT), load(system, PART_SHIFT), 0, address + nbytes - 1
    for line in range(address >> shift, (end >> shift) + 1):
        first, last = max(address, line << shift), min(end, ((line + 1) << shift) - 1)
        within = (1 << shift) - 1
        cost += access_line(system, core, line, part_mask(first & within, last & within, part_shift), writes)
    return cost


@njit(**INLINED)
def following(rows, cores, core):
    """The next core after `core` that can go on, itself last; −1 where none can."""
    for _ in range(cores):
        core = core + 1 if core + 1 < cores else 0  # a division would take longer than the access
        if load(rows + core * CORE_BYTES, STATUS) == RUNNING:
            return core
    return -1


@njit(**OPTIONS)
def earliest(rows, cores):
    """The core that can go on and whose time is least, of equals the first; −1 where none can."""
    chosen, least = -1, 0
    for core in range(cores):
        row = rows + core * CORE_BYTES
        if load(row, STATUS) == RUNNING and (chosen < 0 or load(row, TIME) < least):
            chosen, least = core, load(row, TIME)
    return chosen


@njit(**OPTIONS)
def open_barrier(system):
    """Let all cores go on from a barrier; False where one of them is not there."""
    cores, rows, latest = load(system, CORES), load(system, CORE_ROWS), 0
    for core in range(cores):
        row = rows + core * CORE_BYTES
        if load(row, STATUS) != AT_BARRIER:
            return False
        latest = max(latest, load(row, TIME))
    for core in range(cores):
        row = rows + core * CORE_BYTES
        store(row, STATUS, RUNNING)
        store(row, TIME, latest)
    race_detector.join_all(system)
    return True


@njit(**OPTIONS)
def all_finished(system):
    """Whether every stream has ended."""
    for core in range(load(system, CORES)):
        if load(load(system, CORE_ROWS) + core * CORE_BYTES, STATUS) != FINISHED:
            return False
    return True


@njit(**OPTIONS)
def synchronise(system, core, row, address, nbytes, operation):
    """An atomic, a lock or a barrier: False where the core waits and comes back to it."""
    if operation == BARRIER:
        store(row, STATUS, AT_BARRIER)
        add(row, BARRIERS, 1)
        return True
    sync, rows = race_detector.sync_of(system, address), load(system, CORE_ROWS)
    holders = load(system, SYNC_HOLDERS)
    if sync < 0 or operation > RELEASE:
        return False
    if operation == ACQUIRE:
        if load(holders, sync) >= 0:
            store(row, STATUS, BLOCKED)
            store(row, WAITS, sync)
            return False
        store(holders, sync, core)
    if operation == RELEASE:
        if load(holders, sync) != core:
            return False
        store(holders, sync, -1)
    else:
        race_detector.acquire(system, core, sync)
    add(row, ORDERED_STORES, 1)
    add(row, TIME, across_lines(system, core, address, nbytes, 1))
    if load(system, SHADOW):
        race_detector.check(system, core, race_detector.ordinal_of(system, core), address, nbytes, operation)
    if operation != ACQUIRE:
        race_detector.release(system, core, sync)
    if operation == RELEASE:
        for other in range(load(system, CORES)):
            waiting = rows + other * CORE_BYTES
            if load(waiting, STATUS) == BLOCKED and load(waiting, WAITS) == sync:
                store(waiting, STATUS, RUNNING)
                store(waiting, TIME, max(load(waiting, TIME), load(row, TIME)))
    return True


@njit(**INLINED)
def is_repeat(last_lines, last_lines_mask, line, cell, mask, writes):
    """Whether an access changes nothing but what is used of the line (see `protocol.note_last_line`)."""
    last_line = load(last_lines, line & last_lines_mask) | (1 - writes)
    return last_line == (line << 1 | 1) and load(cell, OTHERS_WROTE) & mask == 0


@njit(**OPTIONS)
def access_in_full(system, core, row, address, nbytes, operation):
    """A load or store that is no plain repeat: what it costs."""
    add(row, SLOW, 1)
    return across_lines(system, core, address, nbytes, operation)


@njit(**INLINED)
def is_first_level_hit(level, first_call, line, cell, mask, writes):
    """Whether an access is a hit of the first level and nothing else; it is the newest of its set then."""
    state = load(cell, STATE) & STATE_BITS
    if state == INVALID or (writes and state != MODIFIED) or load(cell, OTHERS_WROTE) & mask:
        return False
    if ask_cache(first_call, level, LOOK, line, writes) == 0:
        return False
    note_last_line(level, line, writes)
    return True


@njit(**INLINED)
def take_turn(system, core, row, left, fixed):
    """Let `core` go on for `left` operations: how many are left then, and what stops everything or 0."""
    shift, part_shift, within, line_cells, shadow, address_end, first_level_cost, first_call = fixed
    chunk, position, length = load(row, CHUNK), load(row, POSITION), load(row, LENGTH)
    last_lines, last_lines_mask, cells = (
        load(row, CORE_LAST_LINES),
        load(row, CORE_LAST_LINES_MASK),
        load(row, CORE_CELLS),
    )
    first, stores, cost, stopped = load(row, CORE_FIRST), 0, 0, 0
    while left > 0:
        if position == length:
            if load(row, LAST):
                store(row, STATUS, FINISHED)
            else:
                stopped = CORE_NEEDS + core
            break
        record = load(chunk, position)
        operation, nbytes, address = record & 15, record >> 4 & LONGEST, record >> ADDRESS_SHIFT
        # Compiled code that believed a wrong record would write over the words of others.
        if (record < 0 or nbytes == 0 or address + nbytes > address_end) and operation != BARRIER:
            stopped = MISUSED
            break
        if operation > 1:
            store(row, POSITION, position)
            if not synchronise(system, core, row, address, nbytes, operation):
                stopped = MISUSED if load(row, STATUS) == RUNNING else 0
                left = 0
                break
            position += 1
            left = 0 if operation == BARRIER else left - 1
            continue
        line, end = address >> shift, address + nbytes - 1
        cell, mask = cells + line * line_cells, part_mask(address & within, end & within, part_shift)
        if end >> shift == line and (
            is_repeat(last_lines, last_lines_mask, line, cell, mask, operation)
            or is_first_level_hit(first, first_call, line, cell, mask, operation)
        ):
            cost += first_level_cost
            used = SINCE if operation else READ
            store(cell, used, load(cell, used) | mask)
        else:
            cost += access_in_full(system, core, row, address, nbytes, operation)
        if shadow:
            race_detector.check(system, core, load(row, BEFORE) + position, address, nbytes, operation)
        stores += operation
        position += 1
        left -= 1
    store(row, POSITION, position)
    add(row, STORES, stores)
    add(row, TIME, cost)
    return left, stopped


def _run(system):
    rows, cores, by_time = load(system, CORE_ROWS), load(system, CORES), load(system, BY_TIME)
    shift, quantum = load(system, LINE_SHIFT), load(system, QUANTUM)
    fixed = (
        shift,
        load(system, PART_SHIFT),
        (1 << shift) - 1,
        cores * CELL_BYTES,
        load(system, SHADOW),
        load(system, ADDRESS_END),
        load(load(system, COSTS), 0),
        load(load(system, CACHE_CALLS), 0),
    )
    core, left = load(system, TURN), load(system, LEFT)
    while True:
        if by_time or left == 0 or load(rows + core * CORE_BYTES, STATUS) != RUNNING:
            chosen = earliest(rows, cores) if by_time else following(rows, cores, core)
            if chosen < 0:
                if open_barrier(system):
                    left = 0
                    continue
                return DONE if all_finished(system) else STUCK
            core, left = chosen, quantum
        left, stopped = take_turn(system, core, rows + core * CORE_BYTES, left, fixed)
        if stopped != 0:
            store(system, TURN, core)
            store(system, LEFT, left)
            return stopped


run = kernel(_run, "run cores")
