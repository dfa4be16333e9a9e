"""Plain levels with short entries, one after the other: what the first asks of the next waits until there is more.

No level sees what those after it do (see `plain_levels`). So what the first asks for need not be answered at once:
its requests wait in a queue, in order, and are answered together when that is full, or when somebody looks. Each
level then is a short loop of its own, whose sets stay near and whose words stay in registers.

    63                    32   31                      1   0
    ┌───────────────────────┬──────────────────────────┬───────┐
    │ where the reference's │ line                     │ write │    a request: a line that is read,
    │ counters begin        │                          │       │    or written back
    └───────────────────────┴──────────────────────────┴───────┘
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from numba import njit

from rooflab.cachesim.level.access import ROW_BYTES, access, is_noted, open_state, slot_of
from rooflab.cachesim.level.plain_kinds import Kind, name_of
from rooflab.cachesim.native.compile import INLINED, Named, callback, native_address
from rooflab.cachesim.native.layout import (
    COLD,
    COUNTS,
    DRAIN_CALL,
    HITS,
    MASK,
    MISSES,
    NEXT_LEVEL,
    QUEUE,
    QUEUE_FULL,
    QUEUED,
    READ_BYTES,
    REFERENCES,
    SETS,
    SETTLE_CALL,
    TAGS,
    UNIT_SHIFT,
    WRITE_BYTES,
    WRITEBACKS,
)
from rooflab.cachesim.native.words import CALL_SIGNATURE, WORD, add, call, load, prefetch, store
from rooflab.cachesim.sets.lru_sets import FOUND, ordered_set
from rooflab.cachesim.sets.set_vectors import EMPTY, padded

QUEUED_REQUESTS = 128  # that wait at most, but for two
_ENTRY = (1 << 32) - 1  # the bits of a request that are an entry
_KEPT: list[Any] = []  # machine code lives as long as what compiled it


class Queued(NamedTuple):
    """The addresses of what answers an access to the first level, of `drain` and of `settle`."""

    answer: int
    drain: int
    settle: int


def queue_words(level: int) -> int:
    """Words of the queue of requests to the level after `level`, counted from 0: each may ask for two more."""
    return (QUEUED_REQUESTS + 2) << level


def make_access(kind: Kind | None) -> Any:
    """A compiled `access`; with the first level inlined where levels are queued and it is of `kind`."""
    if kind is None:
        return access
    ask = make_request(kind)

    @Named(f"inlined {kind.tag}").inlined
    def access_inlined(view, address, nbytes, request, reference):
        if (address + (nbytes - 1)) >> view.shift != address >> view.shift:
            call(view.split_call, view.state, address, nbytes, request, reference)
        elif is_noted(view, address, request):
            add(view.counts + reference * ROW_BYTES, HITS, 1)
        else:
            ask(view, address, nbytes, request, reference)

    return access_inlined


@njit(**INLINED)
def settle(state):
    """Have the requests answered that wait, if any can, and all counters completed."""
    function = load(state, SETTLE_CALL)
    if function:
        call(function, state, 0, 0, 0, 0)


def settle_from_python(descriptor: Any) -> None:
    """`settle` of the first level with that descriptor."""
    if descriptor[SETTLE_CALL]:
        _function(int(descriptor[SETTLE_CALL]))(descriptor.ctypes.data)


@functools.cache
def _function(address: int) -> Callable[[int], None]:
    # numba's own convention (see `words.call`)
    words = [ctypes.c_void_p] * 2 + [ctypes.c_int64] * 5
    function = ctypes.CFUNCTYPE(ctypes.c_int32, *words)(address)
    result, error = ctypes.c_int64(), ctypes.c_void_p()

    def settled(state: int) -> None:
        function(ctypes.byref(result), ctypes.byref(error), state, 0, 0, 0, 0)

    return settled


@njit(**INLINED)
def _ask(view, address, nbytes, request, reference):
    call(view.unit_call, view.state, address, nbytes, request, reference)


@functools.cache
def make_request(kind: Kind | None) -> Any:
    """Compiled `ask(view, address, nbytes, request, reference)`: an access within a unit; `kind` as above."""
    if kind is None:
        return _ask
    first = make_first(kind)

    @Named(f"asked {kind.tag}").inlined
    def ask(view, address, _nbytes, request, reference):
        first(view, address, request, reference)

    return ask


@functools.cache
def make_first(kind: Kind) -> Any:
    """Compiled `first(view, address, request, reference)`: a load or store of a unit, inlined where called."""
    matching, renew, push, _ = ordered_set(kind.ways, kind.bits)

    @Named(f"queueing {kind.tag}").inlined
    def first(view, address, request, reference):
        # The last-line slot of a set is its two newest entries: where the set begins.
        entries, line, row = slot_of(view, address), address >> view.shift, view.counts + reference * ROW_BYTES
        matched = matching(entries, 0, line << 1)
        if matched:
            renew(entries, 0, matched, request)
            add(row, HITS, 1)
            return
        old = push(entries, 0, line << 1 | request)
        add(row, MISSES, 1)
        at, whose = load(view.state, QUEUED), reference * (ROW_BYTES << 32)
        store(at, 0, whose | line << 1)
        # Whether a line leaves dirty is hard to foresee: what does not is put down too, and written over.
        store(at, 1, whose | old)
        at += WORD + WORD * (old & 1)
        add(row, WRITEBACKS, old & 1)
        if old < 0:
            add(row, COLD, 1)
        store(view.state, QUEUED, at)
        if at >= load(view.state, QUEUE_FULL):
            call(load(view.state, DRAIN_CALL), view.state, 0, 0, 0, 0)

    return first


@njit(**INLINED)
def _complete(state):
    # A level is asked for what the one before missed, but for what was written there whole, and for what that
    # wrote back; what is no miss is a hit.
    shift, references = load(state, UNIT_SHIFT), load(state, REFERENCES)
    level, following = state, load(state, NEXT_LEVEL)
    while level:
        row, asked_row = load(level, COUNTS), load(following, COUNTS) if following else 0
        for _ in range(references):
            store(row, WRITE_BYTES, load(row, WRITEBACKS) << shift)
            if following:
                asked = load(row, MISSES) + (load(row, READ_BYTES) >> shift) + load(row, WRITEBACKS)
                store(asked_row, HITS, asked - load(asked_row, MISSES))
            row, asked_row = row + ROW_BYTES, asked_row + ROW_BYTES
        level, following = following, load(following, NEXT_LEVEL) if following else 0


def _make_place(kind: Kind) -> Any:
    """Compiled `place(tags, sets, entry)`: where the set of `entry` begins; `sets`: see `_sets_word`."""
    scale, masked = (padded(kind.ways) * kind.bits // 8).bit_length() - 1, kind.masked

    @Named(f"queued {kind.tag}").inlined
    def place(tags, sets, entry):
        if masked:
            return tags + (entry << (scale - 1) & sets << scale)
        return tags + ((entry >> 1) % sets << scale)

    return place


def _sets_word(kind: Kind) -> int:
    """The word of a level of that kind that says how many sets there are: a mask where that is enough."""
    return MASK if kind.masked else SETS


def _make_middle(kind: Kind, next_kind: Kind) -> Any:
    """Compiled `middle(level, at, end)`: requests answered from `at` to `end`; where those that they make end."""
    (matching, renew, push, _), place, next_place = (
        ordered_set(kind.ways, kind.bits),
        _make_place(kind),
        _make_place(next_kind),
    )
    sets_word, next_sets_word, is_brought_near = _sets_word(kind), _sets_word(next_kind), next_kind.masked

    @Named(f"queued {kind.tag}").inlined
    def middle(level, at, end):
        tags, counts, sets = load(level, TAGS), load(level, COUNTS), load(level, sets_word)
        unit, made, following = 1 << load(level, UNIT_SHIFT), load(level, QUEUE), load(level, NEXT_LEVEL)
        next_tags, next_sets = load(following, TAGS), load(following, next_sets_word)
        while at < end:
            asked = load(at, 0)
            at += WORD
            entry = asked & _ENTRY
            entries = place(tags, sets, entry)
            matched = matching(entries, 0, entry)
            if matched:
                renew(entries, 0, matched, entry & 1)
                continue
            row, old = counts + (asked >> 32), push(entries, 0, entry)
            add(row, MISSES, 1)
            if entry & 1:
                add(row, READ_BYTES, -unit)  # a whole line comes in: there is nothing to read
            else:
                store(made, 0, asked)
                made += WORD
                if is_brought_near:
                    prefetch(next_place(next_tags, next_sets, entry))
            store(made, 0, asked - entry + old)
            made += WORD * (old & 1)
            add(row, WRITEBACKS, old & 1)
            if old < 0:
                add(row, COLD, 1)
        return made

    return middle


def _make_last(kind: Kind) -> Any:
    """Compiled `last(level, at, end)`: as `middle`, of a level before main memory, which answers all."""
    use, place, sets_word = ordered_set(kind.ways, kind.bits).use, _make_place(kind), _sets_word(kind)

    @Named(f"queued last {kind.tag}").inlined
    def last(level, at, end):
        tags, counts, sets = load(level, TAGS), load(level, COUNTS), load(level, sets_word)
        unit = 1 << load(level, UNIT_SHIFT)
        while at < end:
            asked = load(at, 0)
            at += WORD
            row, entry = counts + (asked >> 32), asked & _ENTRY
            # Hit or miss is hard to foresee at the last level, and no next level needs to know: no branch.
            old = use(place(tags, sets, entry), 0, entry)
            add(row, MISSES, 0 if old == FOUND else 1)
            if entry & 1 and old != FOUND:
                add(row, READ_BYTES, -unit)
            add(row, WRITEBACKS, old & 1)
            if old == EMPTY:
                add(row, COLD, 1)

    return last


def _make_drain(kinds: tuple[Kind, ...]) -> Any:
    """Compiled `drain(level)`: what waits at the first level is answered by those after it, of `kinds`."""
    last, named = _make_last(kinds[-1]), Named(name_of(kinds))
    if len(kinds) == 1:

        @named.part
        def drain(level):
            first = load(level, QUEUE)
            last(load(level, NEXT_LEVEL), first, load(level, QUEUED))
            store(level, QUEUED, first)

        return drain

    middle = _make_middle(*kinds)

    @named.part
    def drain_two(level):
        first, second = load(level, QUEUE), load(level, NEXT_LEVEL)
        end = middle(second, first, load(level, QUEUED))
        last(load(second, NEXT_LEVEL), load(second, QUEUE), end)
        store(level, QUEUED, first)

    return drain_two


@functools.cache
def compiled(kinds: tuple[Kind, ...]) -> Queued:
    """The compiled functions of levels of those kinds, at least two; they stay in memory."""
    first, drain, name = make_first(kinds[0]), _make_drain(kinds[1:]), name_of(kinds[1:])

    def answered(level, address, _nbytes, request, reference):
        first(open_state(level), address, request, reference)
        return 0

    def drained(level, _address, _nbytes, _request, _reference):
        drain(level)
        return 0

    def settled(level, _address, _nbytes, _request, _reference):
        drain(level)
        _complete(level)
        return 0

    callbacks = []
    for function, each in (
        (answered, f"queueing {kinds[0].tag}"),
        (drained, f"drain {name}"),
        (settled, f"settle {name}"),
    ):
        callbacks.append(callback(CALL_SIGNATURE, function, each))
    _KEPT.extend(callbacks)
    return Queued(*(native_address(each) for each in callbacks))
