"""Pinned and pageable host memory, and where a data set fits."""

from __future__ import annotations

import pytest

import rooflab
from rooflab.machines import catalog
from rooflab.machines.ladder import ladder
from rooflab.model.transfer import PAGEABLE_BYTES_PER_S


def rate(machine: str, host_memory=None) -> tuple[float, str]:
    found = rooflab.transfer("100 GB", ["PCIe"], machine=machine, host_memory=host_memory)
    return found.stages[0].stage.bytes_per_s, found.stages[0].stage.where


def test_what_was_measured_takes_the_place_of_theory():
    # Of one H200: 54.9 and 6.35 GB/s; PCIe 5.0 x16 is 63 in theory.
    assert rate("h200-sxm") == (63e9, "NVIDIA H200 SXM 141GB, PCIe 5.0 x16")
    assert rate("h200-sxm", "pinned") == (54.9e9, "NVIDIA H200 SXM 141GB, PCIe 5.0 x16, pinned, attained")
    assert rate("h200-sxm", "pageable")[0] == 6.35e9


def test_a_machine_that_was_not_measured_says_so():
    value, where = rate("a100-sxm-80gb", "pinned")
    assert value == rate("a100-sxm-80gb")[0]
    assert where.endswith("theoretical: not measured")
    value, where = rate("a100-sxm-80gb", "pageable")
    assert value == PAGEABLE_BYTES_PER_S
    assert where.endswith("typical")


def test_a_way_without_a_link_to_a_host_is_refused():
    with pytest.raises(rooflab.RooflabError, match=r"pinned memory: no stage of disk is a link to a host"):
        rooflab.transfer("1 GB", ["disk"], machine="h200-sxm", host_memory="pinned")


def test_a_data_set_of_150_gb():
    homes = {home.name: home for home in rooflab.transfer("150 GB", ["PCIe"], machine="h200-sxm").homes}
    assert list(homes) == ["HBM", "host memory", "disks"]
    assert homes["HBM"].share == pytest.approx(150 / 141)
    assert homes["host memory"].where == "typical"
    system = {home.name: home for home in rooflab.transfer("150 GB", ["PCIe"], machine="dgx-h100").homes}
    assert system["memory of one GPU"].share == pytest.approx(150 / 80)
    assert system["memory of all 8"].share == pytest.approx(150 / 640)
    assert system["host memory"].share == pytest.approx(150 / 2000)
    assert system["disks"].capacity_bytes == pytest.approx(8 * 3.84e12)


def test_the_device_holds_what_arrives():
    found = rooflab.transfer(
        "100 GB", ["unpack", "PCIe"], machine="h200-sxm", rates={"unpack": "2 GB/s"}, expands={"unpack": 3}
    )
    assert [(home.name, home.nbytes) for home in found.homes] == [
        ("HBM", 300e9),
        ("host memory", 100e9),
        ("disks", 100e9),
    ]


def test_no_machine_no_places():
    assert rooflab.transfer("1 GB", ["x"], rates={"x": "1 GB/s"}).homes == ()


def test_a_systems_ladder_is_that_of_one_device():
    one = {rung.name: rung for rung in ladder(catalog.find("h100-sxm"))}
    of_eight = {rung.name: rung for rung in ladder(catalog.find("dgx-h100"))}
    for name in ("registers", "L1", "L2", "HBM (HBM3)"):
        assert of_eight[name].bytes_per_s == one[name].bytes_per_s
    assert of_eight["host memory (over PCIe 5.0 x16)"].capacity_bytes == 2e12


def test_the_command(command):
    code, out, err = command("transfer", "150 GB", "PCIe", "HBM", "--machine", "h200-sxm", "--pageable")
    assert (code, err) == (0, "")
    assert "6.35 GB/s, bound by PCIe" in out
    assert "no: 1.06 × as much" in out
    code, out, err = command("transfer", "1 GB", "disk", "--machine", "h200-sxm", "--pinned")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
