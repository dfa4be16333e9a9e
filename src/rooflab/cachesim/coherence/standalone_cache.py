"""A cache without a next level: lines are looked up, put in, dropped. What cores share is built of these.

    ask_cache(address, level, request, line, dirty)

`LOOK` finds a line and notes its use: 1 where it is there. `PUT` returns the entry evicted, or one below
zero. `DROP` takes a line out, `CLEAN` clears its dirty bit: 0 where it is not there, else 2 + its dirty bit.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from llvmlite import ir
from numba import types

from rooflab.cachesim.coherence.layout import DROP, LOOK, PUT
from rooflab.cachesim.native.compile import Named, callback
from rooflab.cachesim.native.layout import TAGS
from rooflab.cachesim.native.words import I32, I64, WORD, intrinsic, load, load_vector, pointer, store
from rooflab.cachesim.sets import policies
from rooflab.cachesim.sets.addressing import set_of
from rooflab.cachesim.sets.set_vectors import EMPTY, WIDEST, WholeStore, padded, splat

SIGNATURE = types.int64(*([types.int64] * 4))


@intrinsic
def ask_cache(typing_context, function, level, request, line, dirty):
    """What the cache compiled at address `function` answers."""

    def generate(context, builder, signature, args):
        # numba's own convention, as in `words.call`.
        byte = ir.PointerType(ir.IntType(8))
        kind = ir.FunctionType(I32, [ir.PointerType(I64), ir.PointerType(byte), *([I64] * 4)])
        with builder.goto_entry_block():
            result, error = builder.alloca(I64), builder.alloca(byte)
        builder.call(builder.inttoptr(args[0], ir.PointerType(kind)), [result, error, *args[1:]])
        return builder.load(result, typ=I64)

    return types.int64(*([types.int64] * 5)), generate


def make_close_up(ways: int) -> Any:
    """A compiled `close_up(tags, first, way)`: ways after `way` move up by one, the last is empty."""
    lanes = padded(ways)
    order = ir.Constant(ir.VectorType(I32, lanes), [*range(1, lanes), lanes])

    def changed(builder: Any, old: Any, here: Any) -> Any:
        moved = builder.shuffle_vector(old, ir.Constant(old.type, [EMPTY] * lanes), order)
        return builder.select(builder.icmp_signed("<", here.lane, here.way), old, moved)

    return _make_change(lanes, changed)


def make_clean(ways: int) -> Any:
    """A compiled `clean(tags, first, way)`: that way is dirty no longer.

    Not by a store of its word: the next look at the set, a vector, would wait for that store to leave the core.
    """

    def changed(builder: Any, old: Any, here: Any) -> Any:
        cleaned = builder.and_(old, ir.Constant(old.type, [~1] * padded(ways)))
        return builder.select(builder.icmp_signed("==", here.lane, here.way), cleaned, old)

    return _make_change(padded(ways), changed)


class _Here(NamedTuple):
    """The number of each lane, and that of the way in each lane."""

    lane: Any
    way: Any


def _make_change(lanes: int, changed: Callable[[Any, Any, _Here], Any]) -> Any:
    vector = ir.VectorType(I64, lanes)

    @intrinsic
    def change(typing_context, tags, first, way):
        def generate(context, builder, signature, args):
            where = pointer(builder, args[0], args[1], vector)
            old = load_vector(builder, where, vector)
            here = _Here(ir.Constant(vector, list(range(lanes))), splat(builder, args[2], vector))
            stored: Any = WholeStore(builder.block, changed(builder, old, here), where)
            stored.align = WORD
            builder._insert(stored)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, types.int64), generate

    return change


class Changes(NamedTuple):
    """What takes a line out of a set, and what clears its dirty bit: compiled (level, set, place)."""

    remove: Any
    clean: Any


def changes(policy: policies.Policy, kind: str, ways: int) -> Changes:
    """Those of a policy; in one step where a set is short enough for a vector."""
    named, lanes = Named(f"standalone {kind} {ways}"), policy.stride
    short = ways <= WIDEST
    close_up, clear = make_close_up(min(ways, WIDEST)), make_clean(min(ways, WIDEST))

    @named.inlined
    def remove(level, index, place):
        first = index * lanes
        close_up(load(level, TAGS), first, place - first)

    @named.inlined
    def clean(level, index, place):
        first = index * lanes
        clear(load(level, TAGS), first, place - first)

    @named.inlined
    def clean_word(level, index, place):
        tags = load(level, TAGS)
        store(tags, place, load(tags, place) & ~1)

    ordered = short and kind in ("lru", "fifo")
    return Changes(remove if ordered else policy.remove, clean if short else clean_word)


def make_cache(policy: policies.Policy, change: Changes) -> Any:
    """The plain function of a standalone cache with that policy."""
    find, touch, insert = policy.find, policy.touch, policy.insert
    remove, clean = change

    def answer(level, request, line, dirty):
        index = set_of(level, line)
        if request == PUT:
            return insert(level, index, line << 1 | dirty, 0)
        place = find(level, index, line)
        if place < 0:
            return 0
        if request == LOOK:
            touch(level, index, place, dirty)
            return 1
        entry = load(load(level, TAGS), place)
        if request == DROP:
            remove(level, index, place)
        else:
            clean(level, index, place)
        return 2 | (entry & 1)

    return answer


@functools.cache
def compiled_cache(kind: str, ways: int) -> Any:
    """The compiled cache of that policy and number of ways; `native_address` says where to call it."""
    if ways > policies.WIDEST and kind in ("lru", "fifo"):
        ways = policies.WIDEST + 1  # hashed sets: one function for all widths
    policy = policies.make(kind, ways)
    return callback(SIGNATURE, make_cache(policy, changes(policy, kind, ways)), f"standalone {kind} {ways}")
