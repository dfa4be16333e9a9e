"""The interpreter of affine nests: every loop but the innermost step by step, the innermost by `inner_loops`.

`run(state, table, scratch, first, last, mode)` runs the table's outermost loop from `first` to `last`. Mode PLAIN
makes every access. The other two leave out what cannot change anything: while no reference of an innermost
loop leaves its unit, every iteration touches the same lines in the same order, so that after one that
only hits (SETTLE), or at once where the first level keeps them all whatever happens (AT_ONCE: LRU, no
more references than ways, no level that takes lines away), the rest are hits and leave the state as it is.
Where the scratch says what to compare, iterations that repeat the one before are not run either (`repeats`).
Hits are not counted here: how many accesses there are is known beforehand (see `warping`).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from rooflab.cachesim.level.access import ROW_BYTES, access_uncounted, open_state
from rooflab.cachesim.level.plain_kinds import Kind
from rooflab.cachesim.level.queued_levels import settle
from rooflab.cachesim.native.compile import INLINED, OPTIONS, kernel
from rooflab.cachesim.native.layout import CHANGES, COUNTS, IGNORED, MISSES, UNIT_SHIFT
from rooflab.cachesim.native.words import WORD, call, count_bits, load, store
from rooflab.cachesim.run.inner_loops import (
    ADDRESSES,
    COMPARED,
    COUNTERS,
    ENTERED,
    LEAVES,
    NEVER,
    PERIODS,
    SCRATCH_WORDS,
    STRIDES,
    WATCHED,
    address_of,
    steps_of,
)
from rooflab.cachesim.run.repeats import repeated
from rooflab.cachesim.streams import nests
from rooflab.cachesim.streams.nests import ACCESS, AGAIN, END, INNER, LOOP, MOST_LOOPS, REFERENCE_WORDS

PLAIN, SETTLE, AT_ONCE = range(3)
# Scratch words of each loop; the others are those of `inner_loops`.
_EXTENTS = MOST_LOOPS
_REFERENCE_BYTES = REFERENCE_WORDS * WORD


def table_of(loop: nests.Loop, unit_bytes: int, first: Kind | None = None) -> np.ndarray:
    """The table that `run` takes for `loop`; of the first level: bytes of a unit, its kind (see `steps_of`)."""
    words = nests.encode(loop, lambda accesses: steps_of(accesses, unit_bytes, first), unit_bytes)
    return np.array(words, np.int64)


def scratch(watched: int = 0) -> np.ndarray:
    """Words for `run` to work in; `watched`: what is compared to find steps that repeat (`Watched.address`)."""
    words = np.zeros(SCRATCH_WORDS, np.int64)
    words[WATCHED] = watched
    return words


@njit(**OPTIONS)
def _extent(table, at, scratch):
    # Of the loop whose header begins at `at`: number, extent, loop that clips it, total.
    extent, around = load(table, at + 1), load(table, at + 2)
    if around < 0:
        return extent
    return min(extent, load(table, at + 3) - load(scratch, COUNTERS + around) * extent)


@njit(**INLINED)
def _leaves(scratch, each, nbytes, step, shift):
    # The first step after `step` at which reference `each` touches another unit; the next where it straddles two.
    stride = load(scratch, STRIDES + each)
    address = load(scratch, ADDRESSES + each) + stride * step
    unit = address >> shift
    if (address + nbytes - 1) >> shift != unit:
        return step + 1
    if stride > 0:
        return step + (((unit + 1) << shift) - nbytes - address) // stride + 1
    if stride < 0:
        return step + (address - (unit << shift)) // -stride + 1
    return NEVER


@njit(**INLINED)
def _first_to_leave(state, references, scratch, count, step, last):
    # The step at which the first of the references leaves the unit that it is in at `step`; at most `last`.
    for each in range(count):
        leaves = load(scratch, LEAVES + each)
        if leaves <= step:
            nbytes = load(references + each * _REFERENCE_BYTES, 1)
            leaves = _leaves(scratch, each, nbytes, step, load(state, UNIT_SHIFT))
            store(scratch, LEAVES + each, leaves)
        last = min(last, leaves)
    return last


@njit(**OPTIONS)
def _changes(state, references, count):
    # A number that grows whenever an access of these references changes what the first level holds.
    counts, changes = load(state, COUNTS), load(state, CHANGES)
    for each in range(count):
        row = counts + load(references + each * _REFERENCE_BYTES, 3) * ROW_BYTES
        changes += load(row, MISSES)
    return changes


@njit(**INLINED)
def _collapsed(state, steps, references, scratch, count, last, mode):
    # Steps 0 to `last`, but for those that change nothing.
    for each in range(count):
        store(scratch, LEAVES + each, 0)
    step = 0
    while step < last:
        end = _first_to_leave(state, references, scratch, count, step, last)
        settled = False
        while step < end and not settled:
            before = _changes(state, references, count)
            call(steps, state, references, scratch, step, step + 1)
            settled = mode == AT_ONCE or _changes(state, references, count) == before
            step += 1
        step = end


@njit(**INLINED)
def _note_period(scratch, each, stride, shift):
    # For how many steps reference `each` stays in a unit, and the step (0 or before) at which it came into that
    # of step 0. Where the stride is no power of two these differ from unit to unit: it is looked at in every step.
    size = stride if stride >= 0 else -stride
    period, entered = 1, 0
    if size == 0:
        entered = NEVER
    elif size & (size - 1) == 0 and size < 1 << shift:
        bits = count_bits(size - 1)
        period = 1 << (shift - bits)
        entered = (load(scratch, ADDRESSES + each) & ((1 << shift) - 1)) >> bits
        entered = -entered if stride > 0 else entered + 1 - period
    store(scratch, PERIODS + each, period)
    store(scratch, ENTERED + each, entered)


@njit(**OPTIONS)
def _innermost(state, table, at, scratch, mode, last):
    # `last` steps of the innermost loop whose header begins at `at`, from where its counter is; what follows it.
    number, steps, count = load(table, at), load(table, at + 4), load(table, at + 5)
    references, shift = table + (at + 6) * WORD, load(state, UNIT_SHIFT)
    quarter = 1 << shift >> 2
    for each in range(count):
        reference = references + each * _REFERENCE_BYTES
        stride = load(reference, 4 + number)
        if stride > quarter or -stride > quarter:
            mode = PLAIN  # it leaves its unit so soon that looking ahead costs more than it saves
        store(scratch, ADDRESSES + each, address_of(reference, scratch))
        store(scratch, STRIDES + each, stride)
        # A load may find the unit clean or dirty, a store dirty alone (see `access`).
        store(scratch, COMPARED + each, ~load(state, IGNORED) & (load(reference, 2) - 2))
        _note_period(scratch, each, stride, shift)
    if mode == PLAIN:
        call(steps, state, references, scratch, 0, last)
    else:
        _collapsed(state, steps, references, scratch, count, last, mode)
    return at + 6 + count * REFERENCE_WORDS


@njit(**OPTIONS)
def _interpreted(state, table, scratch, first, last, mode):
    view, at = open_state(state), 0
    for loop in range(MOST_LOOPS):
        store(scratch, COUNTERS + loop, 0)
    # The counter of a loop that does not run is zero: addresses are sums over all.
    outer = load(table, 1)
    store(scratch, COUNTERS + outer, first)
    store(scratch, _EXTENTS + outer, last)
    if load(table, at) == INNER:
        _innermost(state, table, at + 1, scratch, mode, last - first)
        return
    at = 6
    while True:
        what = load(table, at)
        if what == INNER:
            at = _innermost(state, table, at + 1, scratch, mode, _extent(table, at + 1, scratch))
        elif what == ACCESS:
            address = address_of(table + (at + 1) * WORD, scratch)
            access_uncounted(view, address, load(table, at + 2), load(table, at + 3), load(table, at + 4))
            at += 1 + REFERENCE_WORDS
        elif what == LOOP:
            number, extent = load(table, at + 1), _extent(table, at + 1, scratch)
            store(scratch, COUNTERS + number, 0)
            store(scratch, _EXTENTS + number, extent)
            at = at + 6 if extent > 0 else load(table, at + 5)
        elif what in (END, AGAIN):
            number = load(table, at + 1)
            step, extent = load(scratch, COUNTERS + number) + 1, load(scratch, _EXTENTS + number)
            if step < extent and what == AGAIN and load(scratch, WATCHED):
                step = repeated(state, scratch, table + (at + 3) * WORD, number, step, extent)
            if step < extent:
                store(scratch, COUNTERS + number, step)
                at = load(table, at + 2) + 6
            else:
                store(scratch, COUNTERS + number, 0)
                at += 3 if what == END else 5 + load(table, at + 4) * REFERENCE_WORDS
        else:
            return


def _run(state, table, scratch, first, last, mode):
    _interpreted(state, table, scratch, first, last, mode)
    settle(state)


run = kernel(_run)
