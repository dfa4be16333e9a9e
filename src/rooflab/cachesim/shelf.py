"""A cache without anything behind it: lines are looked up, put in, dropped. What cores share is built of these.

    ask_shelf(address, level, request, line, dirty)

`LOOK` finds a line and notes its use: 1 where it is there. `PUT` returns the entry displaced, or one below
zero. `DROP` takes a line out, `CLEAN` clears its dirty bit: 0 where it is not there, else 2 + its dirty bit.
"""

from __future__ import annotations

import functools
from typing import Any

from llvmlite import ir
from numba import types

from rooflab.cachesim import policies
from rooflab.cachesim.coherence_layout import DROP, LOOK, PUT
from rooflab.cachesim.compiled import callback
from rooflab.cachesim.layout import TAGS
from rooflab.cachesim.level import set_of
from rooflab.cachesim.memory import I64, intrinsic, load, store

SIGNATURE = types.int64(*([types.int64] * 4))


@intrinsic
def ask_shelf(typing_context, function, level, request, line, dirty):
    """What the shelf compiled at address `function` answers."""

    def generate(context, builder, signature, args):
        kind = ir.FunctionType(I64, [I64] * 4)
        return builder.call(builder.inttoptr(args[0], ir.PointerType(kind)), args[1:])

    return types.int64(*([types.int64] * 5)), generate


def make_shelf(policy: policies.Policy) -> Any:
    """The plain function of a shelf with that policy."""
    find, touch, insert, remove, _ = policy

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
        tags = load(level, TAGS)
        entry = load(tags, place)
        if request == DROP:
            remove(level, index, place)
        else:
            store(tags, place, entry & ~1)
        return 2 | (entry & 1)

    return answer


@functools.cache
def compiled_shelf(kind: str, ways: int) -> Any:
    """The compiled shelf of that policy and number of ways; `.address` is where to call it."""
    if ways > policies.WIDEST and kind in ("lru", "fifo"):
        ways = policies.WIDEST + 1  # hashed sets: one function for all widths
    return callback(SIGNATURE, make_shelf(policies.make(kind, ways)), f"shelf {kind} {ways}")
