"""The interpreter of affine nests: innermost loops run as straight code, everything around them step by step.

`run(state, table, scratch, first, last, mode)` runs the table's outermost loop from `first` to `last`. Mode PLAIN
makes every access. The other two leave out what cannot change anything: while no reference of an innermost
loop leaves its unit, every iteration touches the same lines in the same order, so that after one that
only hits (SETTLE), or at once where the first level keeps them all whatever happens (AT_ONCE: LRU, no
more references than ways, no level that takes lines away), the rest are hits and leave the state as it is.
Hits are not counted here: how many accesses there are is known beforehand (see `warping`).
"""

from __future__ import annotations

from typing import Any

from numba import njit

from rooflab.cachesim.compiled import INLINED, OPTIONS, Named, kernel
from rooflab.cachesim.core import ROW_BYTES, access_uncounted, open_state, slot_of
from rooflab.cachesim.layout import CHANGES, COUNTS, IGNORED, MISSES, PAIRED, STORE, UNIT_SHIFT
from rooflab.cachesim.memory import WORD, call, count_bits, halves_swapped, load, store
from rooflab.cachesim.nests import ACCESS, END, INNER, LOOP, MOST_LOOPS, MOST_REFERENCES, REFERENCE_WORDS

PLAIN, SETTLE, AT_ONCE = range(3)
UNROLLED = 8  # references of an innermost loop that become straight code; more are looped over
_NEVER = 1 << 60
_NOTHING = -3  # no note in a memo
_NARROW_LINE = 0xFFFFFFFE  # the line of an entry of 32 bits
# Words of the scratch memory: loop counters and extents, then addresses, strides and line changes of references.
_COUNTERS, _EXTENTS, _ADDRESSES, _MOST = 0, MOST_LOOPS, 2 * MOST_LOOPS, MOST_REFERENCES
_STRIDES, _CHANGES, _CARES = _ADDRESSES + _MOST, _ADDRESSES + 2 * _MOST, _ADDRESSES + 3 * _MOST
_PERIODS, _ENTERED = _CARES + _MOST, _CARES + 2 * _MOST
_CROSSING = _ENTERED + _MOST  # whether an access of the innermost loop may cross units
SCRATCH_WORDS = _CROSSING + 1


@njit(**OPTIONS)
def _extent(table, at, scratch):
    # Of the loop whose header begins at `at`: number, extent, loop that clips it, total.
    extent, around = load(table, at + 1), load(table, at + 2)
    if around < 0:
        return extent
    return min(extent, load(table, at + 3) - load(scratch, _COUNTERS + around) * extent)


@njit(**OPTIONS)
def _address(table, at, scratch, inner):
    # Of the reference at `at`, the counter of loop `inner` being zero.
    address = load(table, at)
    for loop in range(MOST_LOOPS):
        if loop != inner:
            address += load(table, at + 4 + loop) * load(scratch, _COUNTERS + loop)
    return address


def _make_body(references: int) -> Any:
    """A compiled function that makes one access for each of the first `references` of an innermost loop.

    They are known not to cross units. Of each, `noted` holds the step at which it will have left its unit, where
    the memo of its set lies, and the note found there: as long as it is still there, another access changes
    nothing. What only a miss needs is read from memory then: what stays in registers is few.
    """
    if references == 0:

        @njit(**INLINED)
        def nothing(view, noted, periods, at, scratch, step):
            return ()

        return nothing
    before, last = _make_body(references - 1), references - 1

    @Named(f"{references}").inlined
    def body(view, noted, periods, at, scratch, step):
        done = before(view, noted, periods, at, scratch, step)
        leaves, slot, note = noted[3 * last], noted[3 * last + 1], noted[3 * last + 2]
        if step >= leaves or load(slot, 0) != note:
            if step >= leaves:
                leaves += periods[last]
            address = load(scratch, _ADDRESSES + last) + load(scratch, _STRIDES + last) * step
            slot, key, care = slot_of(view, address), address >> view.shift << 1 | 1, load(scratch, _CARES + last)
            note = load(slot, 0)
            if (note ^ key) & care:
                second = halves_swapped(note)
                place = at + last * (REFERENCE_WORDS * WORD)
                if (second ^ key) & _NARROW_LINE == 0 and load(view.state, PAIRED):
                    # The second newest of its set: the two change places.
                    note = second | load(place, 2)
                    store(slot, 0, note)
                else:
                    call(view.unit_call, view.state, address, load(place, 1), load(place, 2), load(place, 3))
                    note = load(slot, 0)
                    if (note ^ key) & care:
                        note = _NOTHING
        return (*done, leaves, slot, note)

    return body


