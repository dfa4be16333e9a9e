"""Counts that are known from closed forms, from textbooks, or from other simulators of these very caches."""

from __future__ import annotations

import pytest

from rooflab.cachesim.run.streams import simulate_stream
from rooflab.cachesim.streams import dense
from rooflab.types.simulation import Cache, tlb

MILAN = (Cache(32 << 10, 8), Cache(512 << 10, 8), Cache(16 << 20, 16))


def misses(stream, levels=MILAN, **more):
    return tuple(level.misses for level in simulate_stream(stream, levels, **more).levels)


@pytest.mark.parametrize("exact", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("stream", "wanted"),
    [
        # 64 MiB of 64-byte lines, each touched once
        (dense.sequential(1 << 26), (1 << 20, 1 << 20, 1 << 20)),
        # 4·(N−2)·N/8: three rows of a and one of b for each row, all in the same sets of L1; then each line once:
        # 2048 rows of a and 2046 of b, 256 lines each
        (dense.stencil2d(2048), (2_095_104, 1_048_064, 1_048_064)),
        # the sum over all three arrays of 64 KiB lines at L3; L1 and L2 from another simulator (true LRU)
        (dense.matmul(256), (16_923_648, 732_656, 24_576)),
        (dense.matmul(256, registers=False), (16_866_304, 684_984, 24_576)),
        # nothing fits: each of four visits of a line is a miss
        (dense.strided(1 << 26, 64, passes=4), (4 << 20, 4 << 20, 4 << 20)),
        # fits in L2: only the first pass misses there
        (dense.strided(1 << 18, 64, passes=4), (4 << 12, 1 << 12, 1 << 12)),
    ],
    ids=lambda value: value.name if hasattr(value, "name") else None,
)
def test_misses_of_three_levels(stream, wanted, exact):
    assert misses(stream, exact=exact) == wanted


@pytest.mark.parametrize(("n", "wanted"), [(32, 1180), (64, 4720)])
def test_naive_transpose_in_a_direct_mapped_kilobyte(n, wanted):
    # The textbook's cache lab (Bryant and O'Hallaron): 32 sets of one 32-byte line, int, B right behind A. Its
    # trace has a few references of the harness beside the matrices: 3 of its misses.
    found = simulate_stream(dense.transpose(n, item_bytes=4), [Cache(1024, 1, 32)])
    assert wanted - 30 <= found.levels[0].misses <= wanted


@pytest.mark.slow
@pytest.mark.parametrize("capacity", [32 << 10, 512 << 10])
def test_gemm_in_a_fully_associative_cache_by_kind_of_miss(capacity):
    # order i, k, j, float: three matrices once, then all of B anew for each further row of A while B is
    # larger than the cache (Haystack, PLDI 2019, at D = 1024: 196,608 and 67,043,328)
    d = 1024
    found = simulate_stream(
        dense.matmul(d, order="ikj", item_bytes=4, m=8), [Cache(capacity, None)], classify=True
    ).levels[0]
    lines = d * d // 16
    assert found.compulsory == lines + 2 * 8 * d // 16  # B, and 8 rows of A and C
    assert found.capacity == 7 * lines
    assert found.conflict == 0


def test_each_array_of_a_transpose_is_told_apart():
    found = simulate_stream(dense.transpose(1024), MILAN).levels[0]
    by_array = {each.name: each.misses for each in found.arrays}
    # rows of A: a miss each 8 items; columns of B: 1024 lines in one set of L1, so every store misses
    assert by_array == {"A": 1024 * 1024 // 8, "B": 1024 * 1024}


@pytest.mark.slow
def test_non_temporal_stores_read_nothing():
    n = 1 << 16
    plain = simulate_stream(dense.copy(n), MILAN)
    past = simulate_stream(dense.copy(n, stores="nontemporal"), MILAN)
    assert plain.memory_read_bytes == 2 * 8 * n  # b, and a read before it is written
    assert (past.memory_read_bytes, past.memory_write_bytes) == (8 * n, 8 * n)


@pytest.mark.slow
def test_a_tlb_misses_once_a_page():
    found = simulate_stream(dense.sequential(1 << 20), MILAN, tlbs=[tlb(64), tlb(1536, 12)])
    assert [(each.hits, each.misses) for each in found.tlbs] == [((1 << 17) - 256, 256), (0, 256)]


def test_sectors_of_a_gpu_level_are_read_alone():
    # every other 32-byte sector of 128-byte lines: half the bytes
    found = simulate_stream(dense.strided(1 << 20, 64, item_bytes=4), [Cache(1 << 16, 4, 128, sector_bytes=32)])
    assert found.levels[0].misses == 1 << 14
    assert found.memory_read_bytes == 1 << 19


def test_a_store_that_misses_reads_its_sector_only_where_it_is_fetched_on_write():
    n = 1 << 12
    for fetches, read in ((True, 3), (False, 2)):
        found = simulate_stream(
            dense.triad(n),
            [Cache(1 << 16, 4, 128, sector_bytes=32, fetch_on_write=fetches)],
            flush=True,
        )
        # b and c are read; a is where its sectors are fetched; all of it is written once
        assert (found.memory_read_bytes, found.memory_write_bytes) == (read * 8 * n, 8 * n)
