"""nvbandwidth's output. The samples are built from the documented layout (README, output.cpp, json_output.cpp)."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflab.errors import FileError
from rooflab.observe.importers.roofs import nvbandwidth

SAMPLES = Path(__file__).parents[3] / "samples" / "profiles" / "nvbandwidth"
_LOCAL = """Device 0: NVIDIA H100 80GB HBM3 (00000000:1b:00)

Running device_local_copy.
memcpy local GPU(column) bandwidth (GB/s)
           0
 0   1400.00
"""


@pytest.mark.parametrize("name", ["two_cards.txt", "two_cards.json"])
def test_links_are_one_way(name):
    machine = nvbandwidth.load(SAMPLES / name)
    assert (machine.kind, machine.compute_units) == ("system", 2)
    links = {link.name: link for link in machine.links}
    assert links["host to device (copy engine)"].each_way_bytes_per_s == 55.3e9
    assert links["device to device, reading (copy engine)"].each_way_bytes_per_s == 371.6e9
    # of Read1 360, 361, Read2 362, 359 and Total 722, 720: the total of both directions is never a rate
    both = links["device to device, reading while the other way runs (copy engine)"]
    assert (both.each_way_bytes_per_s, both.duplex) == (362e9, True)
    assert all((link.each_way_bytes_per_s or 0) < 400e9 for link in machine.links)


def test_both_ways_by_the_sms_have_no_direction():
    machine = nvbandwidth.load(SAMPLES / "two_cards.txt")
    assert not any("SMs" in link.name and link.each_way_bytes_per_s for link in machine.links)
    assert "host_to_device_bidirectional_memcpy_sm (80.3 GB/s)" in machine.note


def test_latencies_are_seconds():
    machine = nvbandwidth.load(SAMPLES / "two_cards.txt")
    (latency,) = [link for link in machine.links if link.latency_s]
    assert (latency.latency_s, latency.to) == (pytest.approx(801.5e-9), "host")


def test_a_copy_within_one_device_is_read_and_written(tmp_path):
    path = tmp_path / "local.txt"
    path.write_text(_LOCAL)
    machine = nvbandwidth.load(path)
    assert machine.kind == "gpu"
    assert machine.level("HBM").rate("copy").value == 2 * 1400e9
    # a roof of one device is not one of a system of two
    assert nvbandwidth.load(SAMPLES / "two_cards.txt").levels == ()


def test_what_is_waived_and_unknown_is_said(tmp_path):
    assert "all_to_one_write_sm: Waived" in nvbandwidth.load(SAMPLES / "two_cards.json").note
    path = tmp_path / "new.txt"
    path.write_text(
        _LOCAL + "\nRunning moon_to_device_memcpy_ce.\nmemcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)\n"
        "           0\n 0     10.00\n"
    )
    assert "moon_to_device_memcpy_ce: not a test that rooflab knows" in nvbandwidth.load(path).note


def test_only_errors_are_one_sentence(tmp_path):
    path = tmp_path / "failed.json"
    path.write_text('{"nvbandwidth": {"error": "[CUDA_ERROR_NO_DEVICE]", "testcases": []}}')
    with pytest.raises(FileError, match="CUDA_ERROR_NO_DEVICE"):
        nvbandwidth.load(path)


def test_a_test_without_a_known_title_does_not_add_to_the_one_before(tmp_path):
    """Of version 0.10: device_local_write_sm's 1,555 GB/s are no copy from the host."""
    path = tmp_path / "out.txt"
    path.write_text(
        """nvbandwidth Version: v0.10.0

Running host_to_device_memcpy_ce.
memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)
           0         1
 0     55.59     55.60

SUM host_to_device_memcpy_ce 111.19

Running device_local_write_sm.
something new (GB/s)
           0         1
 0   1555.59   1555.60

Running another_new_sm.
local write SM GPU(column) bandwidth (GB/s)
           0         1
 0   1655.59   1655.60
"""
    )
    machine = nvbandwidth.load(path)
    (link,) = machine.links
    assert (link.name, link.each_way_bytes_per_s) == ("host to device (copy engine)", 55.6e9)
    assert "device_local_write_sm: not a test" in machine.note
    assert "another_new_sm: not a test" in machine.note


@pytest.mark.parametrize("before", ["Running benchmark device_to_host_memcpy_ce.\n", "$ ./nvbandwidth -t 1\n", ""])
def test_the_first_versions_and_a_matrix_alone(tmp_path, before):
    path = tmp_path / "out.txt"
    path.write_text(
        f"{before}memcpy CE CPU(row) <- GPU(column) bandwidth (GB/s)\n          0         1\n0  6.20  12.36\n"
    )
    assert nvbandwidth.sniff(path.read_bytes())
    (link,) = nvbandwidth.load(path).links
    assert (link.name, link.each_way_bytes_per_s) == ("device to host (copy engine)", 12.36e9)
