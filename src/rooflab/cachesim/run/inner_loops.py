"""The steps of an innermost loop as straight code: a compiled function for each number of references.

    steps(state, references, scratch, first, last)

`references` is the address of the loop's references in its table (see `nests`); what changes from one run of the
loop to the next lies in `scratch`, a word for each reference at each of the offsets below. Another access of
the unit that a reference is in changes nothing while the last-line slot of its set holds the same note (see
`access`). So in most steps a reference is two compares: it has not left its unit, and its note is still there.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from numba import njit

from rooflab.cachesim.level.access import access_uncounted, open_state, slot_of
from rooflab.cachesim.level.plain_kinds import Kind
from rooflab.cachesim.level.queued_levels import make_request
from rooflab.cachesim.native.compile import INLINED, OPTIONS, Named, callback, native_address
from rooflab.cachesim.native.layout import PAIRED, STORE
from rooflab.cachesim.native.words import CALL_SIGNATURE, WORD, halves_swapped, load, store
from rooflab.cachesim.streams.nests import MOST_LOOPS, MOST_REFERENCES, REFERENCE_WORDS, Access

UNROLLED = 8  # references that become straight code; more are looped over
NEVER = 1 << 60  # a step that no loop comes to
COUNTERS = 0  # words of the scratch array where each loop's counter is; then come their extents
# Words of the scratch array after these: for each reference its address at
# step 0, bytes from step to step, for how many steps it stays in a unit, the step at which it came into that of
# step 0, the bits of a note that must agree, and the step at which it leaves its unit.
ADDRESSES, STRIDES, PERIODS, ENTERED, COMPARED, LEAVES = range(
    2 * MOST_LOOPS, 2 * MOST_LOOPS + 6 * MOST_REFERENCES, MOST_REFERENCES
)
WATCHED = LEAVES + MOST_REFERENCES  # the address of what is watched for repetitions (see `repeats`), or 0
SCRATCH_WORDS = WATCHED + 1
_REFERENCE_BYTES = REFERENCE_WORDS * WORD
_NOTHING = -3  # as no last-line slot holds
_NARROW_LINE = 0xFFFFFFFE  # the line of an entry of 32 bits


@njit(**OPTIONS)
def address_of(reference, scratch):
    """Where `reference` is as the counters of all loops are."""
    address = load(reference, 0)
    for loop in range(MOST_LOOPS):
        address += load(reference, 4 + loop) * load(scratch, COUNTERS + loop)
    return address


@functools.cache
def _make_step(count: int, first: Kind | None) -> Any:
    """A compiled function: a step of each of `count` references; by halves, so that few are compiled."""
    if count == 1:
        return _make_one_step(first)
    half = count // 2
    front, rear = _make_step(half, first), _make_step(count - half, first)

    @Named(f"{count} {first and first.tag}").inlined
    def each(view, last_seen, place, scratch, step):
        done = front(view, last_seen[:half], place, scratch, step)
        return done + rear(view, last_seen[half:], place + half * _REFERENCE_BYTES, scratch + half * WORD, step)

    return each


def _make_one_step(first: Kind | None) -> Any:
    ask, is_paired = make_request(first), first is not None

    @Named(f"{first and first.tag}").inlined
    def one(view, last_seen, place, scratch, step):
        # One access of the reference at `place`. `last_seen`: the step at which it leaves its unit, the last-line
        # slot of its set, the note found there, and for how many steps it stays in a unit. What only a miss needs
        # is loaded then: registers are few.
        leaves, slot, note, period = last_seen[0]
        if step >= leaves or load(slot, 0) != note:
            if step >= leaves:
                leaves += period
            address = load(scratch, ADDRESSES) + load(scratch, STRIDES) * step
            slot, key = slot_of(view, address), address >> view.shift << 1 | 1
            note, compared_bits = load(slot, 0), load(scratch, COMPARED)
            if (note ^ key) & compared_bits:
                second = halves_swapped(note)
                if (second ^ key) & _NARROW_LINE == 0 and (is_paired or load(view.state, PAIRED)):
                    # The second newest of its set: the two change places.
                    note = second | load(place, 2)
                    store(slot, 0, note)
                else:
                    ask(view, address, load(place, 1), load(place, 2), load(place, 3))
                    note = load(slot, 0)
                    if not is_paired and (note ^ key) & compared_bits:
                        note = _NOTHING  # a level that notes nothing
        return ((leaves, slot, note, period),)

    return one


@functools.cache
def _make_opening(count: int) -> Any:
    """A compiled function: what `_step` is to know of each of `count` references before the first step."""
    if count == 1:

        @njit(**INLINED)
        def one(last_lines, scratch):
            return ((load(scratch, ENTERED), last_lines, _NOTHING, load(scratch, PERIODS)),)

        return one
    half = count // 2
    front, rear = _make_opening(half), _make_opening(count - half)

    @Named(f"{count}").inlined
    def opening(last_lines, scratch):
        return front(last_lines, scratch) + rear(last_lines, scratch + half * WORD)

    return opening


@functools.cache
def _straight(count: int, kind: Kind | None) -> Any:
    """The compiled steps of `count` references, none of which crosses a unit; `kind`: see `steps_of`."""
    each, opening, tag = _make_step(count, kind), _make_opening(count), f"{count} {kind and kind.tag}"

    def straight(state, references, scratch, first, last):
        view = open_state(state)
        last_seen = opening(view.last_lines, scratch)
        for step in range(first, last):
            last_seen = each(view, last_seen, references, scratch, step)
        return 0

    def alone(state, references, scratch, first, last):
        # Nobody else is there to change the note: where it is once, it is until the reference leaves its unit.
        view, step = open_state(state), first
        last_seen = opening(view.last_lines, scratch)
        while step < last:
            last_seen = each(view, last_seen, references, scratch, step)
            leaves, slot, note, _ = last_seen[0]
            step += 1
            if load(slot, 0) == note:
                step = max(step, min(leaves, last))
        return 0

    steps = alone if count == 1 else straight
    return callback(CALL_SIGNATURE, Named(tag).name(steps), f"steps of {tag}")


def _looped(state, references, scratch, first, last):
    """The steps of any number of references, of any kind."""
    view, count = open_state(state), load(references, -1)
    for step in range(first, last):
        for each in range(count):
            place = references + each * _REFERENCE_BYTES
            address = load(scratch, ADDRESSES + each) + load(scratch, STRIDES + each) * step
            access_uncounted(view, address, load(place, 1), load(place, 2), load(place, 3))
    return 0


@functools.cache
def _any_steps() -> Any:
    return callback(CALL_SIGNATURE, _looped, "steps of any")


def steps_of(accesses: Sequence[Access], unit_bytes: int, first: Kind | None) -> int:
    """The address of the function that makes the steps of an innermost loop of `accesses`, compiled if need be.

    `unit_bytes` are those of the first level; `first` is its kind where levels are queued (see `queued_levels`).
    """
    straight = len(accesses) <= UNROLLED and all(_stays_within(access, unit_bytes) for access in accesses)
    return native_address(_straight(len(accesses), first) if straight else _any_steps())


def _stays_within(access: Access, unit_bytes: int) -> bool:
    """Whether `access` is an ordinary one that lies within one unit wherever its loops are."""
    size = access.nbytes
    aligned = not any(by % size for by in (access.base, *access.strides.values()))
    return aligned and size & (size - 1) == 0 and size <= unit_bytes and access.request <= STORE
