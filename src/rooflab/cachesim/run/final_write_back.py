"""What lies dirty in the caches when a stream has ended, and its way to main memory.

The rule: what is dirty at the end is written back then, through every level after it, and counted as bytes and
write-backs; it asks nothing of the levels that it passes, so that hits and misses are those of the stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from rooflab.cachesim.level.hierarchy import Hierarchy
from rooflab.types.simulation import Cache, LevelCounts, ReferenceCounts, Simulation

_ROW = "dirty at the end"


class _Left(NamedTuple):
    """Addresses of the dirty units that a level would write to the next one, ascending."""

    cache: Cache
    units: np.ndarray

    def counts(self, first: int, end: int) -> tuple[int, int]:
        """Lines and bytes of those from `first` up to `end`."""
        own = self.units[slice(*np.searchsorted(self.units, (first, end)))]
        return len(_distinct(own // self.cache.line_bytes)), len(own) * self.cache.unit_bytes


def result_of(
    built: Hierarchy,
    name: str,
    *,
    flush: bool,
    owners: Sequence[str] = (),
    spans: Sequence[tuple[int, int]] = (),
    **attributes: Any,
) -> Simulation:
    """What `built` has counted so far; with `flush`, what is left dirty is written back and counted too.

    Args:
        built: the caches.
        name: of the stream.
        flush: write back what is dirty.
        owners: names of the arrays that own lines, and
        spans: first address and the one after the last of each, in order of address.
        attributes: of `Simulation`, as `Hierarchy.result` takes them.
    """
    simulation = built.result(name, **attributes)
    return written_back(simulation, built, owners, spans) if flush else simulation


def written_back(
    simulation: Simulation,
    built: Hierarchy,
    arrays: Sequence[str] = (),
    spans: Sequence[tuple[int, int]] = (),
) -> Simulation:
    """`simulation` with what is left dirty in `built` written back, a row for each array that owns some of it.

    Args:
        simulation: what was counted until now.
        built: the caches.
        arrays: names, and
        spans: first address and the one after the last of each, in order of address.
    """
    levels = [
        _with(level, left, arrays, spans) for level, left in zip(simulation.levels, _levels(built), strict=True)
    ]
    return msgspec.structs.replace(simulation, levels=tuple(levels))


def dirty_bytes(built: Hierarchy) -> tuple[int, ...]:
    """Bytes that each level, near to far, would write to the next one if everything dirty were written back."""
    return tuple(len(left.units) * left.cache.unit_bytes for left in _levels(built))


def _with(level: LevelCounts, left: _Left, arrays: Sequence[str], spans: Sequence[tuple[int, int]]) -> LevelCounts:
    if not len(left.units):
        return level
    # A line belongs to the array that begins on a page of its own: where it lies beyond every span, to none.
    owners = list(zip(arrays, spans, strict=True)) or [(None, (0, np.iinfo(np.int64).max))]
    rows, lines, nbytes = [], 0, 0
    for name, (first, end) in owners:
        written, size = left.counts(first // left.cache.line_bytes * left.cache.line_bytes, end)
        if written:
            rows.append(_row(level, name, written, size))
            lines, nbytes = lines + written, nbytes + size
    return msgspec.structs.replace(
        level,
        writebacks=level.writebacks + lines,
        write_bytes=level.write_bytes + nbytes,
        references=(*level.references, *rows) if level.references else (),
    )


def _row(level: LevelCounts, array: str | None, lines: int, nbytes: int) -> ReferenceCounts:
    kind = None if level.compulsory is None else 0
    return ReferenceCounts(
        name=_ROW if array is None else f"{array}, {_ROW}",
        array=array,
        hits=0,
        misses=0,
        evictions=0,
        writebacks=lines,
        read_bytes=0,
        write_bytes=nbytes,
        compulsory=kind,
        capacity=kind,
        conflict=kind,
    )


def _levels(built: Hierarchy) -> Iterator[_Left]:
    """What each level, near to far, would write to the next one; what is dirty in a nearer one passes it too."""
    dirty: np.ndarray = np.zeros(0, np.int64)
    for number, cache in enumerate(built.levels):
        passing = dirty // cache.unit_bytes * cache.unit_bytes
        # Ascending as it is, with some more: a stable sort merges the two.
        dirty = _distinct(np.sort(np.concatenate((passing, np.sort(_own(built, number)))), kind="stable"))
        yield _Left(cache, dirty)


def _distinct(ascending: np.ndarray) -> np.ndarray:
    """`ascending` with each number once: ten times as fast as np.unique, which sorts or hashes them anew."""
    return ascending[np.append(True, ascending[1:] != ascending[:-1])] if len(ascending) else ascending


def _own(built: Hierarchy, number: int) -> np.ndarray:
    """Addresses of the units that a level holds dirty."""
    cache, tags = built.levels[number], built.tags(number).ravel()
    if cache.unit_bytes == cache.line_bytes:
        return (tags[(tags >= 0) & (tags & 1 == 1)].astype(np.int64) >> 1) * cache.line_bytes
    lines, sectors = (tags >> 1) * cache.line_bytes, built.sectors(number).ravel() >> 32
    each = [
        lines[(tags >= 0) & (sectors >> n & 1 == 1)] + n * cache.unit_bytes
        for n in range(cache.line_bytes // cache.unit_bytes)
    ]
    return np.concatenate(each)
