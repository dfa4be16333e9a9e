"""Which levels are plain, and what a plain level is compiled for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rooflab.cachesim.sets.set_vectors import padded
from rooflab.types.simulation import Cache

LANES = (8, 16)  # of levels that are inlined into each other: 5 to 16 ways. Bounds how many functions there can be
MOST_LEVELS = 3
NARROW = 32  # bits of an entry where addresses are small


def is_plain(levels: Sequence[Cache]) -> bool:
    """Whether `levels` are plain: LRU, write-back and write-allocate, nothing included, excluded, prefetched."""
    return len(levels) <= MOST_LEVELS and all(
        cache.policy == "lru"
        and cache.set_ways <= max(LANES)
        and padded(cache.set_ways) in LANES
        and cache.line_bytes == levels[0].line_bytes
        and cache.sector_bytes in (None, cache.line_bytes)
        and cache.write_back
        and cache.write_allocate
        and cache.fetch_on_write
        and cache.inclusion == "non-inclusive"
        and cache.index == "modulo"
        and (place > 0 or _masked(cache))
        and not cache.prefetch
        for place, cache in enumerate(levels)
    )


def fits_narrow(first: Cache, address_end: int) -> bool:
    """Whether 32-bit entries hold all lines below `address_end`, a set of them no longer than its line."""
    return (
        address_end <= first.line_bytes << (NARROW - 2)
        and padded(first.set_ways) * NARROW // 8 <= first.line_bytes
    )


class Kind(NamedTuple):
    """What a level is compiled for: its ways, the bits of an entry, whether a mask is enough to find a set."""

    ways: int
    bits: int
    masked: bool

    @property
    def tag(self) -> str:
        """A name for it."""
        return f"{self.ways} {self.bits} {self.masked}"


def kinds_of(levels: Sequence[Cache], bits: int) -> tuple[Kind, ...]:
    """The kind of each of `levels`, with entries of so many bits."""
    return tuple(Kind(cache.set_ways, bits, _masked(cache)) for cache in levels)


def queued_kind(ways: int) -> Kind | None:
    """The kind of a first level with that many `layout.QUEUED_WAYS`; None where they are 0."""
    return Kind(ways, NARROW, True) if ways else None


def name_of(kinds: Sequence[Kind]) -> str:
    """A name for levels of those kinds."""
    return "plain " + ", ".join(kind.tag for kind in kinds)


def _masked(cache: Cache) -> bool:
    return cache.sets & (cache.sets - 1) == 0
