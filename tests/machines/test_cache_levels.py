"""The caches taken for real parts: one family a row, and what is said of each."""

from __future__ import annotations

import pytest

import rooflab
from rooflab import Cache, streams
from rooflab.errors import RooflabError
from rooflab.machines import cache_designs, cache_levels

K, M = 1024, 1024 * 1024


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        # capacity, ways, line, sector: of one SM; ways of L1 from 4 sets of 128-byte lines, 256 KiB ÷ 4 ÷ 128
        ("h200", [(256 * K, 512, 128, 32), (60 * M, 16, 128, 32)]),
        ("h100-sxm", [(256 * K, 512, 128, 32), (50 * M, 16, 128, 32)]),
        ("a100-sxm-80gb", [(192 * K, 384, 128, 32), (40 * M, 16, 128, 32)]),
        # one CU's vector L1, one XCD's L2, all of the Infinity Cache
        ("mi300x", [(32 * K, 64, 128, None), (4 * M, 16, 128, None), (256 * M, 16, 128, None)]),
        # 30 MiB and 1.875 MiB a core: the catalogue's ways; the L3 of 105 MiB ÷ 15 ÷ 64 is 114,688 sets
        ("xeon-8480plus", [(48 * K, 12, 64, None), (2 * M, 16, 64, None), (105 * M, 15, 64, None)]),
        ("epyc-7763", [(32 * K, 8, 64, None), (512 * K, 8, 64, None), (32 * M, 16, 64, None)]),
        # the catalogue states no ways of L3: 8
        ("graviton3", [(64 * K, 4, 64, None), (1 * M, 8, 64, None), (32 * M, 8, 64, None)]),
        ("snapdragon-x-elite", [(96 * K, 8, 64, None), (12 * M, 8, 64, None)]),
    ],
)
def test_sizes_of_each_family(name, wanted):
    found = cache_levels.of_machine(rooflab.machine(name)).caches
    assert [(each.capacity_bytes, each.set_ways, each.line_bytes, each.sector_bytes) for each in found] == wanted


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("h200", "one SM: its own L1 of 256 KiB, all of it cache and none shared memory"),
        ("h200", "L2: all 60 MiB, as if the other 131 SMs left it alone; its two partitions taken as one"),
        ("h100-sxm", "L1: lines of 128 bytes; a miss reads a sector of 32"),
        ("h100-sxm", "NVIDIA states neither"),
        ("mi300x", "ways: L1 64, further levels 16, assumed"),
        ("mi300x", "L2: all 4 MiB, as if the other 37 CUs left it alone"),
        ("xeon-8480plus", "L3 since Skylake-SP does not include L2: taken as filled by every miss"),
        ("epyc-7763", "L3 of a Zen is mostly a victim cache of its L2s"),
        ("core-i9-14900k", "whether L3 includes L2 differs between Intel's client parts"),
        ("graviton3", "what L3 holds of L2 is not stated for this part"),
        ("graviton3", "L3: 8 ways, assumed"),
    ],
)
def test_what_is_assumed_is_said(name, said):
    assert any(said in line for line in cache_levels.of_machine(rooflab.machine(name)).assumptions)


def test_only_gpus_of_two_partitions_are_said_to_have_them():
    told = [
        " ".join(cache_levels.of_machine(rooflab.machine(name)).assumptions)
        for name in ("v100-sxm2-32gb", "rtx-4090")
    ]
    assert not any("partitions" in each for each in told)
    assert cache_designs.cpu(rooflab.machine("snapdragon-x-elite")) == []  # it has no L3


def test_an_apple_soc_without_caches_in_the_catalogue_is_refused():
    with pytest.raises(RooflabError, match="states no cache with a capacity, expected at least L1"):
        cache_levels.of_machine(rooflab.machine("m1-pro"))


@pytest.mark.slow
def test_one_sm_reads_sectors_and_stores_pass_its_l1():
    found = rooflab.simulate(streams.triad(4096), machine="h200")
    l1, l2 = found.levels
    # b and c: 4,096 doubles are 1,024 sectors of 32 bytes, read once; the 4,096 stores of a miss L1 one by one.
    assert (l1.misses, l1.read_bytes, l1.write_bytes) == (2 * 1024 + 4096, 2 * 32768, 32768)
    # In L2 the first store to a sector of a makes room for it and reads nothing; a is written back at the end.
    # At HBM that is two doubles read and one written for each element.
    assert (l2.misses, l2.read_bytes, l2.write_bytes) == (3 * 1024, 2 * 32768, 32768)
    assert [time.name for time in found.times] == ["L1", "L2", "HBM"]


@pytest.mark.slow
def test_a_level_smaller_than_a_nearer_one():
    shrinking = [Cache(65536, 8), Cache(32768, 8)]
    said = rooflab.simulate(streams.triad(100), levels=shrinking).assumptions
    assert said == (
        "L2 has 32 KiB, less than the 64 KiB of L1: levels go near to far, and it finds hardly anything that L1 "
        "has not",
    )
    victim = [shrinking[0], Cache(32768, 8, inclusion="exclusive")]
    assert rooflab.simulate(streams.triad(100), levels=victim).assumptions == ()
    with pytest.raises(RooflabError, match="L2 has 32 KiB, less than the 64 KiB of L1, and cannot include it"):
        rooflab.simulate(streams.triad(100), levels=[shrinking[0], Cache(32768, 8, inclusion="inclusive")])