def _make_words(count: int) -> Any:
    """A compiled function: the `count` words at a base as a tuple: they stay in registers."""
    if count == 1:

        @njit(**INLINED)
        def one(base, at):
            return (load(base, at),)

        return one
    before, last = _make_words(count - 1), count - 1

    @Named(f"{count}").inlined
    def words(base, at):
        return (*before(base, at), load(base, at + last))

    return words


def _make_opening(count: int) -> Any:
    """A compiled function: what `_make_body` needs to know of `count` references before the first step."""
    if count == 0:

        @njit(**INLINED)
        def nothing(memo, scratch):
            return ()

        return nothing
    before, last = _make_opening(count - 1), count - 1

    @Named(f"{count}").inlined
    def opening(memo, scratch):
        return (*before(memo, scratch), load(scratch, _ENTERED + last), memo, _NOTHING)

    return opening


def _make_inner(references: int) -> Any:
    body, words, opening = _make_body(references), _make_words(references), _make_opening(references)

    @Named(f"{references}").part
    def inner(state, table, at, scratch, first, last):
        view = open_state(state)
        periods, place = words(scratch, _PERIODS), table + at * WORD
        noted = opening(view.memo, scratch)
        for step in range(first, last):
            noted = body(view, noted, periods, place, scratch, step)

    return inner


_INNER = tuple(_make_inner(references) for references in range(1, UNROLLED + 1))
_one, _two, _three, _four, _five, _six, _seven, _eight = _INNER


@njit(**OPTIONS)
def _looped(state, table, at, scratch, references, first, last):
    view = open_state(state)
    for step in range(first, last):
        for each in range(references):
            place = at + each * REFERENCE_WORDS
            address = load(scratch, _ADDRESSES + each) + load(scratch, _STRIDES + each) * step
            access_uncounted(view, address, load(table, place + 1), load(table, place + 2), load(table, place + 3))


@njit(**OPTIONS)
def _steps(state, table, at, scratch, references, first, last):
    # Steps `first` to `last` of an innermost loop, every access of them.
    if load(scratch, _CROSSING):
        _looped(state, table, at, scratch, references, first, last)
    elif references == 1:
        _one(state, table, at, scratch, first, last)
    elif references == 2:
        _two(state, table, at, scratch, first, last)
    elif references == 3:
        _three(state, table, at, scratch, first, last)
    elif references == 4:
        _four(state, table, at, scratch, first, last)
    elif references == 5:
        _five(state, table, at, scratch, first, last)
    elif references == 6:
        _six(state, table, at, scratch, first, last)
    elif references == 7:
        _seven(state, table, at, scratch, first, last)
    elif references == 8:
        _eight(state, table, at, scratch, first, last)
    else:
        _looped(state, table, at, scratch, references, first, last)


@njit(**OPTIONS)
def _leaves(scratch, each, nbytes, step, shift):
    # The first step after `step` at which reference `each` touches another unit; the next where it straddles two.
    stride = load(scratch, _STRIDES + each)
    address = load(scratch, _ADDRESSES + each) + stride * step
    unit = address >> shift
    if (address + nbytes - 1) >> shift != unit:
        return step + 1
    if stride > 0:
        return step + (((unit + 1) << shift) - nbytes - address) // stride + 1
    if stride < 0:
        return step + (address - (unit << shift)) // -stride + 1
    return _NEVER


@njit(**OPTIONS)
def _changes(state, table, at, references):
    # A number that grows whenever an access of these references changes what the first level holds.
    counts, made = load(state, COUNTS), load(state, CHANGES)
    for each in range(references):
        row = counts + load(table, at + each * REFERENCE_WORDS + 3) * ROW_BYTES
        made += load(row, MISSES)
    return made


