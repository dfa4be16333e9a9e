"""A machine as kernel models see it."""

from __future__ import annotations

import msgspec
import pytest

import rooflab
from rooflab.machines import catalog
from rooflab.model.device.device import device_of


# The levels of a CPU's cores are modelled one by one, in `model/device/cores.py`.
@pytest.mark.parametrize("name", [name for name in catalog.names() if rooflab.machine(name).kind != "cpu"])
def test_no_cache_is_slower_than_the_memory_behind_it(name):
    machine = rooflab.machine(name)
    found = device_of(machine)
    assert min(found.cache_bytes_per_s, found.near_bytes_per_s) >= found.memory_bytes_per_s


# A cache whose rate, units and clock are not stated gives twice the memory's bandwidth (any.toml), so that a long
# stream takes what the memory does at its usual share, 0.8 of 1.23, 7.38 and 26.8 TB/s: 3 x 2^26 x 4 bytes.
@pytest.mark.parametrize(
    ("name", "bytes_per_s"), [("tpu-v4", 1.2288e12), ("tpu-v7", 7.38e12), ("dgx-h100", 26.8e12)]
)
def test_machines_that_state_no_cache_stream_from_memory(name, bytes_per_s):
    report = rooflab.op("add", (2**26,), (2**26,), dtype="fp32", machine=name)
    assert report.time_s == pytest.approx(3 * 2**26 * 4 / (0.8 * bytes_per_s) + 2e-6, rel=0.06)
    assert report.binds == "HBM"


@pytest.mark.parametrize("given", ["tpu-v4", "gaudi-3", "trainium-2"])
def test_more_bandwidth_is_never_slower(given):
    report = rooflab.op("add", (2**26,), (2**26,), dtype="fp32", machine=given)
    faster = report.on(given, what_if="bandwidth=4x")
    assert faster.time_s == pytest.approx(report.time_s / 4, rel=0.2)


def test_a_gpu_without_its_units_is_refused():
    machine = msgspec.structs.replace(
        rooflab.machine("h200"), name="Mine", vendor=None, aliases=(), compute_units=None
    )
    with pytest.raises(rooflab.RooflabError, match="Mine states no compute_units"):
        rooflab.op("matmul", (64, 64), (64, 64), dtype="bf16", machine=machine)


def test_threads_of_one_cluster_of_cores_draw_its_part_of_the_memory() -> None:
    # M2 Max: two clusters of four, 243 GB/s together, 102 GB/s a core.
    drawn = [_memory_of("m2-max-cpu", threads) for threads in (1, 2, 4, 5, 8)]
    assert drawn == pytest.approx([102e9, 121.5e9, 121.5e9, 243e9, 243e9])


def test_threads_beside_one_shared_cache_draw_as_much_as_a_core_each_until_the_memory_has_no_more() -> None:
    one, all_of_them = _memory_of("xeon-8480plus", 1), _memory_of("xeon-8480plus", 56)
    assert [_memory_of("xeon-8480plus", n) for n in (2, 4, 32)] == pytest.approx([2 * one, 4 * one, all_of_them])


def _memory_of(name: str, threads: int) -> float:
    cores = device_of(rooflab.machine(name), threads=threads).cores
    assert cores is not None
    return float(cores.tiers[-1].all_read)
