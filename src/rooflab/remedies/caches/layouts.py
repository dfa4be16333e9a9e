"""Streams of several cores changed: items moved apart or together, sums kept in a register of each core."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from rooflab.cachesim.coherence.layout import ADDRESS_SHIFT, ATOMIC, BARRIER, READS, WRITES
from rooflab.cachesim.coherence.stream import PAGE_BYTES, CoreArray, CoreStreams
from rooflab.remedies.caches.usage import UNUSED, Usage

MOST_GROWTH = 4  # times its bytes, and a line for each core: what padding may cost an array


class Moved(NamedTuple):
    """An array whose items lie elsewhere: offsets in bytes from its beginning, and how many bytes it has then.

    Attributes:
        together: whether what each core stores had to be brought together, not only moved apart.
    """

    offsets: np.ndarray
    nbytes: int
    together: bool


def apart(used: Usage, cores: int, line_bytes: int) -> Moved | None:
    """Where the items of an array lie when those of different writers share no line; None where they do not now,
    or where that would take many times the room.
    """
    writers = _filled(used.writers)
    edges = np.flatnonzero(np.diff(writers)) + 1
    if not edges.size:
        return None
    item = used.array.item_bytes
    room = MOST_GROWTH * used.array.items * item + 2 * cores * line_bytes
    starts = np.concatenate(([0], edges))
    counts = np.diff(np.append(starts, writers.size))
    begins, nbytes = _aligned(counts, item, line_bytes)
    if nbytes <= room and edges.size < 2 * cores:
        return Moved(np.repeat(begins, counts) + _within(starts, writers.size, item), nbytes, False)
    order = np.argsort(writers, kind="stable")
    _, firsts, counts = np.unique(writers[order], return_index=True, return_counts=True)
    begins, nbytes = _aligned(counts, item, line_bytes)
    offsets = np.empty(writers.size, np.int64)
    offsets[order] = np.repeat(begins, counts) + _within(firsts, writers.size, item)
    return Moved(offsets, nbytes, True) if nbytes <= room else None


def _filled(writers: np.ndarray) -> np.ndarray:
    """`writers` where an item that nobody uses goes with the one before it."""
    known = writers != UNUSED
    if not known.any():
        return np.zeros_like(writers)
    places = np.where(known, np.arange(writers.size), -1)
    last = np.maximum.accumulate(places)
    first = int(np.flatnonzero(known)[0])
    return writers[np.where(last < 0, first, last)]


def _aligned(counts: np.ndarray, item: int, line_bytes: int) -> tuple[np.ndarray, int]:
    """Where runs of so many items begin, each on a line of its own; and the bytes of all."""
    sizes = -(-counts * item // line_bytes) * line_bytes
    ends = np.cumsum(sizes)
    return ends - sizes, int(ends[-1])


def _within(starts: np.ndarray, items: int, item: int) -> np.ndarray:
    """How far each item lies from the beginning of its run, in bytes."""
    counts = np.diff(np.append(starts, items))
    return (np.arange(items) - np.repeat(starts, counts)) * item


def moved(streams: CoreStreams, layouts: Mapping[str, Moved]) -> CoreStreams:
    """`streams` with the items of those arrays where `layouts` puts them; each array begins on a page."""
    bases: dict[str, int] = {}
    arrays, end = [], 0
    for array in streams.arrays:
        layout = layouts.get(array.name)
        # Others keep their place in a page, so that nothing else about them changes.
        base = -(-end // PAGE_BYTES) * PAGE_BYTES + (0 if layout else array.base % PAGE_BYTES)
        nbytes = layout.nbytes if layout else array.items * array.item_bytes
        items = -(-nbytes // array.item_bytes)
        bases[array.name] = base
        arrays.append(CoreArray(array.name, base, items, array.item_bytes))
        end = base + nbytes

    def address(addresses: np.ndarray) -> np.ndarray:
        new = addresses.copy()
        for array in streams.arrays:
            own = (addresses >= array.base) & (addresses < array.end)
            if not own.any():
                continue
            within = addresses[own] - array.base
            layout = layouts.get(array.name)
            if layout is not None:
                within = layout.offsets[within // array.item_bytes] + within % array.item_bytes
            new[own] = bases[array.name] + within
        return new

    def again(start: Callable[[], Iterator[np.ndarray]]) -> Callable[[], Iterator[np.ndarray]]:
        def chunks() -> Iterator[np.ndarray]:
            for chunk in start():
                accesses = chunk & 15 != BARRIER
                new = address(chunk >> ADDRESS_SHIFT) << ADDRESS_SHIFT | chunk & (1 << ADDRESS_SHIFT) - 1
                yield np.where(accesses, new, chunk)

        return chunks

    ordering = address(np.array(streams.ordering, np.int64)) if streams.ordering else np.zeros(0, np.int64)
    return replace(
        streams,
        arrays=tuple(arrays),
        cores=tuple(again(start) for start in streams.cores),
        ordering=tuple(sorted(int(each) for each in ordering)),
    )


def summed_locally(streams: CoreStreams, names: tuple[str, ...]) -> CoreStreams:
    """`streams` where each core adds up in registers what it adds to items of those arrays.

    To the items themselves it adds before it meets others: at barriers, locks and its end.
    """
    arrays = [array for array in streams.arrays if array.name in names]

    def again(start: Callable[[], Iterator[np.ndarray]]) -> Callable[[], Iterator[np.ndarray]]:
        def chunks() -> Iterator[np.ndarray]:
            held = np.zeros(0, np.int64)
            for chunk in start():
                operations = chunk & 15
                meets = np.flatnonzero(operations >= BARRIER)
                for part, meeting in _pieces(chunk, meets):
                    addresses = part >> ADDRESS_SHIFT
                    own = np.zeros(part.size, bool)
                    for array in arrays:
                        own |= (addresses >= array.base) & (addresses < array.end)
                    stores = own & (part & 15 != READS)
                    if stores.any() or held.size:
                        held = np.unique(np.concatenate((held, part[stores])))
                        yield part[~own]
                    else:
                        yield part  # it reads what others have added up
                    if meeting is not None:
                        yield _added(held)
                        held = held[:0]
                        yield meeting
            yield _added(held)

        return chunks

    return replace(streams, cores=tuple(_whole(again(start)) for start in streams.cores), values={})


def _pieces(chunk: np.ndarray, meets: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
    """`chunk` cut at the records where cores meet: what comes before each, and the record; then the rest."""
    first = 0
    for place in meets.tolist():
        yield chunk[first:place], chunk[place : place + 1]
        first = place + 1
    yield chunk[first:], None


def _added(stores: np.ndarray) -> np.ndarray:
    """The records that add to those items once: an atomic as it is, a plain store after its load."""
    atomic = stores & 15 == ATOMIC
    pairs = np.repeat(stores[~atomic], 2)
    pairs[::2] += READS - WRITES
    return np.concatenate((pairs, stores[atomic]))


def _whole(start: Callable[[], Iterator[np.ndarray]]) -> Callable[[], Iterator[np.ndarray]]:
    """`start` without empty chunks."""
    return lambda: (chunk for chunk in start() if chunk.size)
