"""Transfers: pipelines by hand, latency against requests at once, stages found by name, a device that waits."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rooflab
from rooflab.errors import RooflabError, UnknownNameError
from rooflab.model import transfer
from rooflab.model.transfer import Stage

GB = 1e9
FAST, SLOW = Stage(name="fast", bytes_per_s=10e9), Stage(name="slow", bytes_per_s=1e9)


def test_serial_stages_add_up():
    found = transfer.through(10 * GB, (SLOW, FAST), overlap=False)
    # 10 GB / 1 GB/s + 10 GB / 10 GB/s
    assert found.time_s == pytest.approx(10 + 1)
    assert (found.binds, found.bytes_per_s) == ("slow", pytest.approx(10e9 / 11))


def test_overlapped_stages_go_at_the_pace_of_the_slowest():
    found = transfer.through(10 * GB, (SLOW, FAST), chunk_bytes=100e6)
    # the first 100 MB through both: 0.1 + 0.01 s; 99 more chunks every 0.1 s
    assert found.fill_s == pytest.approx(0.11)
    assert found.time_s == pytest.approx(0.11 + 99 * 0.1)
    assert found.steady_bytes_per_s == 1e9


def test_one_chunk_overlaps_nothing():
    chunked, serial = (
        transfer.through(GB, (SLOW, FAST), chunk_bytes=2 * GB, overlap=each) for each in (True, False)
    )
    assert chunked.time_s == pytest.approx(serial.time_s) == pytest.approx(1.1)


# 1 MB requests after 9 ms to a store of 1 GB/s: 10 ms each
LATENCY = ((1, 100e6), (4, 400e6), (10, 1e9), (16, 1e9))


@pytest.mark.parametrize(("threads", "bytes_per_s"), LATENCY)
def test_so_many_requests_of_a_latency_get_through(threads, bytes_per_s):
    store = Stage(name="store", bytes_per_s=1e9, latency_s=9e-3, threads=threads)
    found = transfer.through(GB, (store,), chunk_bytes=1e6)
    assert found.stages[0].bytes_per_s == pytest.approx(bytes_per_s)
    # the first after 10 ms, the other 999 at that rate
    assert found.time_s == pytest.approx(10e-3 + 999e6 / bytes_per_s)


def test_decompression_makes_more_bytes():
    unpack = Stage(name="unpack", bytes_per_s=0.5e9, expands=4)
    found = transfer.through(GB, (SLOW, unpack, FAST))
    assert [each.nbytes for each in found.stages] == [GB, GB, 4 * GB]
    assert found.binds == "unpack"  # 2 s against 1 s and 0.4 s
    assert found.steady_bytes_per_s == pytest.approx(0.5e9)


def test_a_device_fed_from_network_storage_waits():
    # 10 Gbit/s over samples of 150 kB: 8,333 a second; the device could do 10,000
    found = rooflab.transfer(
        "150 GB",
        ["network", "disk", "DRAM", "PCIe", "HBM"],
        machine="h200-sxm",
        rates={"network": "10 Gbit/s"},
        latencies={"network": 0},
        sample="150 kB",
        device_samples_per_s=10_000,
    )
    assert found.binds == "network"
    assert found.feed.supply_per_s == pytest.approx(1.25e9 / 150e3)
    assert found.feed.idle == pytest.approx(1 - 8333.33 / 10_000, abs=1e-5)
    assert found.feed.binds == "network"
    assert found.unknown == ("DRAM",)  # an H200 says nothing of its host
    slower = msgspec.structs.replace(found, feed=transfer.feed(found, 150e3, 8000))
    assert (slower.feed.binds, slower.feed.idle, slower.feed.samples_per_s) == ("device", 0, 8000)


def test_stages_are_found_on_the_machine_its_host_and_beyond():
    h200, host = rooflab.machine("h200-sxm"), rooflab.machine("epyc-9654")
    made = transfer.stages(["internet", "hdd", "nvme", "DRAM", "pcie", "hbm"], machine=h200, host=host)
    assert [each.bytes_per_s for each in made[:3]] == [125e6, 285e6, 7.45e9]
    assert made[3].where.startswith(host.name)
    assert made[4].bytes_per_s == 63e9
    assert made[5].bytes_per_s == h200.level("HBM").rate(basis="attained").value
    assert [each.where.split()[0] for each in made[:2]] == ["typical", "typical"]


def test_threads_and_latencies_by_stage():
    made = transfer.stages(["network", "disk"], threads={"network": 16}, latencies={"disk": "80 us"})
    assert [each.threads for each in made] == [16, 1]
    assert made[1].latency_s == pytest.approx(80e-6)


SPEEDS = st.lists(st.tuples(st.floats(1e6, 1e12), st.floats(0, 1e-2), st.integers(1, 64)), min_size=1, max_size=5)


@given(SPEEDS, st.floats(1e3, 1e12), st.floats(1e3, 1e9))
def test_no_transfer_beats_its_slowest_bandwidth_nor_overlap_a_turn_of_each(speeds, nbytes, chunk):
    stages = [
        Stage(name=str(i), bytes_per_s=rate, latency_s=latency, threads=threads)
        for i, (rate, latency, threads) in enumerate(speeds)
    ]
    overlapped, serial = (
        transfer.through(nbytes, stages, chunk_bytes=chunk, overlap=each) for each in (True, False)
    )
    assert overlapped.time_s >= nbytes / min(rate for rate, _, _ in speeds) * (1 - 1e-9)
    assert overlapped.time_s <= serial.time_s * (1 + 1e-9)


BAD = (
    (lambda: rooflab.transfer(0, ["disk"]), "bytes to transfer: got 0, expected more than zero"),
    (lambda: rooflab.transfer("1 GB", []), "transfer through no stage, expected such as network, disk"),
    (lambda: rooflab.transfer("1 GB", ["DRAM"]), 'no rate is known of DRAM: give one, such as rates={"DRAM": "10'),
    (lambda: rooflab.transfer("1 GB", ["disk"], rates={"disk": "7 GB"}), "'7 GB' is in byte, expected byte/s"),
    (lambda: rooflab.transfer("1 GB", ["disk"], rates={"disk": -1.0}), "transfer, disk: bytes_per_s is -1.0"),
    (
        lambda: rooflab.transfer("1 GB", ["disk"], threads=0),
        "transfer, disk: threads is 0, expected more than zero",
    ),
    (lambda: rooflab.transfer("1 GB", ["disk"], latencies={"disk": -1.0}), "transfer, disk: latency_s is -1.0"),
    (
        lambda: rooflab.transfer("1 GB", ["disk"], sample="1 kB"),
        "a feed needs both: sample, such as '150 kB', and",
    ),
    (
        lambda: rooflab.transfer("1 GB", ["disk"], sample="1 kB", device_samples_per_s=0),
        "samples a second of the device: got 0, expected more than zero",
    ),
)


@pytest.mark.parametrize(("made", "said"), BAD)
def test_nonsense_is_refused_in_one_line(made, said):
    with pytest.raises(RooflabError) as error:
        made()
    assert str(error.value).startswith(said)


UNKNOWN = (
    (lambda: rooflab.transfer("1 GB", ["netwrk"]), "unknown stage of a transfer 'netwrk'; did you mean network"),
    (
        lambda: rooflab.transfer("1 GB", ["disk"], rates={"network": 1e9}),
        "unknown stage of that rate 'network'; known: disk",
    ),
    (
        lambda: rooflab.transfer("1 GB", ["disk"], threads={"dsk": 2}),
        "unknown stage of these threads 'dsk'; did you mean disk?",
    ),
)


@pytest.mark.parametrize(("made", "said"), UNKNOWN)
def test_unknown_names_list_near_ones(made, said):
    with pytest.raises(UnknownNameError) as error:
        made()
    assert str(error.value).startswith(said)


def test_one_stage_may_be_given_by_itself():
    alone = rooflab.transfer("10 GB", "PCIe", rates={"PCIe": "50 GB/s"})
    assert [passed.stage.name for passed in alone.stages] == ["PCIe"]
    assert alone.time_s == rooflab.transfer("10 GB", ["PCIe"], rates={"PCIe": "50 GB/s"}).time_s
