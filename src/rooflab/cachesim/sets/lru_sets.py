"""Sets in order of recency with entries of 32 or 64 bits: what `plain_levels` does with one, compiled.

As in `set_vectors`, an entry is line × 2 + dirty, EMPTY where a way holds nothing, and lanes after the last way
stay EMPTY. Bits that say which ways matched are kept as such: m ^ (m − 1) are the ways up to the one that matched,
or all where none did, so that no way need be found by counting.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from llvmlite import ir
from llvmlite.ir.instructions import StoreInstr
from numba import types

from rooflab.cachesim.native.words import I32, I64, intrinsic
from rooflab.cachesim.sets.set_vectors import WholeStore, padded, splat

FOUND = -4  # what `use` returns for a hit: no entry, and even, as a clean one


class OrderedSet(NamedTuple):
    """Compiled operations on sets of one number of ways; each takes the address of all tags and a set's number.

    matching(tags, set, entry): a bit for each way that holds the line of `entry`, dirty or not: none or one.
    renew(tags, set, matched, dirty): the entry in the way `matched`, now the newest; dirty if it or `dirty` is.
    push(tags, set, entry): what was the oldest entry; `entry` is the newest.
    use(tags, set, entry): as `push` or, where its line is there, `renew`; then FOUND. Without a branch.
    """

    matching: Any
    renew: Any
    push: Any
    use: Any


def ordered_set(ways: int, bits: int) -> OrderedSet:
    """The operations of sets of `ways` ways, at most `set_vectors.WIDEST`, with entries of 32 or 64 `bits`."""
    emit = _Emitter(ways, bits)
    return OrderedSet(_matching(emit), _renew(emit), _push(emit), _use(emit))


@dataclass(frozen=True)
class _Emitter:
    """Writes the instructions that the operations of one kind of set are made of."""

    ways: int
    bits: int

    @property
    def lanes(self) -> int:
        return padded(self.ways)

    @property
    def word(self) -> Any:
        return ir.IntType(self.bits)

    @property
    def vector(self) -> Any:
        return ir.VectorType(self.word, self.lanes)

    @property
    def bitmap(self) -> Any:
        return ir.IntType(self.lanes)

    def place(self, builder: Any, tags: Any, index: Any) -> Any:
        """A pointer to set `index`."""
        scale = ir.Constant(I64, (self.lanes * self.bits // 8).bit_length() - 1)
        return builder.inttoptr(builder.add(tags, builder.shl(index, scale)), ir.PointerType(self.vector))

    def entry(self, builder: Any, where: Any, way: Any) -> Any:
        """The entry in `way` of the set at `where`, as 64 bits."""
        offset = builder.shl(way, ir.Constant(I64, (self.bits // 8).bit_length() - 1))
        at = builder.inttoptr(builder.add(builder.ptrtoint(where, I64), offset), ir.PointerType(self.word))
        value = builder.load(at, typ=self.word)
        return value if self.bits == 64 else builder.sext(value, I64)

    def oldest(self, builder: Any, where: Any) -> Any:
        return self.entry(builder, where, ir.Constant(I64, self.ways - 1))

    def held(self, builder: Any, where: Any) -> Any:
        """All entries of the set at `where`."""
        value = builder.load(where, typ=self.vector)
        value.align = self.bits // 8
        return value

    def narrowed(self, builder: Any, value: Any) -> Any:
        return value if self.bits == 64 else builder.trunc(value, self.word)

    def differing(self, builder: Any, held: Any, entry: Any) -> Any:
        """The bits in which each of `held` is not `entry`."""
        return builder.xor(held, splat(builder, self.narrowed(builder, entry), self.vector))

    def matches(self, builder: Any, differing: Any, ignored: int) -> Any:
        """Which ways differ in none but the bits `ignored`."""
        bits = builder.and_(differing, ir.Constant(self.vector, [~ignored] * self.lanes))
        return builder.icmp_unsigned("==", bits, ir.Constant(self.vector, [0] * self.lanes))

    def any_of(self, builder: Any, mask: Any) -> Any:
        return builder.icmp_unsigned("!=", builder.bitcast(mask, self.bitmap), ir.Constant(self.bitmap, 0))

    def pushed(self, builder: Any, held: Any, entry: Any) -> Any:
        """`entry` before all of `held` but the last lane."""
        undefined = ir.Constant(self.vector, ir.Undefined)
        newest = builder.insert_element(undefined, self.narrowed(builder, entry), ir.Constant(I32, 0))
        return builder.shuffle_vector(held, newest, self._order(self.lanes, *range(self.lanes - 1)))

    def whole(self, builder: Any, new: Any, old: Any) -> Any:
        """The ways of `new`, the lanes after them of `old`."""
        ways, lanes = self.ways, self.lanes
        if ways == lanes:
            return new
        return builder.shuffle_vector(new, old, self._order(*range(ways), *range(lanes + ways, 2 * lanes)))

    def up_to(self, builder: Any, new: Any, old: Any, matched: Any) -> Any:
        """The ways of `new` up to the one `matched`, or all where none is; those after it of `old`."""
        upto = builder.xor(matched, builder.sub(matched, ir.Constant(self.bitmap, 1)))
        if self.ways < self.lanes:
            upto = builder.and_(upto, ir.Constant(self.bitmap, (1 << self.ways) - 1))
        return builder.select(builder.bitcast(upto, ir.VectorType(ir.IntType(1), self.lanes)), new, old)

    def write(self, builder: Any, value: Any, where: Any) -> None:
        plain = value.opname == "shufflevector"
        stored: Any = (StoreInstr if plain else WholeStore)(builder.block, value, where)
        stored.align = self.bits // 8
        builder._insert(stored)

    def _order(self, *lanes: int) -> Any:
        return ir.Constant(ir.VectorType(I32, len(lanes)), list(lanes))


def _matching(emit: _Emitter) -> Any:
    @intrinsic
    def matching(typing_context, tags, index, entry):
        def generate(context, builder, signature, args):
            held = emit.held(builder, emit.place(builder, *args[:2]))
            mask = emit.matches(builder, emit.differing(builder, held, args[2]), ignored=1)
            return builder.zext(builder.bitcast(mask, emit.bitmap), I64)

        return types.int64(*([types.int64] * 3)), generate

    return matching


def _renew(emit: _Emitter) -> Any:
    @intrinsic
    def renew(typing_context, tags, index, matched, dirty):
        def generate(context, builder, signature, args):
            where = emit.place(builder, *args[:2])
            way = builder.cttz(args[2], ir.Constant(ir.IntType(1), 1))
            entry = builder.or_(emit.entry(builder, where, way), args[3])
            old, matched = emit.held(builder, where), builder.trunc(args[2], emit.bitmap)
            emit.write(builder, emit.up_to(builder, emit.pushed(builder, old, entry), old, matched), where)
            return entry

        return types.int64(*([types.int64] * 4)), generate

    return renew


def _push(emit: _Emitter) -> Any:
    @intrinsic
    def push(typing_context, tags, index, entry):
        def generate(context, builder, signature, args):
            where = emit.place(builder, *args[:2])
            oldest, old = emit.oldest(builder, where), emit.held(builder, where)
            emit.write(builder, emit.whole(builder, emit.pushed(builder, old, args[2]), old), where)
            return oldest

        return types.int64(*([types.int64] * 3)), generate

    return push


def _use(emit: _Emitter) -> Any:
    @intrinsic
    def use(typing_context, tags, index, entry):
        def generate(context, builder, signature, args):
            where = emit.place(builder, *args[:2])
            oldest, old = emit.oldest(builder, where), emit.held(builder, where)
            differing = emit.differing(builder, old, builder.or_(args[2], ir.Constant(I64, 1)))
            mask = emit.matches(builder, differing, ignored=1)
            dirty = emit.any_of(builder, emit.matches(builder, differing, ignored=0))
            entry = builder.or_(args[2], builder.zext(dirty, I64))
            new = emit.pushed(builder, old, entry)
            emit.write(builder, emit.up_to(builder, new, old, builder.bitcast(mask, emit.bitmap)), where)
            return builder.select(emit.any_of(builder, mask), ir.Constant(I64, FOUND), oldest)

        return types.int64(*([types.int64] * 3)), generate

    return use
