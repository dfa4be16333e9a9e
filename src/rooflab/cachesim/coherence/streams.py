"""Streams of several cores, plainly named: what threads do to shared lines in the usual programs.

    rooflab.simulate_cores(rooflab.core_streams.counters(2, 10_000)).show()

Records are made in chunks while they are simulated: memory stays bounded however long the stream is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from rooflab.cachesim.coherence.layout import ADDRESS_SHIFT
from rooflab.cachesim.coherence.stream import (
    BARRIER_RECORD,
    OPERATIONS,
    CoreArray,
    CoreStreams,
    check_cores,
    lay_out,
    pack,
)
from rooflab.cachesim.streams.stream import positive
from rooflab.errors import RooflabError

__all__ = ["counters", "halo_exchange", "producer_consumer", "reduction", "triad"]

CHUNK = 1 << 11  # trips of a loop whose records are made at once: they stay in the cache
LOAD, STORE = OPERATIONS["load"], OPERATIONS["store"]

Chunks = Iterator[np.ndarray]


def counters(cores: int, count: int, *, padding_bytes: int = 8, item_bytes: int = 8) -> CoreStreams:
    """`count[core] += 1`, `count` times on each core, the counters `padding_bytes` apart.

    Neighbours share a line unless they are padded to one: the classic of false sharing.
    """
    positive("counters", cores=cores, count=count, padding_bytes=padding_bytes, item_bytes=item_bytes)
    check_cores(cores)
    step = padding_bytes // item_bytes
    if step < 1 or padding_bytes % item_bytes:
        raise RooflabError(f"counters: padding_bytes is {padding_bytes}, expected a multiple of {item_bytes}")
    laid = lay_out({"count": (cores - 1) * step + 1}, item_bytes)

    def one(core: int) -> Callable[[], Chunks]:
        body = [(laid["count"], kind, core * step, 0) for kind in (LOAD, STORE)]
        return lambda: _loop(body, count)

    title = f"{cores} counters, {padding_bytes} bytes apart, {count:,} increments each"
    return _streams(title, laid, [one(core) for core in range(cores)])


def reduction(cores: int, n: int, *, padding_bytes: int = 8, partial_in_memory: bool = True) -> CoreStreams:
    """The sum of x[0…n): each core sums its part into partial[core], then core 0 adds the parts up.

    Args:
        cores: as many parts.
        n: items of 8 bytes.
        padding_bytes: how far the partial sums lie apart.
        partial_in_memory: load and store partial[core] at every step; False keeps it in a register.
    """
    positive("reduction", cores=cores, n=n, padding_bytes=padding_bytes)
    check_cores(cores)
    step = max(padding_bytes // 8, 1)
    laid = lay_out({"x": n, "partial": (cores - 1) * step + 1, "sum": 1})

    def one(core: int) -> Callable[[], Chunks]:
        first, last = core * n // cores, (core + 1) * n // cores
        mine = [(laid["partial"], kind, core * step, 0) for kind in (LOAD, STORE)]

        def chunks() -> Chunks:
            yield from _loop([(laid["x"], LOAD, first, 1), *(mine if partial_in_memory else [])], last - first)
            if not partial_in_memory:
                yield from _loop(mine[1:], 1)
            yield BARRIER_RECORD
            if core == 0:
                parts = pack(laid["partial"], LOAD, np.arange(cores) * step)
                yield np.append(parts, pack(laid["sum"], STORE, 0))

        return chunks

    return _streams(f"sum of {n:,} by {cores} cores", laid, [one(core) for core in range(cores)])


def producer_consumer(items: int, *, slots: int = 64, item_bytes: int = 8) -> CoreStreams:
    """Core 0 fills a ring of `slots`, core 1 empties it, a barrier after each round.

    In every round the producer fills one half while the consumer reads the other: nothing races.
    """
    positive("producer_consumer", items=items, slots=slots)
    if slots % 2 or items % (slots // 2):
        raise RooflabError(
            f"producer_consumer: {items} items, expected a multiple of half of an even number of slots"
        )
    half = slots // 2
    laid = lay_out({"ring": slots}, item_bytes)
    rounds = items // half

    def side(kind: int, late: int) -> Callable[[], Chunks]:
        def chunks() -> Chunks:
            for turn in range(rounds + 1):
                if late <= turn < rounds + late:
                    yield pack(laid["ring"], kind, np.arange(half) + (turn - late) % 2 * half)
                yield BARRIER_RECORD

        return chunks

    return _streams(f"{items:,} items through a ring of {slots}", laid, [side(STORE, 0), side(LOAD, 1)])


def halo_exchange(
    cores: int, n: int, *, m: int | None = None, sweeps: int = 2, barriers: bool = True
) -> CoreStreams:
    """The 5-point stencil on m by n points, rows dealt out in blocks, from a to b and back, a barrier after each.

    Cores meet in the rows beside the edges of their blocks. Without barriers these race.
    """
    rows = m or n
    positive("halo_exchange", cores=cores, n=n, m=m, sweeps=sweeps)
    check_cores(cores)
    if n < 3 or rows - 2 < cores:
        raise RooflabError(
            f"halo_exchange: {rows} × {n} points, expected 3 columns and an inner row for each core"
        )
    laid = lay_out({"a": rows * n, "b": rows * n})

    def one(core: int) -> Callable[[], Chunks]:
        first, last = 1 + core * (rows - 2) // cores, 1 + (core + 1) * (rows - 2) // cores

        def chunks() -> Chunks:
            for sweep in range(sweeps):
                source, target = (laid["a"], laid["b"]) if sweep % 2 == 0 else (laid["b"], laid["a"])
                at = first * n + 1
                loads = [(source, LOAD, at + move, 1) for move in (-n, n, -1, 0, 1)]
                yield from _rows([*loads, (target, STORE, at, 1)], n - 2, last - first, n)
                if barriers:
                    yield BARRIER_RECORD

        return chunks

    title = f"stencil of {rows:,} × {n:,} by {cores} cores, {sweeps} sweeps"
    return _streams(title, laid, [one(core) for core in range(cores)])


def triad(cores: int, n: int) -> CoreStreams:
    """a[i] = b[i] + s·c[i] for n items, in a block for each core."""
    positive("triad", cores=cores, n=n)
    check_cores(cores)
    laid = lay_out({"a": n, "b": n, "c": n})

    def one(core: int) -> Callable[[], Chunks]:
        first, last = core * n // cores, (core + 1) * n // cores
        body = [(laid[name], kind, first, 1) for name, kind in (("b", LOAD), ("c", LOAD), ("a", STORE))]
        return lambda: _loop(body, last - first)

    return _streams(f"triad of {n:,} by {cores} cores", laid, [one(core) for core in range(cores)])


def _loop(body: Sequence[tuple[CoreArray, int, int, int]], count: int) -> Chunks:
    """`count` trips of accesses (array, operation, first index, step), trip by trip."""
    if count <= 0:
        return
    steps = np.array([step * array.item_bytes << ADDRESS_SHIFT for array, _, _, step in body], np.int64)
    first = np.array([pack(array, kind, index) for array, kind, index, _ in body], np.int64)
    trips = min(CHUNK, count)
    chunk = (first + np.arange(trips)[:, None] * steps).ravel()
    further = np.tile(steps * trips, trips)
    for done in range(0, count, trips):
        yield chunk[: (count - done) * len(body)]
        chunk = chunk + further


def _rows(body: Sequence[tuple[CoreArray, int, int, int]], count: int, rows: int, step: int) -> Chunks:
    """`_loop` over `count` trips for each of `rows`, the indices further by `step` in each."""
    if count > CHUNK:
        for row in range(rows):
            yield from _loop([(array, kind, index + row * step, by) for array, kind, index, by in body], count)
        return
    further = np.tile([step * array.item_bytes << ADDRESS_SHIFT for array, _, _, _ in body], count)
    for chunk in _loop(body, count):
        for row in range(rows):
            yield chunk + row * further


def _streams(title: str, laid: dict[str, CoreArray], cores: list[Callable[[], Chunks]]) -> CoreStreams:
    return CoreStreams(title, tuple(laid.values()), tuple(cores))
