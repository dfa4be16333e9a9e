"""All-reduces by engines' own kernels: each term by hand, and which of them an engine takes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.model.test_collectives import MB, NET

from rooflab.model import collectives
from rooflab.model.engines.engine import engine
from rooflab.model.peers import PeerSums, peer_all_reduce


def test_reading_the_memory_of_peers_in_one_shot_or_two():
    # At 50 GB/s 7 others' 10 kB take 1.4 µs; 1 MB 140 µs in one shot, 2 × 7/8 × 20 = 35 µs and 4 in two.
    one, two = (peer_all_reduce(nbytes, 8, NET) for nbytes in (0.01 * MB, MB))
    assert one.time_s == pytest.approx(3.6e-6 + 1.4e-6)
    assert two.time_s == pytest.approx(3.6e-6 + 4e-6 + 35e-6)
    # Beyond the engines' buffer, between nodes and through a host the library's own.
    for nbytes, ranks, net in ((9 * MB, 8, NET), (MB, 16, NET), (MB, 8, replace(NET, path_shares=(1, 0.5, 0.1)))):
        library = collectives.times("all_reduce", nbytes, ranks, net)
        assert peer_all_reduce(nbytes, ranks, net) == library


def test_an_engine_chooses_by_size_and_waits_where_its_kernel_does():
    sums = PeerSums(one_shot_bytes=MB, peer_bytes=2 * MB, waits=True, includes=False)
    below, at, beyond = (peer_all_reduce(nbytes, 4, NET, sums) for nbytes in (0.1 * MB, MB, 2 * MB))
    # 3 µs to start, 0.2 for two more peers, 2 to wait for them; 3 × 0.1 MB at 50 GB/s.
    assert below.time_s == pytest.approx(5.2e-6 + 6e-6)
    assert at.time_s == pytest.approx(5.2e-6 + 4e-6 + 1.5 * 20e-6)
    assert beyond == collectives.times("all_reduce", 2 * MB, 4, NET)
    assert peer_all_reduce(2 * MB, 4, NET, sums._replace(includes=True)).time_s == pytest.approx(9.2e-6 + 60e-6)


def test_memory_that_ranks_share_is_copied_to_and_from_and_added_up_in_the_switch():
    sums = PeerSums(one_shot_bytes=0.0, peer_bytes=0.0, shared_bytes=10 * MB, in_switch=True, waits=True)
    able = replace(NET, switch_share=0.5)
    # 9/8 of 1 MB at half of 100 GB/s; twice read and written at 0.9 TB/s; three kernels.
    made = peer_all_reduce(MB, 8, able, sums)
    assert made.link_s == pytest.approx(22.5e-6)
    assert made.copy_s == pytest.approx(4e-6 / 0.9)
    assert made.overhead_s == pytest.approx(3e-6 + 2e-6 + 6 * 0.1e-6 + 2 * 1.7e-6)
    assert made.switch == 1.0
    # Where the switch cannot add the ranks do, in two shots.
    assert peer_all_reduce(MB, 8, NET, sums).link_s == pytest.approx(35e-6)
    assert peer_all_reduce(20 * MB, 8, able, sums) == collectives.times("all_reduce", 20 * MB, 8, able)


def test_limits_of_engines_are_those_of_their_code():
    vllm = engine("vllm")
    assert vllm.sums("hopper", 2).one_shot_bytes == np.inf
    assert vllm.sums("hopper", 8)[:4] == (256 * 1024, 256 * 1024, 64 * 2**20, True)
    assert vllm.sums("ampere", 3)[:3] == (512 * 1024, 8 * 2**20, 0)
    assert engine("sglang").sums("hopper", 8).one_shot_bytes == 160 * 1024
    assert engine("tensorrt-llm").sums("blackwell", 4).peer_bytes == 4 * 2**20
    # More ranks than any of the kernels is made for, and an engine that has none.
    assert vllm.sums("hopper", 16).peer_bytes == 0
    assert engine("llama-cpp").sums("hopper", 2) is None
