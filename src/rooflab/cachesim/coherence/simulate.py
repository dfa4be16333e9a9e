"""Several cores with private caches and a shared level, kept coherent by MESI or MOESI, exactly.

`simulate` runs the streams of `stream`, one a core, in turns; `protocol` says what one access does,
`race_detector` what orders accesses. Results are in `types.core_simulation`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from rooflab.cachesim.coherence import layout as at
from rooflab.cachesim.coherence.standalone_cache import compiled_cache
from rooflab.cachesim.coherence.standalone_caches import StandaloneCaches
from rooflab.cachesim.coherence.stream import NAMES, CoreArray, CoreStreams, check_cores
from rooflab.cachesim.native import layout
from rooflab.cachesim.native.compile import native_address, ready
from rooflab.cachesim.sets.state import kind_of
from rooflab.errors import RooflabError, UnknownNameError
from rooflab.types.core_simulation import CoreSimulation
from rooflab.types.simulation import Cache, LevelCounts

PROTOCOLS = ("mesi", "moesi")
RACES_KEPT, LOG_KEPT = 1000, 1 << 14
MOST_SHADOW_BYTES = 1 << 33
MOST = 1 << 40  # of a quantum and of a cost: sums of them stay below 64 bits


class Interleaving(msgspec.Struct, frozen=True):
    """Whose turn it is: `quantum` accesses of each core in turn, or the core whose time is least.

    Attributes:
        quantum: accesses of a turn; None for by time.
        costs: of an access that each level answers, of main memory, of a transfer, and what an upgrade adds.
    """

    quantum: int | None
    costs: tuple[int, ...]

    @property
    def text(self) -> str:
        """The rule in words."""
        if self.quantum is None:
            return "the core whose time is least goes on (of equals the first), each access adding its cost"
        return (
            f"round robin from core 0, {self.quantum:,} of its operations a turn; a core that waits is passed over"
        )


class System:
    """Everything that compiled code works on: it owns the words."""

    def __init__(
        self, streams: CoreStreams, levels: Sequence[Cache], protocol: str, turns: Interleaving, races: bool
    ) -> None:
        self.streams, self.levels, self.turns = streams, levels, turns
        self.count = len(streams.cores)
        self.depth = max(len(levels) - 1, 1)
        self.line_bytes = levels[0].line_bytes
        names = [f"core {core}" for core in range(self.count)]
        self.privates = [
            StandaloneCaches(levels[: self.depth], names[core : core + 1]) for core in range(self.count)
        ]
        self.shared = StandaloneCaches(levels[self.depth :], names) if len(levels) > self.depth else None
        self._kept: list[Any] = []
        self.seconds = 0.0
        self._chunks: dict[int, np.ndarray] = {}
        self.words = self._array(at.SYSTEM_WORDS)
        self.rows = self._array(self.count * at.CORE_WORDS).reshape(self.count, at.CORE_WORDS)
        lines = -(-streams.footprint_bytes // self.line_bytes)
        self.cells = self._array(lines * self.count * at.CELL_WORDS).reshape(lines, self.count, at.CELL_WORDS)
        self.lines = self._array(lines * at.LINE_WORDS).reshape(lines, at.LINE_WORDS)
        self._caches(protocol)
        self._order(races)

    def _array(self, words: int, fill: int = 0) -> np.ndarray:
        array = np.full(max(words, 1), fill, np.int64) if fill else np.zeros(max(words, 1), np.int64)
        self._kept.append(array)
        return array

    def _put(self, word: int, values: np.ndarray) -> np.ndarray:
        self._kept.append(values)
        self.words[word] = values.ctypes.data
        return values

    def _caches(self, protocol: str) -> None:
        words = self.words
        words[at.CORES], words[at.DEPTH], words[at.MOESI] = self.count, self.depth, protocol == "moesi"
        words[at.LINE_SHIFT] = self.line_bytes.bit_length() - 1
        words[at.PART_SHIFT] = max(int(words[at.LINE_SHIFT]) - 6, 0)
        private = [each.words_of(level).ctypes.data for each in self.privates for level in range(self.depth)]
        self._put(at.PRIVATE, np.array(private, np.int64))
        cache_functions = [compiled_cache(kind_of(cache), cache.set_ways) for cache in self.levels]
        self._kept.append(cache_functions)
        self._put(at.CACHE_CALLS, np.array([native_address(function) for function in cache_functions], np.int64))
        if self.shared is not None:
            words[at.SHARED] = self.shared.words_of(0).ctypes.data
            words[at.INCLUSIVE] = self.levels[-1].inclusion == "inclusive"
        for word, values in ((at.CELLS, self.cells), (at.LINES, self.lines), (at.CORE_ROWS, self.rows)):
            words[word] = values.ctypes.data
        nothing = self._array(1, -1)  # last lines that never match a line
        for core, row in enumerate(self.rows):
            first = self.privates[core].words_of(0)
            row[at.CORE_CELLS] = self.cells.ctypes.data + core * at.CELL_WORDS * 8
            row[at.CORE_FIRST] = first.ctypes.data
            row[at.CORE_LAST_LINES] = first[layout.LAST_LINES] or nothing.ctypes.data
            row[at.CORE_LAST_LINES_MASK] = first[layout.LAST_LINES_MASK]

    def _order(self, races: bool) -> None:
        words, count = self.words, self.count
        words[at.QUANTUM], words[at.BY_TIME] = self.turns.quantum or 1, self.turns.quantum is None
        words[at.TURN] = count - 1  # the first turn goes to the core after it
        self._put(at.COSTS, np.array(self.turns.costs, np.int64))
        self._put(at.CLOCKS, np.eye(count, dtype=np.int64))
        syncs = np.array(sorted(self.streams.ordering), np.int64)
        words[at.SYNCS], words[at.ADDRESS_END] = len(syncs), self.streams.footprint_bytes
        self._put(at.SYNC_ADDRESSES, syncs)
        self._put(at.SYNC_CLOCKS, self._array(len(syncs) * count))
        self._put(at.SYNC_HOLDERS, self._array(len(syncs), -1))
        self.granule_bytes = min(array.item_bytes for array in self.streams.arrays)
        words[at.GRANULE_SHIFT] = self.granule_bytes.bit_length() - 1
        words[at.RACES_ROOM], words[at.LOG_ROOM] = RACES_KEPT, LOG_KEPT
        self.races = self._put(at.RACES, self._array(RACES_KEPT * at.RACE_WORDS)).reshape(-1, at.RACE_WORDS)
        self.race_counts = self._put(at.RACE_COUNTS, self._array(3))
        record = at.LOG_WORDS + count
        self.log = self._put(at.LOG, self._array(LOG_KEPT * record)).reshape(-1, record)
        if races:
            granules = -(-self.streams.footprint_bytes // self.granule_bytes)
            if granules * (1 + count) * 8 > MOST_SHADOW_BYTES:
                raise RooflabError(
                    f"{self.streams.name}: races of {granules:,} items and {count} cores take more than "
                    f"{MOST_SHADOW_BYTES:,} bytes; give races=False, or smaller arrays"
                )
            self.shadow = self._put(at.SHADOW, self._array(granules * (1 + count))).reshape(granules, 1 + count)

    def watch(self, granules: Sequence[int]) -> None:
        """Log every access of these granules."""
        self.shadow[list(granules), 0] |= at.WATCHED

    def run(self) -> None:
        """Run the streams to their ends.

        Raises:
            RooflabError: cores that wait for each other for ever, a lock released by a core that does not hold it,
                a record out of bounds.
        """
        from rooflab.cachesim.coherence.schedule import run

        ready(run, self.words.ctypes.data)
        start = time.perf_counter()
        chunks = [start() for start in self.streams.cores]
        for core in range(self.count):
            self.refill(core, chunks[core])
        while True:
            stopped = run(self.words.ctypes.data)
            if stopped >= at.CORE_NEEDS:
                self.refill(stopped - at.CORE_NEEDS, chunks[stopped - at.CORE_NEEDS])
            elif stopped == at.STUCK:
                raise RooflabError(f"{self.streams.name}: no core can go on: {self._waits()}")
            elif stopped == at.MISUSED:
                raise RooflabError(self._misused(int(self.words[at.TURN])))
            else:
                self.seconds = time.perf_counter() - start
                return

    def loads(self, core: int) -> int:
        """Loads of a core: what its stream held beside stores, atomics, locks and barriers."""
        row = self.rows[core]
        others = row[at.STORES] + row[at.ORDERED_STORES] + row[at.BARRIERS]
        return int(row[at.BEFORE] + row[at.LENGTH] - others)

    def stores(self, core: int) -> int:
        """Stores of a core, atomics and locks with them."""
        return int(self.rows[core][at.STORES] + self.rows[core][at.ORDERED_STORES])

    def refill(self, core: int, chunks: Iterator[np.ndarray]) -> None:
        """Hand `core` its next chunk of records, or tell it that there is none."""
        row = self.rows[core]
        row[at.BEFORE] += row[at.LENGTH]
        row[at.POSITION] = row[at.LENGTH] = 0
        chunk = next(chunks, None)
        if chunk is None:
            row[at.LAST] = 1
            return
        chunk = np.ascontiguousarray(chunk, np.int64)
        self._chunks[core] = chunk
        row[at.CHUNK], row[at.LENGTH] = chunk.ctypes.data, chunk.size

    def _misused(self, core: int) -> str:
        row = self.rows[core]
        record = int(self._chunks[core][row[at.POSITION]])
        where = f"core {core}, entry {int(row[at.BEFORE] + row[at.POSITION])}"
        address, limit = record >> at.ADDRESS_SHIFT, self.streams.footprint_bytes
        if (record & 15) == at.RELEASE and 0 <= address < limit:
            return f"{where}: releases {named(self.streams.arrays, address)}, which it does not hold"
        return f"{where}: record {record} names address {address:,}, expected one of {limit:,} bytes"

    def _waits(self) -> str:
        reasons = []
        for core, row in enumerate(self.rows):
            if row[at.STATUS] == at.BLOCKED:
                word = named(self.streams.arrays, self.streams.ordering[row[at.WAITS]])
                reasons.append(f"core {core} waits for {word}")
            else:
                ended = row[at.STATUS] == at.FINISHED
                reasons.append(f"core {core} " + ("has ended" if ended else "is at a barrier"))
        return ", ".join(reasons) + "; expected as many barriers on every core, and every lock released"

    def levels_of(self, core: int) -> tuple[LevelCounts, ...]:
        """The private levels of a core."""
        row = self.rows[core]
        repeats = self.loads(core) + int(row[at.STORES] - row[at.SLOW])
        return self.privates[core].counted(repeats)

    def shared_counts(self) -> LevelCounts | None:
        """The shared level, by core."""
        if self.shared is None:
            return None
        (counts,) = self.shared.counted()
        return msgspec.structs.replace(counts, name=self.levels[-1].name or f"L{self.depth + 1}")


def named(arrays: Sequence[CoreArray], address: int) -> str:
    """The item at `address` as "array[index]"."""
    array = array_at(arrays, address)
    return f"address {address:,}" if array is None else f"{array.name}[{array.index(address)}]"


def array_at(arrays: Sequence[CoreArray], address: int) -> CoreArray | None:
    """The array that `address` lies in."""
    return next((array for array in arrays if array.base <= address < array.end), None)


def interleaving(levels: Sequence[Cache], quantum: int | None, costs: Mapping[str, float] | None) -> Interleaving:
    """The rule for `quantum`, or by time where costs are given instead.

    Raises:
        RooflabError: a quantum that is not a whole number above zero, a cost that is missing or below zero.
        UnknownNameError: a cost of something else.
    """
    depth = max(len(levels) - 1, 1)
    names = [level.name or f"L{n}" for n, level in enumerate(levels, 1)]
    if len(levels) == 1:
        names.append("")  # no shared level: its place stays empty
    cost_names = [*names, "memory", "transfer", "upgrade"]
    if costs is None:
        quantum = 1 if quantum is None else quantum
        if not isinstance(quantum, int) or isinstance(quantum, bool) or not 0 < quantum < MOST:
            raise RooflabError(f"quantum is {quantum!r}, expected a whole number above zero (and below 2⁴⁰)")
        return Interleaving(quantum, (0,) * (depth + 4))
    if quantum is not None:
        raise RooflabError("quantum and costs are both given: cores take turns by count, or by time")
    cycles = []
    for cost in costs:
        if cost not in cost_names:
            raise UnknownNameError("cost", cost, [name for name in cost_names if name])
    for name in cost_names:
        value = costs.get(name, 0 if name in ("", "upgrade") else None)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < MOST or value % 1:
            raise RooflabError(f"cost of {name} is {value!r}, expected a whole number (of cycles or ns) from 0")
        cycles.append(int(value))
    return Interleaving(None, tuple(cycles))


def check_levels(levels: Sequence[Cache], protocol: str) -> None:
    """Raise where these caches, or this protocol, are not simulated with several cores.

    Raises:
        RooflabError: which level, and what is expected.
        UnknownNameError: an unknown protocol.
    """
    if protocol not in PROTOCOLS:
        raise UnknownNameError("protocol", str(protocol), PROTOCOLS)
    if not levels:
        raise RooflabError("levels is empty, expected private caches near to far, then the shared one")
    for n, level in enumerate(levels, 1):
        name = level.name or f"L{n}"
        for field, plain in _PLAIN.items():
            if getattr(level, field) != plain:
                raise RooflabError(
                    f"{name}: {field} is {getattr(level, field)!r}, expected {plain!r} with several cores"
                )
        if level.inclusion == "exclusive":
            raise RooflabError(f"{name}: inclusion is 'exclusive', expected 'inclusive' or 'non-inclusive' here")
        if level.line_bytes != levels[0].line_bytes:
            raise RooflabError(
                f"{name}: line_bytes is {level.line_bytes}, expected the {levels[0].line_bytes} of the first level"
            )


_PLAIN = {
    "write_back": True,
    "write_allocate": True,
    "fetch_on_write": True,
    "sector_bytes": None,
    "prefetch": (),
}
ASSUMPTIONS = (
    "one operation at a time, in the order of the rule: no store buffer, no overlap, no time between cores",
    "a directory knows every private copy; the holder of a modified, owned or exclusive line supplies it",
    "a core's outer private levels include the inner ones; arrays lie at made-up addresses",
)


def simulate(
    streams: CoreStreams,
    levels: Sequence[Cache],
    *,
    protocol: str = "mesi",
    quantum: int | None = None,
    costs: Mapping[str, float] | None = None,
    races: bool = True,
    assumptions: Sequence[str] = (),
) -> CoreSimulation:
    """What the caches of several cores do with `streams` (see `rooflab.simulate_cores`)."""
    from rooflab.cachesim.coherence import result
    from rooflab.cachesim.coherence.steps import first_steps

    check_levels(levels, protocol)
    check_cores(len(streams.cores))
    turns = interleaving(levels, quantum, costs)
    system = System(streams, levels, protocol, turns, races)
    system.run()
    again = None
    if races and system.words[at.RACES_USED]:
        again = System(streams, levels, protocol, turns, races)
        again.watch(sorted({int(row[0]) for row in system.races[: system.words[at.RACES_USED]]}))
        again.run()
    steps = first_steps(streams, levels, protocol, turns)
    simulated = result.simulation(system, again, protocol, (*ASSUMPTIONS, *assumptions))
    return msgspec.structs.replace(simulated, steps=steps, line_bytes=levels[0].line_bytes)


assert set(NAMES) == set(range(at.RELEASE + 1))
