"""Changed nests: those that `rooflab.streams` writes by itself, and addresses made one by one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rooflab import Cache, simulate, streams
from rooflab.cachesim.native.layout import STORE
from rooflab.cachesim.streams.nests import Access, Loop
from rooflab.cachesim.streams.stream import Arena, Stream
from rooflab.remedies.caches import nests

SMALL = [Cache(4096, 4), Cache(32768, 8)]


def counts(stream: Stream) -> list[tuple[int, ...]]:
    levels = simulate(stream, levels=SMALL).levels
    return [(level.hits, level.misses, level.read_bytes, level.write_bytes) for level in levels]


def addresses(stream: Stream) -> list[tuple[str, int]]:
    """Every access in order, made by plain loops: (array, address)."""

    def walk(part: Loop | Access, at: dict[str, int]) -> Iterator[tuple[str, int]]:
        if isinstance(part, Access):
            moved = sum(step * at.get(loop, 0) for loop, step in part.strides.items())
            yield stream.arrays[part.reference], part.base + moved
            return
        extent = part.extent
        if part.clip:
            extent = min(extent, part.clip[1] - at[part.clip[0]] * extent)
        for count in range(extent):
            for each in part.body:
                yield from walk(each, {**at, part.name: count})

    assert stream.program is not None
    return [each for loop in stream.program.loops for each in walk(loop, {})]


@pytest.mark.parametrize("order", ["ikj", "kij", "jki"])
def test_an_exchanged_product_is_the_product_in_that_order(order):
    changed = dict(nests.exchanged(streams.matmul(48, order="jki" if order != "jki" else "kji"), 64))
    if order == "jki":  # its innermost loop steps over rows of A and C: no better than kji's
        assert ", ".join(order) not in changed
        return
    assert counts(changed[", ".join(order)]) == counts(streams.matmul(48, order=order))


def test_the_orders_with_fewest_lines_come_first():
    orders = [name for name, _ in nests.exchanged(streams.matmul(48), 64)]
    assert orders == ["i, k, j", "k, i, j"]  # B and C go along rows, A stands; in ijk B goes down a column


@pytest.mark.parametrize(("n", "tile"), [(64, 8), (50, 16)])
def test_a_tiled_transpose_is_the_tiled_transpose(n, tile):
    changed = nests.tiled(streams.transpose(n), tile)
    assert changed is not None
    assert counts(changed) == counts(streams.transpose(n, tile=tile))


@pytest.mark.parametrize("order", ["ijk", "ikj"])
def test_a_tiled_product_is_the_tiled_product(order):
    changed = nests.tiled(streams.matmul(40, order=order), 16)
    assert changed is not None
    assert counts(changed) == counts(streams.matmul(40, order=order, tile=16))


def test_what_would_change_results_is_left_alone():
    assert nests.nest_of(streams.stencil2d(16, sweeps=2)) is None  # a sweep reads what the one before stored
    assert nests.nest_of(streams.random(4096, 10)) is None
    assert nests.tiled(streams.transpose(64, tile=8), 16) is None
    arena = Arena()
    arena.array("a", 800)
    step = (arena.load("a[i, j-1]", {"i": 80, "j": 8}), arena.store("a[i, j] =", {"i": 80, "j": 8}, offset=8))
    wavefront = arena.affine("wavefront", Loop("i", 9, (Loop("j", 9, step),)))
    assert nests.nest_of(wavefront) is None  # each item needs the one before
    again = arena.affine("overlap", Loop("i", 9, (Loop("j", 9, (arena.store("a[i + j] =", {"i": 8, "j": 8}),)),)))
    assert nests.nest_of(again) is None  # which of several stores is the last would change


def test_a_loop_that_only_repeats_stays_where_it_is():
    assert nests.exchanged(streams.strided(4096, 128, passes=3), 64) == []


def test_rows_further_apart_and_arrays_begun_later():
    stream = streams.stencil2d(6)  # rows of 48 bytes; a and b on pages 0 and 1
    changed = nests.laid_out(stream, wider={"a": 64}, shifts={"b": 256})

    def elsewhere(array: str, address: int) -> int:
        row, along = divmod(address - (0 if array == "a" else 4096), 48)
        return row * (48 + 64) + along if array == "a" else 4096 + 256 + row * 48 + along

    wanted = [(array, elsewhere(array, address)) for array, address in addresses(stream)]
    assert addresses(changed) == wanted
    assert changed.spans == ((0, 6 * (48 + 64)), (4096 + 256, 4096 + 256 + 288))


def test_columns_side_by_side():
    stream = streams.matmul(4, k=6)
    shape = next(each for each in nests.shapes(stream) if each.name == "B")
    assert (shape.row, shape.item, shape.loaded) == (32, 8, True)
    changed = nests.by_columns(stream, shape)
    base = shape.base

    def turned(array: str, address: int) -> int:
        row, along = divmod(address - base, 32)
        return base + (along // 8 * 6 + row) * 8 if array == "B" else address

    assert addresses(changed) == [(array, turned(array, address)) for array, address in addresses(stream)]


def test_items_side_by_side():
    stream = streams.strided(4096, 128)
    changed = nests.side_by_side(stream, nests.shapes(stream)[0])
    assert [address for _, address in addresses(changed)] == [8 * n for n in range(32)]
    assert nests.side_by_side(streams.sequential(4096), nests.shapes(streams.sequential(4096))[0]) is None


def test_a_row_is_found_in_tiles_too():
    shapes = {shape.name: shape.row for shape in nests.shapes(streams.matmul(64, tile=16))}
    assert shapes == {"A": 512, "B": 512, "C": 512}  # 64 doubles; not the 128 bytes of a tile


def test_stores_past_the_caches_are_those_of_the_stream_itself():
    changed = nests.past_caches(streams.triad(512), ["a"])
    assert counts(changed) == counts(streams.triad(512, stores="nontemporal"))
    assert all(part.request != STORE for part in changed.program.loops[0].body)
