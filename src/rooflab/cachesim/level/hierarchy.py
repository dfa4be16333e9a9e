"""Hierarchies of caches: from `Cache` descriptions to arrays that compiled code works on, and back to counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rooflab.cachesim.level import plain_kinds, plain_levels, queued_levels
from rooflab.cachesim.level.access import split_address
from rooflab.cachesim.level.level import compiled_level
from rooflab.cachesim.level.miss_kinds import classify_address
from rooflab.cachesim.native import layout
from rooflab.cachesim.native.words import WORD
from rooflab.cachesim.sets.set_vectors import WIDEST, padded
from rooflab.cachesim.sets.state import State, kind_of
from rooflab.errors import RooflabError
from rooflab.types.simulation import Cache, LevelCounts, ReferenceCounts, Simulation


class Hierarchy(State):
    """Levels ready to be run: `address` is the state that compiled code takes (see `access`).

    It owns all words from that address on: keep it alive while compiled code runs.
    """

    def __init__(
        self,
        levels: Sequence[Cache],
        tlbs: Sequence[Cache],
        references: Sequence[str],
        units: int | None,
        address_end: int | None = None,
    ) -> None:
        self._plain = units is None and not tlbs and plain_kinds.is_plain(levels)
        narrow = self._plain and address_end is not None and plain_kinds.fits_narrow(levels[0], address_end)
        super().__init__(narrow)
        self.levels, self.tlbs, self.references, self.units = levels, tlbs, tuple(references), units
        self._counts: dict[int, np.ndarray] = {}
        self._descriptors = [self._level(cache, units) for cache in levels]
        self._tlb_descriptors = [self._level(cache, units) for cache in tlbs]
        self._connect(self._descriptors, levels)
        self._connect(self._tlb_descriptors, tlbs)
        self._open()

    @property
    def queued(self) -> plain_kinds.Kind | None:
        """The kind of the first level where the others are asked later; else None."""
        return plain_kinds.queued_kind(int(self._descriptors[0][layout.QUEUED_WAYS]))

    @property
    def address(self) -> int:
        """Of the first level's descriptor."""
        return self._descriptors[0].ctypes.data

    def counts(self, level: int) -> np.ndarray:
        """The counters of a level, a row for each reference (columns as in `layout`); a view."""
        self.settle()
        return self._counts[id(self._descriptors[level])]

    def words(self, level: int, word: int, count: int) -> np.ndarray:
        """The array of `count` words that `word` of a level's descriptor names; a view."""
        self.settle()
        return self._named[int(self._descriptors[level][word])][:count]

    def tags(self, level: int) -> np.ndarray:
        """The entries of a level, line × 2 + dirty or EMPTY: a row for each set, some columns unused; a view."""
        return self._ways(level, layout.TAGS)

    def sectors(self, level: int) -> np.ndarray:
        """The sectors of those entries: valid in the low half of a word, dirty in the high half; a view."""
        return self._ways(level, layout.SECTORS)

    def meta(self, level: int) -> np.ndarray:
        """The word that a level's policy keeps of each set; none where the order of tags says all; a view."""
        kept = kind_of(self.levels[level]) in ("plru", "qlru")
        return self.words(level, layout.META, self.levels[level].sets) if kept else np.zeros(0, np.int64)

    def _ways(self, level: int, word: int) -> np.ndarray:
        cache = self.levels[level]
        lanes = padded(cache.set_ways) if cache.set_ways <= WIDEST else cache.set_ways
        return self.words(level, word, cache.sets * lanes).reshape(cache.sets, lanes)

    def forget_last_lines(self) -> None:
        """Forget which units were the last: the caches have been changed from outside."""
        if not self._descriptors[0][layout.PAIRED]:
            self._named[int(self._descriptors[0][layout.LAST_LINES])][:] = -1

    def _level(self, cache: Cache, units: int | None) -> np.ndarray:
        words = self._descriptor(cache)
        if not self.narrow:
            # Levels run as one answer everything themselves where they are narrow: compiling more takes seconds.
            function = compiled_level(kind_of(cache), cache.set_ways)
            words[layout.SELF_CALL], words[layout.GENERAL_CALL] = function.address, function.general
        words[layout.UNIT_SHIFT] = cache.unit_bytes.bit_length() - 1
        words[layout.FLAGS] = _flags(cache)
        words[layout.AHEAD] = cache.prefetch_ahead
        words[layout.STRIDES] = self._address(layout.STRIDE_ENTRIES * layout.STRIDE_WORDS)
        counts = self._array(max(len(self.references), 1) * layout.COUNTER_WORDS)
        counts = counts.reshape(-1, layout.COUNTER_WORDS)
        self._counts[id(words)] = counts
        words[layout.COUNTS] = counts.ctypes.data
        if units is not None:
            words[layout.FLAGS] |= layout.CLASSIFIED
            words[layout.CLASSIFY_CALL] = classify_address()
            words[layout.SHADOW] = self._shadow(cache.capacity_bytes // cache.unit_bytes)
            words[layout.SEEN] = self._seen(units)
        return words

    def _shadow(self, lines: int) -> int:
        words = self._array(layout.DESCRIPTOR_WORDS)
        self._linked(words, 1, lines)
        return words.ctypes.data

    def _seen(self, units: int) -> int:
        bits = max(4, (2 * units).bit_length())
        table = self._array(3 + (1 << bits))
        table[0], table[1] = (1 << bits) - 1, 64 - bits
        return table.ctypes.data

    def _connect(self, descriptors: list[np.ndarray], caches: Sequence[Cache]) -> None:
        for previous, following, cache in zip(descriptors, descriptors[1:], caches[1:], strict=False):
            previous[layout.NEXT_LEVEL] = following.ctypes.data
            previous[layout.NEXT_CALL] = following[layout.SELF_CALL]
            following[layout.PREVIOUS_LEVEL] = previous.ctypes.data
            following[layout.PREVIOUS_CALL] = previous[layout.SELF_CALL]
            if cache.inclusion == "exclusive":
                previous[layout.FLAGS] |= layout.BEFORE_VICTIM

    def _open(self) -> None:
        first, cache = self._descriptors[0], self.levels[0]
        last_only = self.units is not None or cache.sector_bytes is not None or first[layout.MASK] < 0
        slots = 1 if last_only or cache.unit_bytes < WORD else cache.sets
        first[layout.FLAGS] |= layout.FIRST
        if not self.narrow:
            first[layout.LAST_LINES] = self._address(slots, -1)
            first[layout.SLOT_SHIFT], first[layout.SLOT_MASK] = _slots(cache.unit_bytes, WORD, slots)
        else:
            first[layout.LAST_LINES], first[layout.IGNORED] = first[layout.TAGS], -1 << plain_kinds.NARROW
            each = padded(cache.set_ways) * plain_kinds.NARROW // 8
            first[layout.SLOT_SHIFT], first[layout.SLOT_MASK] = _slots(cache.unit_bytes, each, slots)
            first[layout.PAIRED] = 1
        if "stride" not in cache.prefetch and not cache.policy.startswith("qlru") and not self.tlbs:
            first[layout.FLAGS] |= layout.NOTES_LAST_LINE
        if self._plain:
            kinds = plain_kinds.kinds_of(self.levels, plain_kinds.NARROW if self.narrow else 64)
            if self.narrow and len(self.levels) > 1:
                self._queue(kinds)
            else:
                first[layout.SELF_CALL] = plain_levels.address_of(kinds)
        first[layout.SPLIT_CALL] = split_address()
        first[layout.UNIT_CALL] = first[layout.SELF_CALL]
        if self.tlbs:
            first[layout.UNIT_CALL] = first[layout.SPLIT_CALL]
            first[layout.TLB] = self._tlb_descriptors[0].ctypes.data
            first[layout.TLB_CALL] = self._tlb_descriptors[0][layout.SELF_CALL]

    def _queue(self, kinds: tuple[plain_kinds.Kind, ...]) -> None:
        compiled, first = queued_levels.compiled(kinds), self._descriptors[0]
        first[layout.SELF_CALL], first[layout.DRAIN_CALL], first[layout.SETTLE_CALL] = compiled
        first[layout.QUEUED_WAYS] = kinds[0].ways
        first[layout.REFERENCES] = max(len(self.references), 1)
        for level, words in enumerate(self._descriptors[:-1]):
            words[layout.QUEUE] = self._address(queued_levels.queue_words(level))
        first[layout.QUEUED] = first[layout.QUEUE]
        first[layout.QUEUE_FULL] = first[layout.QUEUE] + queued_levels.QUEUED_REQUESTS * WORD

    def settle(self) -> None:
        """Have the requests answered that wait between levels: views made before then show what there is."""
        queued_levels.settle_from_python(self._descriptors[0])

    def result(
        self,
        name: str,
        *,
        arrays: Sequence[str] | None = None,
        accesses: int | None = None,
        **attributes: Any,
    ) -> Simulation:
        """What was counted so far.

        Args:
            name: of the stream.
            arrays: the array of each reference.
            accesses: of the program; by default the requests of the first level.
            attributes: others of `Simulation`.
        """
        self.settle()
        levels = [
            self._counted(cache, words, cache.name or f"L{n}", arrays)
            for n, (cache, words) in enumerate(zip(self.levels, self._descriptors, strict=True), 1)
        ]
        tlbs = [
            self._counted(cache, words, cache.name or f"TLB{n}", arrays)
            for n, (cache, words) in enumerate(zip(self.tlbs, self._tlb_descriptors, strict=True), 1)
        ]
        if accesses is None:
            accesses = levels[0].requests
        return Simulation(name=name, levels=tuple(levels), tlbs=tuple(tlbs), accesses=accesses, **attributes)

    def _counted(self, cache: Cache, words: np.ndarray, name: str, arrays: Sequence[str] | None) -> LevelCounts:
        rows = self._counts[id(words)]
        counts = [_row(row, self.units, cache.unit_bytes) for row in rows]
        references = [
            ReferenceCounts(name=each, array=arrays[i] if arrays else None, **counts[i])
            for i, each in enumerate(self.references)
        ]
        whole = _row(rows.sum(axis=0), self.units, cache.unit_bytes)
        return LevelCounts(name=name, cache=cache, references=tuple(references), **whole)


def build(
    levels: Sequence[Cache],
    *,
    tlbs: Sequence[Cache] = (),
    references: Sequence[str] = (),
    units: int | None = None,
    address_end: int | None = None,
) -> Hierarchy:
    """Empty caches, near to far, ready to be run.

    Args:
        levels: near to far, at least one.
        tlbs: translation look-aside buffers, near to far (`types.simulation.tlb` makes one).
        references: the names of what accesses; compiled code numbers them from 0. None: one, without a name.
        units: tell compulsory, capacity and conflict misses apart, where at most so many different units
            (lines of the nearest level) are accessed.
        address_end: all addresses lie below it, and nothing is asked for but LOAD and STORE: entries may then be
            half as long, which is faster. None: unknown.

    Raises:
        RooflabError: levels that do not fit each other.
    """
    check(levels)
    check(tlbs, "TLB")
    return Hierarchy(levels, tlbs, references, units, address_end)


def check(levels: Sequence[Cache], prefix: str = "L") -> None:
    """Raise where `levels` do not fit each other.

    Raises:
        RooflabError: no level, a unit shorter than a nearer one, or an inclusion that cannot be.
    """
    if not levels and prefix == "L":
        raise RooflabError("levels is empty, expected at least one Cache(capacity_bytes, ways, line_bytes)")
    for n, level in enumerate(levels, 1):
        name = level.name or f"{prefix}{n}"
        previous = levels[n - 2] if n > 1 else None
        if level.inclusion != "non-inclusive" and previous is None:
            raise RooflabError(f"{name}: inclusion is {level.inclusion!r}, but there is no nearer level")
        if previous is not None and level.unit_bytes < previous.unit_bytes:
            raise RooflabError(
                f"{name}: reads {level.unit_bytes} bytes at a time, expected at least the {previous.unit_bytes} "
                f"of the nearer level"
            )
        if level.inclusion == "exclusive":
            _check_exclusive(name, level, previous)
        if level.inclusion == "inclusive" and any(each.line_bytes > level.line_bytes for each in levels[: n - 1]):
            raise RooflabError(f"{name}: inclusive, but a nearer level has longer lines")


def _check_exclusive(name: str, level: Cache, previous: Cache | None) -> None:
    assert previous is not None
    if level.line_bytes != previous.line_bytes or level.sector_bytes or previous.sector_bytes:
        raise RooflabError(f"{name}: exclusive, expected the nearer level's line length and no sectors")
    if not (level.write_back and level.write_allocate):
        raise RooflabError(f"{name}: exclusive, expected write-back and write-allocate: it is filled by evictions")
    if level.prefetch:
        raise RooflabError(f"{name}: exclusive, so it cannot prefetch: it is filled by evictions alone")


def _slots(unit_bytes: int, slot_bytes: int, slots: int) -> tuple[int, int]:
    """The shift and the mask that make an address the offset of one of `slots` last-line slots."""
    shift = unit_bytes.bit_length() - slot_bytes.bit_length()
    return max(shift, 0), (slots - 1) * slot_bytes if slots > 1 else 0


def _flags(cache: Cache) -> int:
    chosen = {
        layout.WRITE_BACK: cache.write_back,
        layout.ALLOCATE: cache.write_allocate,
        layout.WRITE_VALIDATE: not cache.fetch_on_write,
        layout.INCLUSIVE: cache.inclusion == "inclusive",
        layout.EXCLUSIVE: cache.inclusion == "exclusive",
        layout.XOR_INDEX: cache.index == "xor",
        layout.SECTORED: cache.sector_bytes is not None and cache.sector_bytes < cache.line_bytes,
        layout.NEXT_LINE: "next-line" in cache.prefetch,
        layout.ADJACENT: "adjacent" in cache.prefetch,
        layout.STRIDE: "stride" in cache.prefetch,
    }
    return sum(flag for flag, is_set in chosen.items() if is_set)


def _row(row: np.ndarray, units: int | None, unit_bytes: int) -> dict[str, Any]:
    compulsory, capacity = int(row[layout.COMPULSORY]), int(row[layout.CAPACITY])
    misses = int(row[layout.MISSES])
    classified = units is not None
    return {
        "hits": int(row[layout.HITS]),
        "misses": misses,
        # A miss stands for an eviction and a read (see `layout`).
        "evictions": int(row[layout.EVICTIONS]) + misses - int(row[layout.COLD]),
        "writebacks": int(row[layout.WRITEBACKS]),
        "read_bytes": int(row[layout.READ_BYTES]) + misses * unit_bytes,
        "write_bytes": int(row[layout.WRITE_BYTES]),
        "compulsory": compulsory if classified else None,
        "capacity": capacity if classified else None,
        "conflict": misses - compulsory - capacity if classified else None,
        "invalidations": int(row[layout.INVALIDATIONS]),
        "prefetches": int(row[layout.PREFETCHES]),
    }
