"""Whose turn it is: the streams of several cores run side by side until they end, or until one wants a refill."""

from __future__ import annotations

from numba import njit

from rooflab.cachesim import race_core
from rooflab.cachesim.coherence_core import CELL_BYTES, CORE_BYTES, access_line
from rooflab.cachesim.coherence_layout import (
    ACQUIRE,
    ADDRESS_SHIFT,
    AT_BARRIER,
    ATOMIC,
    BARRIER,
    BEFORE,
    BLOCKED,
    BY_TIME,
    CELLS,
    CHUNK,
    CORE_NEEDS,
    CORE_ROWS,
    CORES,
    COSTS,
    DEPTH,
    DONE,
    FINISHED,
    HITS,
    LAST,
    LEFT,
    LENGTH,
    LIMIT,
    LINE_SHIFT,
    LOADS,
    LONGEST,
    MISUSED,
    MODIFIED,
    PART_SHIFT,
    PENDING,
    POSITION,
    PRIVATE,
    QUANTUM,
    READ,
    RELEASE,
    RUNNING,
    SHADOW,
    SINCE,
    STATE,
    STATUS,
    STORES,
    STUCK,
    SYNC_HOLDERS,
    TIME,
    TROUBLE,
    TURN,
    WAITS,
)
from rooflab.cachesim.compiled import INLINED, OPTIONS, kernel
from rooflab.cachesim.layout import COUNTS, MEMO, MEMO_MASK
from rooflab.cachesim.memory import add, load, shift_right, store


@njit(**INLINED)
def parts(first, last, part_shift):
    """A mask of the parts of a line from byte `first` to byte `last` of it."""
    low = first >> part_shift
    return shift_right(-1, 63 - ((last >> part_shift) - low)) << low


@njit(**OPTIONS)
def across_lines(world, core, address, nbytes, writes):
    """An access of any length: what it costs."""
    shift, part_shift, cost, end = load(world, LINE_SHIFT), load(world, PART_SHIFT), 0, address + nbytes - 1
    for line in range(address >> shift, (end >> shift) + 1):
        first, last = max(address, line << shift), min(end, ((line + 1) << shift) - 1)
        within = (1 << shift) - 1
        cost += access_line(world, core, line, parts(first & within, last & within, part_shift), writes)
    return cost


@njit(**OPTIONS)
def next_turn(world):
    """The core that goes on, or −1 where none can."""
    cores, rows = load(world, CORES), load(world, CORE_ROWS)
    core = load(world, TURN)
    if load(world, BY_TIME):
        chosen, least = -1, 0
        for each in range(cores):
            row = rows + each * CORE_BYTES
            if load(row, STATUS) == RUNNING and (chosen < 0 or load(row, TIME) < least):
                chosen, least = each, load(row, TIME)
        store(world, LEFT, 1)
        return chosen
    if load(world, LEFT) > 0 and load(rows + core * CORE_BYTES, STATUS) == RUNNING:
        return core
    each = core
    for _ in range(cores):
        each = each + 1 if each + 1 < cores else 0  # a division would take longer than the access
        if load(rows + each * CORE_BYTES, STATUS) == RUNNING:
            store(world, TURN, each)
            store(world, LEFT, load(world, QUANTUM))
            return each
    return -1


@njit(**OPTIONS)
def open_barrier(world):
    """Let all cores go on from a barrier; False where one of them is not there."""
    cores, rows, latest = load(world, CORES), load(world, CORE_ROWS), 0
    for core in range(cores):
        row = rows + core * CORE_BYTES
        if load(row, STATUS) != AT_BARRIER:
            return False
        latest = max(latest, load(row, TIME))
    for core in range(cores):
        row = rows + core * CORE_BYTES
        store(row, STATUS, RUNNING)
        store(row, TIME, latest)
    race_core.meet(world)
    return True


@njit(**OPTIONS)
def all_finished(world):
    """Whether every stream has ended."""
    for core in range(load(world, CORES)):
        if load(load(world, CORE_ROWS) + core * CORE_BYTES, STATUS) != FINISHED:
            return False
    return True


