"""The door to the simulator for compiled code: one access, inlined where the first level has just seen its line.

How a generated numba function counts its accesses:

    from numba import njit
    from rooflab.cachesim.level.access import access, open_state
    from rooflab.cachesim.native.layout import LOAD, STORE

    @njit(nogil=True, error_model="numpy")
    def twin(n, base_a, base_b, state):          # state: an integer, `hierarchy.build(...).address`
        view = open_state(state)                 # once: integers that stay in registers
        for i in range(n):
            access(view, base_a + 8 * i, 8, LOAD, 0)    # reference 0: a[i]
            access(view, base_b + 8 * i, 8, STORE, 1)   # reference 1: b[i] = …

and outside of it:

    from rooflab.cachesim.level import hierarchy
    built = hierarchy.build([Cache(32768, 8), …], references=("a[i]", "b[i] ="), arrays=("a", "b"))
    twin(n, 0, 1 << 20, built.address)
    simulation = built.result(name="twin")       # Simulation; hits, misses, … by level and by reference

Addresses are any non-negative integers below 2**62 (compact made-up bases make counts repeatable: lay arrays out
one after the other, each on a page of its own). `nbytes` is at least 1; an access that crosses a line counts
once for each line. `request` is LOAD, STORE or STREAM (a non-temporal store). Never hand arrays to a
function called per access: integers only. `built` must stay alive while compiled code uses its address. What it is
asked for shows what was counted until then; views that were made before, and addresses, need `built.settle()` or
`queued_levels.settle(state)`.

An access that only repeats the last one to its set changes nothing in any policy but QLRU (the line is the most
recent one, and dirty already where it is written again). The first level therefore notes the unit (line or
sector) in a last-line slot, and the inlined part is a compare and a counter. Where the order among sets counts
(shadows, sectors, an index that is no mask) there is one slot only, the last unit of all; where even
a repeat is to be seen (TLBs, stride prefetchers, QLRU), none.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from numba import njit

from rooflab.cachesim.native.compile import INLINED, callback, native_address
from rooflab.cachesim.native.layout import (
    COUNTER_WORDS,
    COUNTS,
    EXTRA,
    HITS,
    IGNORED,
    LAST_LINES,
    LOAD,
    SELF_CALL,
    SLOT_MASK,
    SLOT_SHIFT,
    SPLIT_CALL,
    STORE,
    TLB,
    TLB_CALL,
    UNIT_CALL,
    UNIT_SHIFT,
)
from rooflab.cachesim.native.words import CALL_SIGNATURE, WORD, add, call, load

ROW_BYTES = COUNTER_WORDS * WORD


class View(NamedTuple):
    """The words of the first level that every access needs: integers that stay in registers."""

    last_lines: Any
    shift: Any
    slot_shift: Any
    slot_mask: Any
    compared_bits: Any
    counts: Any
    unit_call: Any
    split_call: Any
    state: Any


@njit(**INLINED)
def open_state(state):
    """The `View` of a state."""
    return View(
        load(state, LAST_LINES),
        load(state, UNIT_SHIFT),
        load(state, SLOT_SHIFT),
        load(state, SLOT_MASK),
        ~load(state, IGNORED),
        load(state, COUNTS),
        load(state, UNIT_CALL),
        load(state, SPLIT_CALL),
        state,
    )


@njit(**INLINED)
def slot_of(view, address):
    """Where the last-line slot of the set that `address` belongs to lies."""
    return view.last_lines + ((address >> view.slot_shift) & view.slot_mask)


@njit(**INLINED)
def is_noted(view, address, request):
    """Whether one more access like this changes nothing, nor needs to be seen."""
    # A load may find the unit clean or dirty, a store dirty alone: request − 2 is a mask of the bits that matter.
    differs = load(slot_of(view, address), 0) ^ (address >> view.shift << 1 | 1)
    return request <= STORE and differs & (view.compared_bits & (request - 2)) == 0


@njit(**INLINED)
def access(view, address, nbytes, request, reference):
    """Count one access of `nbytes` bytes at `address` by `reference`."""
    if (address + (nbytes - 1)) >> view.shift != address >> view.shift:
        call(view.split_call, view.state, address, nbytes, request, reference)
    elif is_noted(view, address, request):
        add(view.counts + reference * ROW_BYTES, HITS, 1)
    else:
        call(view.unit_call, view.state, address, nbytes, request, reference)


@njit(**INLINED)
def access_uncounted(view, address, nbytes, request, reference):
    """`access` that counts misses alone, for callers who know how many accesses they make.

    Hits are then accesses + EXTRA − MISSES (see `layout`).
    """
    if (address + (nbytes - 1)) >> view.shift != address >> view.shift:
        call(view.split_call, view.state, address, nbytes, request, reference)
    elif not is_noted(view, address, request):
        call(view.unit_call, view.state, address, nbytes, request, reference)


@njit(**INLINED)
def access_within(view, address, nbytes, request, reference):
    """`access` for one that is known to lie within a unit of the first level: aligned, and no longer than it."""
    if is_noted(view, address, request):
        add(view.counts + reference * ROW_BYTES, HITS, 1)
    else:
        call(view.unit_call, view.state, address, nbytes, request, reference)


def _split(state, address, nbytes, request, reference):
    """An access of any length: a request for each unit that it touches, after the TLB."""
    shift, function, tlb = load(state, UNIT_SHIFT), load(state, SELF_CALL), load(state, TLB)
    end = address + nbytes
    if tlb:
        pages = load(tlb, UNIT_SHIFT)
        for page in range(address >> pages, ((end - 1) >> pages) + 1):
            call(load(state, TLB_CALL), tlb, page << pages, 1, LOAD, reference)
    add(load(state, COUNTS) + reference * ROW_BYTES, EXTRA, ((end - 1) >> shift) - (address >> shift))
    for unit in range(address >> shift, ((end - 1) >> shift) + 1):
        first, last = max(address, unit << shift), min(end, (unit + 1) << shift)
        call(function, state, first, last - first, request, reference)
    return 0


@functools.cache
def split_function() -> Any:
    """The compiled function for accesses that cross lines or are translated by a TLB."""
    return callback(CALL_SIGNATURE, _split, "split")


def split_address() -> int:
    """The address of the compiled function for accesses that cross lines or are translated by a TLB."""
    return native_address(split_function())
