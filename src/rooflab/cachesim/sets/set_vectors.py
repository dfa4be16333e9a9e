"""A set's tags as one vector: find a tag among all ways at once, move a way to the front without a branch.

Tags lie in order of recency, the newest first, padded to a power of two; an entry is line × 2 + dirty, and
EMPTY marks a way that holds nothing. Move-to-front is one shuffle and one select.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from llvmlite.ir.instructions import StoreInstr
from numba import types

from rooflab.cachesim.native.words import I32, I64, intrinsic, load_vector, pointer

EMPTY = -2
WIDEST = 32  # ways; wider sets are found by hashing (`hashed_sets.py`)


class WholeStore(StoreInstr):
    """A volatile store. LLVM would make one under a mask of the select before it, which is slow on Zen."""

    def descr(self, buf: list[str]) -> None:
        """The store as text, with the word that makes it volatile."""
        written: list[str] = []
        super().descr(written)
        buf.append("".join(written).replace("store ", "store volatile ", 1))


def padded(ways: int) -> int:
    """Lanes that hold a set of `ways`: the next power of two, so that vectors need no remainder."""
    return 1 << max(ways - 1, 0).bit_length() if ways > 1 else 2


def make_find(ways: int) -> Any:
    """A compiled `find(tags, first, line)`: the way from word `first` that holds `line`, or −1."""
    lanes = padded(ways)
    vector = ir.VectorType(I64, lanes)

    @intrinsic
    def find(typing_context, tags, first, line):
        def generate(context, builder, signature, args):
            held = load_vector(builder, pointer(builder, args[0], args[1], vector), vector)
            # The dirty bit must not count: set it on both sides.
            held = builder.or_(held, ir.Constant(vector, [1] * lanes))
            key = builder.or_(builder.shl(args[2], ir.Constant(I64, 1)), ir.Constant(I64, 1))
            equal = builder.icmp_unsigned("==", held, splat(builder, key, vector))
            mask = builder.bitcast(equal, ir.IntType(lanes))
            mask = builder.zext(mask, I64)
            way = builder.cttz(mask, ir.Constant(ir.IntType(1), 0))
            missing = builder.icmp_unsigned("==", mask, ir.Constant(I64, 0))
            return builder.select(missing, ir.Constant(I64, -1), way)

        return types.int64(types.int64, types.int64, types.int64), generate

    return find


def make_to_front(ways: int) -> Any:
    """A compiled `to_front(tags, first, way, entry)`: the entry that was last.

    Ways 0 … `way` move back by one and `entry` becomes the first.
    """
    lanes = padded(ways)
    vector = ir.VectorType(I64, lanes)
    undefined = ir.Constant(vector, ir.Undefined)

    @intrinsic
    def to_front(typing_context, tags, first, way, entry):
        def generate(context, builder, signature, args):
            where = pointer(builder, args[0], args[1], vector)
            old = load_vector(builder, where, vector)
            newest = builder.insert_element(undefined, args[3], ir.Constant(I32, 0))
            order = ir.Constant(ir.VectorType(I32, lanes), [lanes, *range(lanes - 1)])
            moved = builder.shuffle_vector(old, newest, order)
            lane = ir.Constant(vector, list(range(lanes)))
            is_moved = builder.icmp_signed("<=", lane, splat(builder, args[2], vector))
            stored: Any = WholeStore(builder.block, builder.select(is_moved, moved, old), where)
            stored.align = 8
            builder._insert(stored)
            return builder.extract_element(old, ir.Constant(I32, ways - 1))

        return types.int64(*([types.int64] * 4)), generate

    return to_front


def splat(builder: Any, value: Any, vector: Any) -> Any:
    """`value` in every lane of a vector of type `vector`."""
    undefined = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(undefined, value, ir.Constant(I32, 0))
    every = ir.Constant(ir.VectorType(I32, vector.count), [0] * vector.count)
    return builder.shuffle_vector(first, undefined, every)
