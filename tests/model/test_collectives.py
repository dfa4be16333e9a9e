"""Collectives: each term by hand, properties, and NCCL's times on A100, H100, B200 and L40S."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import rooflab
from rooflab.errors import RooflabError, UnknownNameError
from rooflab.model import collectives
from rooflab.model.collectives import Network

# Round numbers: every latency a power of ten apart, shares of one half.
NET = Network(
    link="test",
    link_bytes_per_s=100e9,
    node_ranks=8,
    mesh=False,
    fabric_bytes_per_s=10e9,
    memory_bytes_per_s=1e12,
    launch_s=10e-6,
    direct_s=5e-6,
    direct_wait_s=0.0,
    step_s=1e-6,
    direct_step_s=0.1e-6,
    fabric_step_s=20e-6,
    chunk_step_s=0.0,
    protocol_step_s=0.0,
    chunk_s=0.0,
    direct_chunk_s=0.0,
    peer_bytes_per_s=1e12,
    peer_start_s=3e-6,
    peer_rank_s=0.1e-6,
    peer_wait_s=2e-6,
    two_shot_s=4e-6,
    peer_share=0.5,
    peer_limit_bytes=8e6,
    link_share=0.5,
    flag_share=0.5,
    path_shares=(1.0, 1.0, 1.0),
    fabric_share=0.5,
    copy_share=0.5,
    switch_share=0.0,
    switch_s=0.0,
)
MB = 1e6

# function, ranks, µs of latency, of the link (1 MB at 50 GB/s: 20 µs), of the copy (1 MB read and written: 4 µs)
ONE_NODE = (
    ("all_reduce", 8, 10 + 14 * 1, 2 * 7 / 8 * 20, 4 / 8),  # 2(n − 1) steps, 2(n − 1)/n of the message
    ("all_gather", 8, 10 + 7 * 1, 7 / 8 * 20, 4 / 8),  # its own eighth is copied
    ("reduce_scatter", 4, 10 + 3 * 1, 3 / 4 * 20, 4 / 4),
    ("all_to_all", 8, 10 + 5 + 7 * 0.1, 7 / 8 * 20, 4 / 8),
    ("broadcast", 8, 10 + 7 * 1, 20, 0),
    ("send", 2, 10 + 1, 20, 0),
    ("barrier", 8, 10 + 14, 0, 0),
    ("all_reduce", 1, 10, 0, 0),
)


@pytest.mark.parametrize(("function", "ranks", "latency", "wire", "copy"), ONE_NODE)
def test_terms_inside_a_node(function, ranks, latency, wire, copy):
    found = collectives.times(function, MB, ranks, NET)
    terms = (found.overhead_s, found.link_s, found.copy_s)
    assert [each * 1e6 for each in terms] == pytest.approx([latency, wire, copy])
    assert found.time_s == pytest.approx(sum(terms))


# Two or four nodes of eight; the fabric attains 5 GB/s a rank: 1 MB takes 200 µs, spread over 8 adapters 25.
NODES = (
    # an eighth of the message twice around half: 2 × 1/2 × 25; up and down a tree of 2 nodes: 2 steps
    ("all_reduce", 16, 10 + 14 + 2 * 20, max(2 * 7 / 8 * 20, 25)),
    ("all_reduce", 32, 10 + 14 + 4 * 20, 2 * 3 / 4 * 25),
    ("all_gather", 32, 10 + 7 + 3 * 20, 3 / 4 * 25),
    ("all_to_all", 16, 10 + 5 + 7 * 0.1 + 20, max(7 / 16 * 20, 8 / 16 * 200)),  # its own adapter to 8 others
    ("send", 16, 10 + 1 + 20, 200),  # one rank's own adapter
)


@pytest.mark.parametrize(("function", "ranks", "latency", "wire"), NODES)
def test_what_crosses_nodes_goes_over_all_their_adapters(function, ranks, latency, wire):
    found = collectives.times(function, MB, ranks, NET)
    assert found.overhead_s * 1e6 == pytest.approx(latency)
    assert found.link_s * 1e6 == pytest.approx(wire)


def test_filling_a_pipeline_of_chunks():
    net = replace(NET, chunk_s=5e-6)
    found = collectives.times("send", MB, 2, net)
    assert found.overhead_s == pytest.approx(11e-6 + 2 * math.sqrt(5e-6 * 20e-6))


def test_lines_with_flags_until_whole_chunks_are_believed_to_be_quicker():
    # Flags use a quarter of the link, chunks a half: 1 MB round 8 ranks takes 7/8 × 40 or 20 µs. A chunk is
    # believed to cost each of 7 steps 2 µs, and costs 3: chunks from 7/8 × 20 µs × MB > 14 µs, 0.8 MB, on.
    net = replace(NET, flag_share=0.25, chunk_step_s=3e-6, protocol_step_s=2e-6)
    flagged, chunked = (collectives.times("all_gather", nbytes, 8, net) for nbytes in (0.79 * MB, 0.81 * MB))
    assert flagged.link_s == pytest.approx(0.79 * 7 / 8 * 40e-6)
    assert flagged.overhead_s == pytest.approx(17e-6)
    assert chunked.link_s == pytest.approx(0.81 * 7 / 8 * 20e-6)
    assert chunked.overhead_s == pytest.approx(17e-6 + 7 * 3e-6)


def test_a_direct_exchange_waits_for_chunks_where_lines_to_each_partner_take_longer():
    # 1/8 of the message to each partner at 5 GB/s; 6 µs to wait for chunks
    net = replace(NET, peer_bytes_per_s=5e9, direct_wait_s=6e-6)
    small, large = (collectives.times("all_to_all", nbytes, 8, net) for nbytes in (0.1 * MB, MB))
    start = 10e-6 + 5e-6 + 7 * 0.1e-6
    assert small.time_s == pytest.approx(start + 0.1e6 / 8 / 5e9 + 0.1 * 7 / 8 * 20e-6)
    assert large.time_s == pytest.approx(start + 6e-6 + 7 / 8 * 20e-6 + 0.5e-6)


@pytest.mark.parametrize(
    ("name", "ranks", "elements", "measured_us"),
    [
        ("dgx-h100", 8, 65536, 6.2),
        ("dgx-h100", 2, 1048576, 9.4),
        ("dgx-a100", 4, 262144, 14.5),
        ("b200", 4, 1048576, 14.6),
    ],
)
def test_engines_kernels_take_what_was_measured(name, ranks, elements, measured_us):
    # ai-dynamo/aiconfigurator 095f58a5 (Apache-2.0): TensorRT-LLM and vLLM in a graph, bf16
    report = rooflab.op("all_reduce", elements, dtype="bf16", ranks=ranks, peers=True, machine=name, mode="graph")
    assert report.time_s == pytest.approx(measured_us / 1e6, rel=0.25)


def test_the_way_through_a_host_narrows_from_switch_to_socket():
    net = replace(NET, path_shares=(1.0, 0.5, 0.1))
    sent = {n: collectives.times("all_gather", MB, n, net).link_s / (n - 1) * n for n in (2, 4, 8)}
    assert sent == pytest.approx({2: 20e-6, 4: 40e-6, 8: 200e-6})
    by_host = collectives.network(rooflab.machine("l40s"))
    assert by_host.path_shares[0] > by_host.path_shares[1] > by_host.path_shares[2]
    assert collectives.network(rooflab.machine("b200")).path_shares == (1.0, 1.0, 1.0)


def test_the_switch_adds_where_that_is_quicker():
    net = replace(NET, switch_share=0.5, switch_s=30e-6)
    small, large = (collectives.times("all_reduce", nbytes, 8, net) for nbytes in (MB, 100 * MB))
    assert (small.switch, large.switch) == (0, 1)
    # (1 + 1/8) × 100 MB at 50 GB/s, instead of 2 × 7/8
    assert large.link_s == pytest.approx(1.125 * 2e-3)
    assert collectives.times("all_reduce", 100 * MB, 8, net, adds_in_switch=False).switch == 0
    assert collectives.times("all_reduce", 100 * MB, 16, net).switch == 0  # two nodes have two switches


@pytest.mark.parametrize("function", collectives.FUNCTIONS)
def test_arrays_are_the_single_rows(function):
    net = collectives.network(rooflab.machine("dgx-h100"))
    sizes, ranks = np.array([1e3, 1e6, 1e9])[:, None], np.array([2, 8, 32])
    together = collectives.times(function, sizes, ranks, net).time_s
    assert isinstance(together, np.ndarray)
    for i, size in enumerate(sizes[:, 0]):
        for j, n in enumerate(ranks):
            assert together[i, j] == pytest.approx(collectives.times(function, size, n, net).time_s)


@pytest.mark.parametrize("function", collectives.FUNCTIONS)
@pytest.mark.parametrize("name", ["dgx-h100", "dgx-a100", "l40s", "b200"])
def test_nothing_beats_the_wire_and_more_bytes_take_longer(function, name):
    net = collectives.network(rooflab.machine(name))
    found = collectives.times(function, np.geomspace(1, 1e11, 40), 8, net)
    assert np.all(found.time_s >= found.floor_s)
    assert np.all(np.diff(found.time_s) >= 0)


def test_the_link_is_that_to_its_like_or_to_the_host():
    h100 = rooflab.machine("h100-sxm")
    assert collectives.network(h100).link == "NVLink 4"
    by_pcie = collectives.network(h100, link="PCIe")
    assert by_pcie.link_bytes_per_s == 63e9
    assert by_pcie.switch_share == 0
    assert collectives.network(rooflab.machine("l40s")).link.startswith("PCIe")
    assert collectives.network(rooflab.machine("dgx-h100")).fabric_bytes_per_s == 50e9  # 400 Gb/s


def test_how_devices_are_joined():
    # A bridge joins two cards: eight of them meet over PCIe.
    bridged = rooflab.machine("a100-pcie-80gb")
    assert collectives.network(bridged).link == "PCIe 4.0 x16"
    pair = collectives.network(bridged, node_ranks=2)
    assert (pair.link, pair.switch_share) == ("NVLink 3", 0)
    assert collectives.network(rooflab.machine("gb200")).node_ranks == 72
    assert collectives.network(rooflab.machine("b200")).node_ranks == 8
    assert collectives.network(rooflab.machine("h200")).switch_share > 0
    assert collectives.network(rooflab.machine("mi300x")).switch_share == 0


def test_few_ranks_of_a_mesh_use_few_cables():
    # 100 GB/s over seven cables: two ranks have one of them
    mesh = replace(NET, mesh=True)
    two, eight = (collectives.times("send" if n == 2 else "all_gather", MB, n, mesh) for n in (2, 8))
    assert two.link_s == pytest.approx(7 * 20e-6)
    assert eight.link_s == pytest.approx(7 / 8 * 20e-6)


def test_a_layer_under_tensor_parallelism():
    # 4096 tokens × 8192 × 2 bytes: 67.1 MB, twice a layer
    found = collectives.tensor_parallel(4096, 8192, 2, 8, NET)
    assert found.calls == 2
    assert found.each.link_s == pytest.approx(2 * 7 / 8 * 4096 * 8192 * 2 / 50e9)
    assert found.total_s == 2 * found.each.time_s


def test_gradients_under_data_parallelism():
    # 1 G parameters × 4 bytes in buckets of 25 MiB
    found = collectives.data_parallel(1e9, 4, 8, NET)
    assert found.calls == math.ceil(4e9 / (25 * 2**20)) == 153
    assert found.total_s == pytest.approx(153 * (24e-6) + 2 * 7 / 8 * 4e9 / 50e9 + 2 / 8 * 4e9 / 500e9)


def test_a_collective_is_predicted_as_an_operation():
    report = rooflab.op("all_reduce", "4096x8192", dtype="bf16", ranks=8, machine="dgx-h100")
    prediction = report.rows[0].prediction
    net = collectives.network(rooflab.machine("dgx-h100"))
    assert prediction.time_s == pytest.approx(collectives.times("all_reduce", 4096 * 8192 * 2, 8, net).time_s)
    # The message of a gather is what comes out: 8 × what goes in.
    gathered = rooflab.op("all_gather", "512x8192", dtype="bf16", ranks=8, machine="dgx-h100").rows[0].prediction
    assert gathered.time_s == pytest.approx(collectives.times("all_gather", 4096 * 8192 * 2, 8, net).time_s)


def test_a_machine_without_a_link_leaves_collectives_out_and_says_so():
    report = rooflab.op("all_reduce", "4096", ranks=4, machine="raspberry-pi-5")
    assert report.rows[0].prediction is None
    assert report.rows[0].unbound.startswith("Raspberry Pi 5 states no link to other machines, which a collective")


def test_a_link_through_the_host_attains_less():
    h100 = rooflab.machine("h100-sxm")
    assert collectives.network(h100, link="host").link_share < collectives.network(h100).link_share


def test_unknown_names_and_missing_numbers():
    with pytest.raises(UnknownNameError, match="unknown collective 'allreduce'; did you mean all_reduce"):
        collectives.times("allreduce", 1, 2, NET)
    with pytest.raises(UnknownNameError, match="unknown link of NVIDIA H100 SXM 80GB 'infiniband'"):
        collectives.network(rooflab.machine("h100-sxm"), link="infiniband")
    with pytest.raises(
        RooflabError, match=r"states no link to other machines, which a collective needs: add \[\[links"
    ):
        collectives.network(rooflab.machine("raspberry-pi-5"))


# Single figures of ai-dynamo/aiconfigurator's NCCL tables (Apache-2.0); `benchmarks/accuracy.py` takes whole ones.
# GPUs, bytes of an element and elements of what nccl-tests calls the size (the larger of input and output), ms.
MEASURED = (
    ("dgx-h100", "all_reduce", 8, 2, 67108864, 0.5781),
    ("dgx-h100", "all_reduce", 8, 1, 16777216, 0.1219),
    ("dgx-h100", "all_reduce", 2, 2, 256, 0.00625),
    ("dgx-h100", "all_gather", 8, 2, 67108864, 0.3901),
    ("dgx-h100", "all_to_all", 8, 2, 67108864, 0.4039),
    ("dgx-h100", "reduce_scatter", 4, 2, 16777216, 0.1049),
    ("dgx-a100", "all_reduce", 8, 2, 67108864, 1.1691),
    ("dgx-a100", "all_gather", 8, 2, 1024, 0.0148),
    ("dgx-a100", "all_to_all", 8, 2, 67108864, 0.6405),
    ("dgx-a100", "reduce_scatter", 4, 2, 16777216, 0.1659),
    ("b200", "all_reduce", 2, 2, 67108864, 0.2706),
    ("b200", "all_gather", 8, 2, 4194304, 0.0442),
    ("b200", "all_to_all", 4, 1, 8388608, 0.0333),
    ("l40s", "all_reduce", 2, 2, 33554432, 3.4),
    ("l40s", "all_gather", 4, 1, 16777216, 2.659),
    ("l40s", "all_gather", 8, 1, 16777216, 12.28),  # through two sockets
)


@pytest.mark.parametrize(("name", "function", "ranks", "width", "elements", "measured_ms"), MEASURED)
def test_collectives_take_what_nccl_was_measured_to_take(name, function, ranks, width, elements, measured_ms):
    net = collectives.network(rooflab.machine(name))
    predicted = collectives.times(function, elements * width, ranks, net, adds_in_switch=width > 1)
    assert measured_ms / 1e3 >= predicted.floor_s
    assert predicted.time_s == pytest.approx(measured_ms / 1e3, rel=0.15)
