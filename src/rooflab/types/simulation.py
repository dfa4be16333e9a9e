"""Caches and what a simulation of them counts."""

from __future__ import annotations

import bisect
import re
from typing import Any, Literal

import msgspec

from rooflab.errors import RooflabError, UnknownNameError
from rooflab.types.advice import Advices
from rooflab.types.machine import Basis
from rooflab.types.result import Result
from rooflab.types.work import Traffic
from rooflab.units import percent

SCHEMA = 1
# Policies that are QLRU variants: re-reference intervals predicted with two bits, hit priority (SRRIP: Jaleel and
# others, ISCA 2010); not recently used, one bit a way (also bit-PLRU).
NAMED_QLRU = {"srrip": "qlru_h00_m2_r0_u0_umo", "nru": "qlru_h00_m0_r0_u1"}
POLICIES = (
    "lru",
    "plru",
    "fifo",
    "random",
    *NAMED_QLRU,
    "qlru_h11_m1_r0_u0",
    "qlru_h00_m1_r2_u1",
    "qlru_h11_m1_r1_u2",
)
PREFETCHERS = ("next-line", "adjacent", "stride")
INCLUSIONS = ("non-inclusive", "inclusive", "exclusive")
_QLRU = re.compile(r"qlru_h(?:00|10|11|20|21)_m[0-3]_r[0-2]_u[0-3](?:_umo)?")
_WIDEST_QLRU, _WIDEST_TREE = 32, 64  # ways that one 64-bit word of state describes


