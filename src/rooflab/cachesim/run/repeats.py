"""Iterations of a loop that touch the same lines as the one before: counted once nothing changes any more.

Where a loop moves what its body touches only within lines (the columns of a matrix, eight of them a line), its
iterations make the same requests in the same order. An iteration that leaves every cache as it found it is so
followed by ones that count the same, and leave them so too. Whether it does is seen by comparing the caches with
a copy made before it, so that the counts are exact whatever the policy.

A level that only hit need not be compared, if all nearer ones are as they were: it will be asked for the same
again, holds all of it and gives up none, and a second time puts nothing in another order (of QLRU this is not so:
there nothing may have been asked). Levels that hold more than a comparison is worth are not copied: these must
only hit.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from llvmlite import ir
from numba import njit, types

from rooflab.cachesim.level.hierarchy import Hierarchy
from rooflab.cachesim.level.queued_levels import settle
from rooflab.cachesim.native.compile import INLINED, OPTIONS
from rooflab.cachesim.native.layout import COUNTER_WORDS, HITS, MISSES, UNIT_SHIFT
from rooflab.cachesim.native.words import I64, WORD, add, intrinsic, load, load_vector, pointer, store
from rooflab.cachesim.run.inner_loops import WATCHED, address_of
from rooflab.cachesim.sets.set_vectors import WIDEST
from rooflab.cachesim.streams.nests import MOST_LOOPS, REFERENCE_WORDS
from rooflab.types.simulation import Cache

# Words of what is watched: how many levels there are, words of a level's counters, for each loop the address of
# its copy, then for each level the address of its counters, address and number of the words of its tags and of its
# meta, and whether hits grow old (QLRU).
LEVELS, COUNTS_WORDS, COPIES, ROWS = 0, 1, 2, 2 + MOST_LOOPS
_COUNTS, _TAGS, _TAG_WORDS, _META, _META_WORDS, _AGES, _ROW = range(7)
# Words of a copy: before which step it was made, levels in it, how often in a row it was in vain, how many
# chances to pass over, how many levels the last comparison asked for; from HELD on, each level's counters, then
# tags and meta of those that are in it.
_STEP, _HELD_LEVELS, _VAIN, _PASS, _WANTED, HELD = 0, 1, 2, 3, 4, 8
_NO_STEP = -1
_WORDS_AN_ACCESS = 4  # that may be copied and compared for each access that may be saved
_PATIENCE, _LONGEST_PAUSE = 3, 8  # failures before chances are passed over, at most 2**8
BLOCK = 32  # words compared at once


def can_repeat(level: Cache) -> bool:
    """Whether the state of `level` is its tags, its dirty bits and at most a word for each set."""
    sectored = level.sector_bytes not in (None, level.line_bytes)
    positional = level.policy == "plru" or level.policy.startswith("qlru")
    ordered = level.policy in ("lru", "fifo") and level.set_ways <= WIDEST
    # Prefetchers stop at pages: where an array lies in its page counts too.
    return (positional or ordered) and not sectored and not level.prefetch


class Watched:
    """What `repeated` compares of a hierarchy; `address` is 0 where nothing may be left out."""

    def __init__(self, built: Hierarchy, loops: Collection[int]) -> None:
        """`loops`: numbers of the loops that are to be watched."""
        fits = (
            built.units is None
            and not built.tlbs
            and all(can_repeat(level) and level.inclusion != "exclusive" for level in built.levels)
        )
        self.address, self._kept = 0, []
        if not (loops and fits):
            return
        words = self._array(ROWS + _ROW * len(built.levels))
        size = HELD
        for number in range(len(built.levels)):
            counts, tags, meta = built.counts(number), built.tags(number), built.meta(number)
            words[LEVELS], words[COUNTS_WORDS] = len(built.levels), counts.size
            row = words[ROWS + _ROW * number :]
            row[_COUNTS], row[_TAGS], row[_TAG_WORDS] = counts.ctypes.data, tags.ctypes.data, tags.nbytes // WORD
            row[_META], row[_META_WORDS] = meta.ctypes.data, meta.size
            row[_AGES] = built.levels[number].policy.startswith("qlru")
            size += counts.size + tags.nbytes // WORD + meta.size
        for number in loops:
            copy = self._array(size)
            copy[_STEP], copy[_WANTED] = _NO_STEP, len(built.levels)
            words[COPIES + number] = copy.ctypes.data
        self.address = words.ctypes.data

    def _array(self, words: int) -> np.ndarray:
        array = np.zeros(words, np.int64)
        self._kept.append(array)
        return array


@intrinsic
def _copy(typing_context, target, source, words):
    """Copy `words` words from one address to another."""

    def generate(context, builder, signature, args):
        byte = ir.PointerType(ir.IntType(8))
        to, of = (builder.inttoptr(each, byte) for each in args[:2])
        moved = builder.module.declare_intrinsic("llvm.memcpy", [byte, byte, I64])
        nbytes = builder.shl(args[2], ir.Constant(I64, 3))
        builder.call(moved, [to, of, nbytes, ir.Constant(ir.IntType(1), 0)])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@intrinsic
def _block_differs(typing_context, one, other, index):
    """Not zero where `BLOCK` words from word `index` on differ between two addresses."""
    vector = ir.VectorType(I64, BLOCK)

    def generate(context, builder, signature, args):
        first, second = (
            load_vector(builder, pointer(builder, each, args[2], vector), vector) for each in args[:2]
        )
        unlike = builder.icmp_unsigned("!=", first, second)
        return builder.zext(builder.bitcast(unlike, ir.IntType(BLOCK)), I64)

    return types.int64(types.int64, types.int64, types.int64), generate


@njit(**OPTIONS)
def _same(one, other, words):
    at = 0
    while at + BLOCK <= words:
        if _block_differs(one, other, at):
            return False
        at += BLOCK
    differs = 0
    for each in range(at, words):
        differs |= load(one, each) ^ load(other, each)
    return differs == 0


@njit(**INLINED)
def _repeats_ahead(state, scratch, references, count, number, step, extent):
    # How many iterations of loop `number` after the last, `step` − 1, touch the same lines as that one.
    ahead, shift = extent - step, load(state, UNIT_SHIFT)
    for each in range(count):
        reference = references + each * (REFERENCE_WORDS * WORD)
        stride = load(reference, 4 + number)
        # The counter of the loop is still that of the last iteration, those of inner loops are zero.
        address, last = address_of(reference, scratch), load(reference, 1) - 1
        unit = address >> shift
        if (address + last) >> shift != unit:
            return 0
        if stride > 0:
            ahead = min(ahead, (((unit + 1) << shift) - 1 - last - address) // stride)
        else:
            ahead = min(ahead, (address - (unit << shift)) // -stride)
    return ahead


@njit(**INLINED)
def _held_levels(watched, copy, ahead, accesses):
    # How many levels are worth a copy.
    room, levels = ahead * accesses * _WORDS_AN_ACCESS, 0
    while levels < load(copy, _WANTED):
        row = watched + (ROWS + _ROW * levels) * WORD
        room -= load(row, _TAG_WORDS) + load(row, _META_WORDS)
        if room < 0:
            break
        levels += 1
    return levels


@njit(**OPTIONS)
def _take(watched, copy, step, levels):
    store(copy, _STEP, step)
    store(copy, _HELD_LEVELS, levels)
    words, at = load(watched, COUNTS_WORDS), copy + HELD * WORD
    for level in range(load(watched, LEVELS)):
        row = watched + (ROWS + _ROW * level) * WORD
        _copy(at, load(row, _COUNTS), words)
        at += words * WORD
    for level in range(levels):
        row = watched + (ROWS + _ROW * level) * WORD
        _copy(at, load(row, _TAGS), load(row, _TAG_WORDS))
        at += load(row, _TAG_WORDS) * WORD
        _copy(at, load(row, _META), load(row, _META_WORDS))
        at += load(row, _META_WORDS) * WORD


@njit(**OPTIONS)
def _changed(row, was, words):
    # Whether a level may hold something else than when its counters were `was`.
    counts, refreshes = load(row, _COUNTS), load(row, _AGES)
    for word in range(0, words, COUNTER_WORDS):
        hits, misses = load(counts, word + HITS) - load(was, word + HITS), load(counts, word + MISSES)
        if misses != load(was, word + MISSES) or (refreshes and hits != 0):
            return True
    return False


@njit(**OPTIONS)
def _changed_levels(watched, copy):
    # How many levels, near to far, are to be compared: at least one, whose hits are not counted.
    words, levels = load(watched, COUNTS_WORDS), 1
    for level in range(1, load(watched, LEVELS)):
        if _changed(watched + (ROWS + _ROW * level) * WORD, copy + (HELD + words * level) * WORD, words):
            levels = level + 1
    return levels


@njit(**OPTIONS)
def _as_before(watched, copy, levels):
    # Whether that many levels hold what they held when the copy was made.
    if levels > load(copy, _HELD_LEVELS):
        return False
    at = copy + (HELD + load(watched, COUNTS_WORDS) * load(watched, LEVELS)) * WORD
    for level in range(levels):
        row = watched + (ROWS + _ROW * level) * WORD
        if not _same(at, load(row, _TAGS), load(row, _TAG_WORDS)):
            return False
        at += load(row, _TAG_WORDS) * WORD
        if not _same(at, load(row, _META), load(row, _META_WORDS)):
            return False
        at += load(row, _META_WORDS) * WORD
    return True


@njit(**OPTIONS)
def _count_again(watched, copy, times):
    words, was = load(watched, COUNTS_WORDS), copy + HELD * WORD
    for level in range(load(watched, LEVELS)):
        counts = load(watched + (ROWS + _ROW * level) * WORD, _COUNTS)
        for word in range(words):
            add(counts, word, (load(counts, word) - load(was, word)) * times)
        was += words * WORD


@njit(**OPTIONS)
def repeated(state, scratch, table, number, step, extent):
    """The step at which loop `number` goes on: `step`, or a later one where those between are counted.

    Args:
        state: the first level.
        scratch: with what is watched, and counters of loops.
        table: the address of what follows an AGAIN: accesses of an iteration, references that the loop moves.
        number: of the loop.
        step: that is next.
        extent: of the loop.
    """
    settle(state)
    watched = load(scratch, WATCHED)
    copy = load(watched, COPIES + number)
    ahead = _repeats_ahead(state, scratch, table + 2 * WORD, load(table, 1), number, step, extent)
    if load(copy, _STEP) == step - 1:
        store(copy, _STEP, _NO_STEP)
        wanted = _changed_levels(watched, copy)
        store(copy, _WANTED, wanted)
        if _as_before(watched, copy, wanted):
            store(copy, _VAIN, 0)
            _count_again(watched, copy, ahead)
            return step + ahead
        vain = load(copy, _VAIN) + 1
        store(copy, _VAIN, vain)
        if vain > _PATIENCE:
            store(copy, _PASS, 1 << min(vain - _PATIENCE, _LONGEST_PAUSE))
    if ahead < 2:
        return step
    if load(copy, _PASS) > 0:
        add(copy, _PASS, -1)
        return step
    levels = _held_levels(watched, copy, ahead - 1, load(table, 0))
    if levels > 0:
        _take(watched, copy, step, levels)
    return step