@njit(**OPTIONS)
def order(world, core, row, address, nbytes, operation):
    """An atomic, a lock or a barrier: False where the core waits and comes back to it."""
    if operation == BARRIER:
        store(row, STATUS, AT_BARRIER)
        return True
    sync, rows = race_core.sync_of(world, address), load(world, CORE_ROWS)
    holders = load(world, SYNC_HOLDERS)
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
        race_core.acquire(world, core, sync)
    add(row, STORES, 1)
    add(row, TIME, across_lines(world, core, address, nbytes, 1))
    if operation == ATOMIC and load(world, SHADOW):
        race_core.check(world, core, race_core.ordinal_of(world, core), address, nbytes, operation)
    if operation != ACQUIRE:
        race_core.release(world, core, sync)
    if operation == RELEASE:
        for other in range(load(world, CORES)):
            waiting = rows + other * CORE_BYTES
            if load(waiting, STATUS) == BLOCKED and load(waiting, WAITS) == sync:
                store(waiting, STATUS, RUNNING)
                store(waiting, TIME, max(load(waiting, TIME), load(row, TIME)))
    return True


@njit(**OPTIONS)
def turn(world, core):
    """Let `core` go on for what is left of its turn: 0, or what stops everything."""
    row = load(world, CORE_ROWS) + core * CORE_BYTES
    chunk, position, length = load(row, CHUNK), load(row, POSITION), load(row, LENGTH)
    first = load(load(world, PRIVATE), core * load(world, DEPTH))
    memo, memo_mask, counts = load(first, MEMO), load(first, MEMO_MASK), load(first, COUNTS)
    shift, part_shift = load(world, LINE_SHIFT), load(world, PART_SHIFT)
    within, cores, shadow = (1 << shift) - 1, load(world, CORES), load(world, SHADOW)
    cells = load(world, CELLS) + core * CELL_BYTES
    near_cost, limit = load(load(world, COSTS), 0), load(world, LIMIT)
    left, hits, loads, stores, cost = load(world, LEFT), 0, 0, 0, 0
    stopped = 0
    while left > 0:
        if position == length:
            if load(row, LAST):
                store(row, STATUS, FINISHED)
            else:
                stopped = CORE_NEEDS + core
            break
        record = load(chunk, position)
        operation, nbytes, address = record & 15, record >> 4 & LONGEST, record >> ADDRESS_SHIFT
        # Compiled code that believed a wrong record would write into the memory of others.
        if (record < 0 or nbytes == 0 or address + nbytes > limit) and operation != BARRIER:
            stopped = MISUSED
            break
        if operation > 1:
            store(row, POSITION, position)
            if not order(world, core, row, address, nbytes, operation):
                if load(row, STATUS) == RUNNING:
                    stopped = MISUSED
                left = 0
                break
            position += 1
            left = 0 if operation == BARRIER else left - 1
            continue
        line, end = address >> shift, address + nbytes - 1
        if end >> shift == line:
            mask = parts(address & within, end & within, part_shift)
            cell = cells + line * (cores * CELL_BYTES)
            word = load(cell, STATE)
            noted = load(memo, line & memo_mask) if memo else -1
            # a load may find the line clean or dirty; a store needs it dirty and the core its owner
            fast = (noted | (1 - operation)) == (line << 1 | 1) and word & PENDING == 0
            if fast and (operation == 0 or word == MODIFIED):
                hits += 1
                cost += near_cost
                used = SINCE if operation else READ
                store(cell, used, load(cell, used) | mask)
            else:
                cost += access_line(world, core, line, mask, operation)
        else:
            cost += across_lines(world, core, address, nbytes, operation)
        if shadow:
            race_core.check(world, core, load(row, BEFORE) + position, address, nbytes, operation)
        stores += operation
        loads += 1 - operation
        position += 1
        left -= 1
    if stopped == MISUSED:
        store(world, TROUBLE, core)
    store(row, POSITION, position)
    store(world, LEFT, left)
    add(row, LOADS, loads)
    add(row, STORES, stores)
    add(row, TIME, cost)
    add(counts, HITS, hits)
    return stopped


def _run(world):
    while True:
        core = next_turn(world)
        if core < 0:
            if open_barrier(world):
                continue
            return DONE if all_finished(world) else STUCK
        stopped = turn(world, core)
        if stopped != 0:
            return stopped


run = kernel(_run, "run cores")