class Cache(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One level of caches.

    Attributes:
        capacity_bytes: of it: a whole number of sets.
        ways: lines of a set; None for a fully associative cache.
        line_bytes: a power of two.
        policy: what a full set gives up: "lru", "plru" (tree), "fifo", "random", or a QLRU variant in the
            notation of Abel and Reineke (nanoBench, 2020), such as "qlru_h11_m1_r0_u0": ages after a hit,
            age on insertion, which way is replaced, how ages are updated, "_umo" for on a miss only. "srrip" and
            "nru" are kept as the variants that they are.
        write_back: False for write-through.
        write_allocate: False where a store that misses goes on to the next level alone.
        fetch_on_write: False for write-validate (Jouppi, ISCA 1993): what a store or write-back that misses is
            given is not read first. What it wrote counts as valid for the whole sector (or line).
        inclusion: "non-inclusive" (neither is enforced), "inclusive" (a line that leaves this level leaves
            the nearer ones too) or "exclusive" (filled by what the nearer level evicts, clean or dirty; a
            hit moves the line up).
        sector_bytes: what one miss reads, where it is less than a line.
        index: "modulo", or "xor": the line number folded onto itself, as hashed caches do.
        prefetch: any of "next-line", "adjacent" (the other half of a pair of lines) and "stride".
        prefetch_ahead: how many strides ahead the stride prefetcher fetches.
        seed: of random replacement.
        name: "L1", "L2", … by place where None.
    """

    capacity_bytes: int
    ways: int | None = 8
    line_bytes: int = 64
    policy: str = "lru"
    write_back: bool = True
    write_allocate: bool = True
    fetch_on_write: bool = True
    inclusion: Literal["non-inclusive", "inclusive", "exclusive"] = "non-inclusive"
    sector_bytes: int | None = None
    index: Literal["modulo", "xor"] = "modulo"
    prefetch: tuple[str, ...] = ()
    prefetch_ahead: int = 1
    seed: int = 0
    name: str | None = None

    def __post_init__(self) -> None:
        if self.policy in NAMED_QLRU:
            msgspec.structs.force_setattr(self, "policy", NAMED_QLRU[self.policy])
        _check_sizes(self)
        _check_policy(self)

    @property
    def lines(self) -> int:
        """How many lines it holds."""
        return self.capacity_bytes // self.line_bytes

    @property
    def set_ways(self) -> int:
        """Lines of a set; all of them where it is fully associative."""
        return self.lines if self.ways is None else self.ways

    @property
    def sets(self) -> int:
        """How many sets it has."""
        return self.lines // self.set_ways

    @property
    def unit_bytes(self) -> int:
        """What one miss reads: a sector, or the line."""
        return self.sector_bytes or self.line_bytes


def tlb(entries: int, ways: int | None = None, page_bytes: int = 4096, policy: str = "lru") -> Cache:
    """A translation look-aside buffer: a cache whose lines are pages.

    >>> tlb(64).sets
    1
    """
    return Cache(entries * page_bytes, ways, page_bytes, policy)


class ReferenceCounts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one reference (an access in the source), one array, or a whole level adds up to.

    Attributes:
        name: of the reference, array or level.
        hits, misses: requests of the nearer side: loads, stores and write-backs; an access counts once for each
            line (or sector) that it touches. Prefetches, and what fills an exclusive level, are no requests. A
            write-back of a whole line that misses is a miss, but reads nothing from behind.
        evictions: lines displaced by others; `writebacks` those that were dirty.
        read_bytes, write_bytes: from and to the level behind, prefetches, write-backs and stores that
            are passed on included: of the last level, the traffic of the memory.
        compulsory, capacity, conflict: of the misses, those of units never asked for before, those that a fully
            associative LRU cache of that capacity would miss too, the rest. None unless classified.
        invalidations: lines lost to a level behind (inclusion) or to a non-temporal store.
        prefetches: units fetched by this level's own prefetchers.
        array: the array that the reference belongs to, where known.
    """

    name: str
    hits: int
    misses: int
    evictions: int
    writebacks: int
    read_bytes: int
    write_bytes: int
    compulsory: int | None = None
    capacity: int | None = None
    conflict: int | None = None
    invalidations: int = 0
    prefetches: int = 0
    array: str | None = None

    @property
    def requests(self) -> int:
        """Hits and misses together."""
        return self.hits + self.misses

    @property
    def hit_rate(self) -> float | None:
        """Share of the requests that hit; None where there were none."""
        return self.hits / self.requests if self.requests else None


class LevelCounts(ReferenceCounts, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one level counted, as a whole and by reference.

    Attributes:
        cache: what was simulated.
        references: the same by reference; empty where the stream names none.
    """

    cache: Cache
    references: tuple[ReferenceCounts, ...] = ()

    @property
    def arrays(self) -> tuple[ReferenceCounts, ...]:
        """The same by array, in order of first mention."""
        groups: dict[str, list[ReferenceCounts]] = {}
        for each in self.references:
            groups.setdefault(each.array or each.name, []).append(each)
        return tuple(_sum(name, parts) for name, parts in groups.items())


class LevelTime(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long a level of a machine would take for what was asked of it.

    Attributes:
        name: of the machine's level.
        nbytes: asked of it, both ways.
        bytes_per_s: of one core where the machine states that, `basis` of it "attained" or "theoretical".
        time_s: nbytes over bytes_per_s; None where no bandwidth is known.
        latency_s: of one access to it.
        serial_s: requests times latency: if each waited for the one before, as in a chase of pointers.
    """

    name: str
    nbytes: int
    bytes_per_s: float | None = None
    time_s: float | None = None
    latency_s: float | None = None
    serial_s: float | None = None
    basis: Basis | None = None


class CacheStep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One access, and what the levels hold after it.

    Attributes:
        operation: "load", "store" or "non-temporal store".
        item: which element: "x[3]".
        address, nbytes: of it.
        missed: by level, whether a request missed there while this access ran (write-backs are requests too).
        held: by level, the numbers of the lines there, set by set; of an LRU set the newest first.
    """

    operation: str
    item: str
    address: int
    nbytes: int
    missed: tuple[bool, ...]
    held: tuple[tuple[int, ...], ...]


class Simulation(Result, msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What caches did with a stream of accesses.

    Attributes:
        name: of the stream.
        levels: near to far, one for each cache given.
        tlbs: the same for translation look-aside buffers.
        accesses: loads and stores of the program, each once however many lines it touches.
        accessed_bytes: bytes that these name.
        assumptions: what is not known of the real part, or was left out.
        warnings: what a reader must know first.
        dropped: lines of a trace that could not be read, by reason.
        complete: False where a time bound cut the run short: counts are of what ran.
        seconds: how long the simulation took.
        times: what each level of a machine would take for its traffic, near to far; empty without a machine.
        steps: the first accesses one by one, at most 64, where they were asked for.
        advice: changes of loops, layouts and pages, each simulated again; None where not asked for.
    """

    NEWEST = SCHEMA
    WHAT = "a simulation"

    name: str
    levels: tuple[LevelCounts, ...]
    accesses: int
    accessed_bytes: int | None = None
    tlbs: tuple[LevelCounts, ...] = ()
    assumptions: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    dropped: dict[str, int] = {}
    complete: bool = True
    seconds: float | None = None
    times: tuple[LevelTime, ...] = ()
    steps: tuple[CacheStep, ...] = ()
    advice: Advices | None = None
    schema: int = SCHEMA

    def __post_init__(self) -> None:
        if not self.levels:
            raise RooflabError("a simulation without a level: expected one at least")

    @property
    def memory_read_bytes(self) -> int:
        """Bytes read from the memory behind the last level."""
        return self.levels[-1].read_bytes

    @property
    def memory_write_bytes(self) -> int:
        """Bytes written to the memory behind the last level."""
        return self.levels[-1].write_bytes

    @property
    def traffic(self) -> tuple[Traffic, ...]:
        """Bytes that each level behind the first, and the memory, was asked for, as a cost takes them."""
        names = [level.name for level in self.levels[1:]] + ["memory"]
        return tuple(
            Traffic(level=name, read_bytes=near.read_bytes, write_bytes=near.write_bytes, basis="simulated")
            for name, near in zip(names, self.levels, strict=True)
        )

    def level(self, name: str) -> LevelCounts:
        """The level of that name.

        Raises:
            UnknownNameError: no such level.
        """
        for each in (*self.levels, *self.tlbs):
            if each.name.casefold() == name.casefold():
                return each
        raise UnknownNameError("level", name, [each.name for each in (*self.levels, *self.tlbs)])

    def _summary(self) -> str:
        rates = ", ".join(
            f"{level.name} {'–' if level.hit_rate is None else f'{percent(level.hit_rate, 2)}'}"
            for level in self.levels
        )
        return f"{self.name}: {self.accesses:,} accesses, hit rates {rates}"


class MissCurve(Result, msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The misses of a stream in fully associative LRU caches of every capacity.

    Attributes:
        name: of the stream.
        line_bytes: of all of those caches.
        requests: an access counts once for each line that it touches.
        compulsory: misses of any capacity: lines touched for the first time.
        distances: how many other lines were touched since a request's line was last, ascending.
        counts: how many requests have each distance.
    """

    NEWEST = SCHEMA
    WHAT = "a miss-ratio curve"

    name: str
    line_bytes: int
    requests: int
    compulsory: int
    distances: tuple[int, ...]
    counts: tuple[int, ...]
    schema: int = SCHEMA

    def __post_init__(self) -> None:
        if self.line_bytes < 1 or min(self.requests, self.compulsory, *self.counts) < 0:
            raise RooflabError("a miss-ratio curve: expected lines of at least a byte and no negative counts")
        if len(self.distances) != len(self.counts) or list(self.distances) != sorted(self.distances):
            raise RooflabError("a miss-ratio curve: expected ascending distances and a count for each")

    def misses(self, capacity_bytes: float) -> int:
        """Misses of a cache of that capacity."""
        lines = int(capacity_bytes // self.line_bytes)
        kept = bisect.bisect_left(self.distances, lines)
        return self.compulsory + sum(self.counts[kept:])

    def miss_ratio(self, capacity_bytes: float) -> float | None:
        """Share of the requests that miss; None where there were none."""
        return self.misses(capacity_bytes) / self.requests if self.requests else None

    def _summary(self) -> str:
        return f"{self.name}: {self.requests:,} requests, {self.compulsory:,} lines of {self.line_bytes} B"


def _sum(name: str, parts: list[ReferenceCounts]) -> ReferenceCounts:
    def total(field: str) -> Any:
        values = [getattr(part, field) for part in parts]
        return None if None in values else sum(values)

    fields = [f for f in ReferenceCounts.__struct_fields__ if f not in ("name", "array")]
    return ReferenceCounts(name=name, array=name, **{field: total(field) for field in fields})


def _check_sizes(cache: Cache) -> None:
    what = cache.name or "cache"
    for field in ("capacity_bytes", "ways", "line_bytes", "sector_bytes", "prefetch_ahead"):
        value = getattr(cache, field)
        if value is None and field in ("ways", "sector_bytes"):
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
            raise RooflabError(f"{what}: {field} is {value!r}, expected a whole number above zero")
    line, sector = cache.line_bytes, cache.unit_bytes
    for field, value in (("line_bytes", line), ("sector_bytes", sector)):
        if value & (value - 1):
            raise RooflabError(f"{what}: {field} is {value:,}, expected a power of two, such as 64")
    if sector > line or line // sector > 32:
        raise RooflabError(
            f"{what}: sector_bytes is {sector:,} and line_bytes {line:,}, expected 1 to 32 sectors a line"
        )
    whole = line * (cache.ways or 1)
    if cache.capacity_bytes % whole:
        below = cache.capacity_bytes // whole * whole
        near = f"{below:,} or {below + whole:,}" if below else f"{whole:,}"
        raise RooflabError(
            f"{what}: capacity_bytes is {cache.capacity_bytes:,}, not a whole number of sets of "
            f"{cache.ways or 1} × {line} bytes ({whole:,}); {near} bytes are"
        )


def _check_policy(cache: Cache) -> None:
    what = cache.name or "cache"
    policy = cache.policy
    if policy not in POLICIES and not _QLRU.fullmatch(policy):
        raise UnknownNameError(f"policy of {what}", policy, POLICIES)
    if policy.startswith("qlru"):
        if policy[12:14] in ("r0", "r2") and policy[15:17] in ("u2", "u3"):
            raise RooflabError(f"{what}: {policy} may find no line to replace: R0 and R2 go with U0 and U1 only")
        if cache.set_ways > _WIDEST_QLRU:
            raise RooflabError(f"{what}: {cache.set_ways:,} ways, expected at most {_WIDEST_QLRU} with {policy}")
    if policy == "plru" and (cache.set_ways & (cache.set_ways - 1) or cache.set_ways > _WIDEST_TREE):
        raise RooflabError(
            f"{what}: {cache.set_ways:,} ways, expected a power of two up to {_WIDEST_TREE} with plru (a tree)"
        )
    for field, allowed in (("prefetch", PREFETCHERS), ("inclusion", INCLUSIONS), ("index", ("modulo", "xor"))):
        value = getattr(cache, field)
        for each in (value,) if isinstance(value, str) else value:
            if each not in allowed:
                raise UnknownNameError(f"{field} of {what}", str(each), allowed)