@njit(**OPTIONS)
def _collapsed(state, table, at, scratch, references, extent, mode):
    shift = load(state, UNIT_SHIFT)
    for each in range(references):
        store(scratch, _CHANGES + each, 0)
    step = 0
    while step < extent:
        end = extent
        for each in range(references):
            leaves = load(scratch, _CHANGES + each)
            if leaves <= step:
                leaves = _leaves(scratch, each, load(table, at + each * REFERENCE_WORDS + 1), step, shift)
                store(scratch, _CHANGES + each, leaves)
            end = min(end, leaves)
        if mode == AT_ONCE:
            _steps(state, table, at, scratch, references, step, step + 1)
            step += 1
        else:
            settled = False
            while step < end and not settled:
                before = _changes(state, table, at, references)
                _steps(state, table, at, scratch, references, step, step + 1)
                settled = _changes(state, table, at, references) == before
                step += 1
        step = end


@njit(**INLINED)
def _note_period(scratch, each, stride, shift):
    # How many steps reference `each` stays in a unit, and the step, none or before the first, at which it came
    # into that of the first. Strides that are no power of two are looked at in every step.
    size = stride if stride >= 0 else -stride
    period, entered = 1, 0
    if size == 0:
        entered = _NEVER
    elif size & (size - 1) == 0 and size < 1 << shift:
        bits = count_bits(size - 1)
        period = 1 << (shift - bits)
        entered = (load(scratch, _ADDRESSES + each) & ((1 << shift) - 1)) >> bits
        entered = -entered if stride > 0 else entered + 1 - period
    store(scratch, _PERIODS + each, period)
    store(scratch, _ENTERED + each, entered)


@njit(**OPTIONS)
def _innermost(state, table, at, scratch, mode, first, last):
    # `at` is where the header begins.
    number, references, refs = load(table, at), load(table, at + 4), at + 5
    if first < 0:
        first, last = 0, _extent(table, at, scratch)
    quarter = 1 << load(state, UNIT_SHIFT) >> 2
    store(scratch, _CROSSING, 0)
    for each in range(references):
        place = refs + each * REFERENCE_WORDS
        stride = load(table, place + 4 + number)
        if stride > quarter or -stride > quarter:
            mode = PLAIN  # it leaves its unit so soon that looking ahead costs more than it saves
        store(scratch, _ADDRESSES + each, _address(table, place, scratch, number) + stride * first)
        store(scratch, _STRIDES + each, stride)
        request = load(table, place + 2)
        if request > STORE:
            store(scratch, _CROSSING, 1)
        # A load may find the unit clean or dirty, a store dirty alone (see `core`).
        store(scratch, _CARES + each, ~load(state, IGNORED) & (request - 2))
        _note_period(scratch, each, stride, load(state, UNIT_SHIFT))
        size, moved = load(table, place + 1), load(scratch, _ADDRESSES + each) | stride
        if size & (size - 1) or moved & (size - 1) or size > 4 * quarter:
            store(scratch, _CROSSING, 1)
    if mode == PLAIN:
        _steps(state, table, refs, scratch, references, 0, last - first)
    else:
        _collapsed(state, table, refs, scratch, references, last - first, mode)
    return refs + references * REFERENCE_WORDS


def _run(state, table, scratch, first, last, mode):
    view = open_state(state)
    if load(table, 0) == INNER:
        _innermost(state, table, 1, scratch, mode, first, last)
        return
    outer = load(table, 1)
    for loop in range(MOST_LOOPS):
        store(scratch, _COUNTERS + loop, 0)
    store(scratch, _COUNTERS + outer, first)
    store(scratch, _EXTENTS + outer, last)
    at = 6
    while True:
        what = load(table, at)
        if what == INNER:
            at = _innermost(state, table, at + 1, scratch, mode, -1, -1)
        elif what == ACCESS:
            address = _address(table, at + 1, scratch, -1)
            access_uncounted(view, address, load(table, at + 2), load(table, at + 3), load(table, at + 4))
            at += 1 + REFERENCE_WORDS
        elif what == LOOP:
            number, extent = load(table, at + 1), _extent(table, at + 1, scratch)
            store(scratch, _COUNTERS + number, 0)
            store(scratch, _EXTENTS + number, extent)
            at = at + 6 if extent > 0 else load(table, at + 5)
        elif what == END:
            number = load(table, at + 1)
            step = load(scratch, _COUNTERS + number) + 1
            if step < load(scratch, _EXTENTS + number):
                store(scratch, _COUNTERS + number, step)
                at = load(table, at + 2) + 6
            else:
                store(scratch, _COUNTERS + number, 0)
                at += 3
        else:
            return


run = kernel(_run)
