"""A set's tags as one vector: find a tag among all ways at once, move a way to the front without a branch.

Tags lie in order of recency, the newest first, padded to a power of two; an entry is line × 2 + dirty, and
EMPTY marks a way that holds nothing. Move-to-front is one shuffle and one select.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from llvmlite import ir
from llvmlite.ir.instructions import StoreInstr
from numba import types

from rooflab.cachesim.memory import I32, I64, intrinsic, load_vector, pointer

EMPTY = -2
FOUND = -4  # what `use` returns for a hit: no entry, and even, as a clean one
WIDEST = 32  # ways; wider sets are found by hashing (`lists.py`)


class _WholeStore(StoreInstr):
    """A volatile store. LLVM would make one under a mask of the select before it, which is slow on Zen."""

    def descr(self, buf: list[str]) -> None:
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
            equal = builder.icmp_unsigned("==", held, _splat(builder, key, vector))
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
            nearer = builder.icmp_signed("<=", lane, _splat(builder, args[2], vector))
            stored: Any = _WholeStore(builder.block, builder.select(nearer, moved, old), where)
            stored.align = 8
            builder._insert(stored)
            return builder.extract_element(old, ir.Constant(I32, ways - 1))

        return types.int64(*([types.int64] * 4)), generate

    return to_front


class OrderedSet(NamedTuple):
    """Compiled operations on a set of one number of ways, its entries of 32 or 64 bits; all take (tags, set, …).

    matching(tags, set, line): a bit for each way that holds `line`: none or one.
    renew(tags, set, matched, dirty): the entry that `matched` found, newest now, and dirty if it was or `dirty` is.
    push(tags, set, entry): what was the oldest entry; `entry` is the newest.
    use(tags, set, line): as `renew` or `push` of a clean line, found or not, without a branch; FOUND for a hit.
    """

    matching: Any
    renew: Any
    push: Any
    use: Any


def ordered_set(ways: int, bits: int) -> OrderedSet:
    """The operations of LRU sets of `ways` ways with entries of `bits` bits."""
    word, lanes = ir.IntType(bits), padded(ways)
    bitmap = ir.IntType(lanes)
    vector, indices = ir.VectorType(word, lanes), ir.VectorType(I32, lanes)
    scale = ir.Constant(I64, (lanes * bits // 8).bit_length() - 1)
    undefined = ir.Constant(vector, ir.Undefined)

    def place(builder, tags, index):
        return builder.inttoptr(builder.add(tags, builder.shl(index, scale)), ir.PointerType(vector))

    def element(builder, where, way):
        base = builder.ptrtoint(where, I64)
        offset = builder.shl(way, ir.Constant(I64, (bits // 8).bit_length() - 1))
        return builder.inttoptr(builder.add(base, offset), ir.PointerType(word))

    def held(builder, where):
        value = builder.load(where, typ=vector)
        value.align = bits // 8
        return value

    def widened(builder, value):
        return value if bits == 64 else builder.sext(value, I64)

    def narrowed(builder, value):
        return value if bits == 64 else builder.trunc(value, word)

    def matches(builder, value, line):
        # A bit for each way that holds `line`. The dirty bit must not count: set it on both sides.
        key = builder.or_(builder.shl(line, ir.Constant(I64, 1)), ir.Constant(I64, 1))
        either = builder.or_(value, ir.Constant(vector, [1] * lanes))
        splat = _splat(builder, narrowed(builder, key), vector)
        return builder.icmp_unsigned("==", either, splat), splat

    def any_of(builder, mask):
        return builder.icmp_unsigned("!=", builder.bitcast(mask, bitmap), ir.Constant(bitmap, 0))

    def moved(builder, value, entry):
        newest = builder.insert_element(undefined, narrowed(builder, entry), ir.Constant(I32, 0))
        return builder.shuffle_vector(value, newest, ir.Constant(indices, [lanes, *range(lanes - 1)]))

    def write(builder, value, where, blended):
        stored: Any = (_WholeStore if blended else StoreInstr)(builder.block, value, where)
        stored.align = bits // 8
        builder._insert(stored)

    def write_up_to(builder, old, new, matched, where):
        # The ways up to the one matched of `new`, those behind of `old`; without a match, all ways of `new`:
        # m ^ (m - 1) are the bits up to the lowest of m.
        upto = builder.xor(matched, builder.sub(matched, ir.Constant(bitmap, 1)))
        if ways < lanes:
            upto = builder.and_(upto, ir.Constant(bitmap, (1 << ways) - 1))
        chosen = builder.select(builder.bitcast(upto, ir.VectorType(ir.IntType(1), lanes)), new, old)
        write(builder, chosen, where, blended=True)

    @intrinsic
    def matching(typing_context, tags, index, line):
        def generate(context, builder, signature, args):
            mask, _ = matches(builder, held(builder, place(builder, *args[:2])), args[2])
            return builder.zext(builder.bitcast(mask, bitmap), I64)

        return types.int64(*([types.int64] * 3)), generate

    @intrinsic
    def renew(typing_context, tags, index, matched, dirty):
        def generate(context, builder, signature, args):
            where = place(builder, *args[:2])
            way = builder.cttz(args[2], ir.Constant(ir.IntType(1), 1))
            entry = widened(builder, builder.load(element(builder, where, way), typ=word))
            entry, old = builder.or_(entry, args[3]), held(builder, where)
            write_up_to(builder, old, moved(builder, old, entry), builder.trunc(args[2], bitmap), where)
            return entry

        return types.int64(*([types.int64] * 4)), generate

    @intrinsic
    def push(typing_context, tags, index, entry):
        def generate(context, builder, signature, args):
            where = place(builder, *args[:2])
            last = builder.load(element(builder, where, ir.Constant(I64, ways - 1)), typ=word)
            old = held(builder, where)
            new = moved(builder, old, args[2])
            if ways < lanes:
                # The lanes behind the last way stay empty.
                new = builder.shuffle_vector(new, old, ir.Constant(indices, [*range(ways), *range(ways + lanes, 2 * lanes)]))
            write(builder, new, where, blended=ways < lanes)
            return widened(builder, last)

        return types.int64(*([types.int64] * 3)), generate

    @intrinsic
    def use(typing_context, tags, index, line):
        def generate(context, builder, signature, args):
            where = place(builder, *args[:2])
            last = widened(builder, builder.load(element(builder, where, ir.Constant(I64, ways - 1)), typ=word))
            old = held(builder, where)
            mask, splat = matches(builder, old, args[2])
            dirty = any_of(builder, builder.icmp_unsigned("==", old, splat))
            entry = builder.or_(builder.shl(args[2], ir.Constant(I64, 1)), builder.zext(dirty, I64))
            write_up_to(builder, old, moved(builder, old, entry), builder.bitcast(mask, bitmap), where)
            return builder.select(any_of(builder, mask), ir.Constant(I64, FOUND), last)

        return types.int64(*([types.int64] * 3)), generate

    return OrderedSet(matching, renew, push, use)


def _splat(builder: Any, value: Any, vector: Any) -> Any:
    undefined = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(undefined, value, ir.Constant(I32, 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(I32, vector.count), [0] * vector.count))
