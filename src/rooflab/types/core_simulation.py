"""What several cores did to each other's caches."""

from __future__ import annotations

from typing import Literal

import msgspec

from rooflab.errors import UnknownNameError
from rooflab.types.advice import Advices
from rooflab.types.result import Result
from rooflab.types.simulation import LevelCounts

SCHEMA = 1
RaceKind = Literal["write-read", "read-write", "write-write"]


class CoreCounts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one core did and met.

    Attributes:
        loads, stores: of its stream; atomics and locks are stores.
        levels: its private caches, near to far. Their `invalidations` count lines lost to other cores' stores
            and to levels behind (inclusion).
        upgrades: stores to a line that it held and others might hold: ownership is asked for, no data moves.
        invalidations: lines lost to another core's store.
        received, supplied: lines from and to another core's caches.
        downgrades: its modified lines written back to the shared level because another core read them (MESI).
        true_sharing, false_sharing: of the misses on lines that it had lost, see `CoreSimulation`.
        time: when it finished, in the unit of the costs; None where cores take turns by count.
    """

    loads: int
    stores: int
    levels: tuple[LevelCounts, ...]
    upgrades: int
    invalidations: int
    received: int
    supplied: int
    downgrades: int
    true_sharing: int
    false_sharing: int
    time: int | None = None


class Sharing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What happened to one line, or to the lines of one array, summed over cores.

    Attributes:
        name: of the array; arrays that share a line are named together.
        invalidations: copies lost to another core's store.
        true_sharing, false_sharing: misses on lost lines, see `CoreSimulation`.
        transfers, upgrades, downgrades: as in `CoreCounts`.
        line: of a line, its number from address zero; None for an array.
        used: of a line, the items that each core loaded or stored: "core 0: count[0]".
    """

    name: str
    invalidations: int
    true_sharing: int
    false_sharing: int
    transfers: int
    upgrades: int
    downgrades: int
    line: int | None = None
    used: tuple[str, ...] = ()

    @property
    def unreturned(self) -> int:
        """Copies lost that their core never asked for again."""
        return self.invalidations - self.true_sharing - self.false_sharing


class Race(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Two accesses of one item, at least one a store, that nothing orders.

    Attributes:
        array, index: which item.
        kind: what came first and second as simulated: "write-read", "read-write" or "write-write".
        earlier, later: the cores.
        entry: which entry of the later core's stream.
        reader: whose load the rest is about; None where stores alone race: then it is about who reads at the end.
        seen: what it saw as simulated: a value, or "version n", the n-th store of this item.
        could_see: everything that it could see, the same words: each store that does not come after it and is
            not overwritten by one that comes before it.
    """

    array: str
    index: int
    kind: RaceKind
    earlier: int
    later: int
    entry: int
    reader: int | None = None
    seen: str | None = None
    could_see: tuple[str, ...] | None = None


class CoreStep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One operation of a core and what it did to everyone's copies of one line.

    Attributes:
        core: whose operation.
        operation: "load", "store", "atomic", "acquire", "release" or "barrier", which touches nothing.
        item: what it is of: "count[0]".
        line: number of the line from address zero; None of a barrier.
        first_byte, nbytes: which bytes of that line.
        before, states: each core's state of the line before and after: "M", "O", "E", "S" or "I".
        supplier: the core whose copy was read instead of the shared level or memory.
        upgrade: whether ownership alone was asked for.
        invalidated: cores that lost their copy.
        written_back: cores whose modified copy was written back, since it is shared now.
        true_sharing: whether a miss on a line lost before brought something new, seen with this operation.
        false_sharing: cores whose last miss has turned out to have brought nothing new: their copy ends here.
    """

    core: int
    operation: str
    item: str = ""
    line: int | None = None
    first_byte: int = 0
    nbytes: int = 0
    before: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    supplier: int | None = None
    upgrade: bool = False
    invalidated: tuple[int, ...] = ()
    written_back: tuple[int, ...] = ()
    true_sharing: bool = False
    false_sharing: tuple[int, ...] = ()

    @property
    def hit(self) -> bool:
        """Whether the core held a copy."""
        return bool(self.before) and self.before[self.core] != "I"


class CoreSimulation(Result, msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What several cores' caches did, and what the cores did to each other.

    True and false sharing follow the essential misses of Dubois, Skeppstedt, Ricciulli, Ramamurthy and
    Stenström, "The detection and elimination of useless misses in multiprocessors", ISCA 1993: a miss on a line
    that was lost to another core's store is true sharing where, before this core loses or evicts the line
    again, it loads or stores something that others wrote since its last essential miss of the line; else it is
    false sharing. Compared are bytes (of a line longer than 64, its 64th parts).

    Attributes:
        name: of the streams.
        protocol: "mesi" or "moesi".
        rule: how streams are interleaved.
        cores: one each.
        shared: the level behind all private ones, by core; None where the memory is.
        arrays: sharing by array, the most invalidated first.
        lines: the same by line, the most false sharing first; at most 100.
        races: one for each item and kind, in the order found, at most 1,000; None where they were not looked for.
        racing: how many racing pairs were met: each access against the last store and other cores' last loads.
        assumptions: what is not known of the real part, or was left out.
        seconds: how long the simulation took.
        steps: the first operations one by one, at most 64.
        line_bytes: of every level.
        advice: changes of layout or use, each simulated again; None where not asked.
    """

    NEWEST = SCHEMA
    WHAT = "a simulation of cores"

    name: str
    protocol: Literal["mesi", "moesi"]
    rule: str
    cores: tuple[CoreCounts, ...]
    shared: LevelCounts | None
    arrays: tuple[Sharing, ...]
    lines: tuple[Sharing, ...]
    races: tuple[Race, ...] | None = None
    racing: int | None = None
    assumptions: tuple[str, ...] = ()
    seconds: float | None = None
    steps: tuple[CoreStep, ...] = ()
    line_bytes: int | None = None
    advice: Advices | None = None
    schema: int = SCHEMA

    @property
    def accesses(self) -> int:
        """Loads and stores of all cores."""
        return self._sum("loads") + self._sum("stores")

    @property
    def invalidations(self) -> int:
        """Copies lost to other cores' stores."""
        return self._sum("invalidations")

    @property
    def true_sharing(self) -> int:
        """Misses on lost lines that brought something new."""
        return self._sum("true_sharing")

    @property
    def false_sharing(self) -> int:
        """Misses on lost lines that brought nothing that the core used."""
        return self._sum("false_sharing")

    @property
    def upgrades(self) -> int:
        """Stores that asked for ownership alone."""
        return self._sum("upgrades")

    @property
    def transfers(self) -> int:
        """Lines that went from cache to cache."""
        return self._sum("received")

    @property
    def downgrades(self) -> int:
        """Modified lines written back because another core read them."""
        return self._sum("downgrades")

    def array(self, name: str) -> Sharing:
        """Sharing of that array.

        Raises:
            UnknownNameError: no such array.
        """
        for each in self.arrays:
            if each.name == name:
                return each
        raise UnknownNameError("array", name, [each.name for each in self.arrays])

    def _summary(self) -> str:
        return (
            f"{self.name}: {len(self.cores)} cores, {self.invalidations:,} invalidations, "
            f"{self.false_sharing:,} false sharing"
        )

    def _sum(self, field: str) -> int:
        return sum(getattr(core, field) for core in self.cores)
