"""The ladder: near to far, each number with a source, own levels before generic ones, unknown kept unknown."""

from __future__ import annotations

import pytest

from rooflab.machines import catalog
from rooflab.machines.ladder import Rung, ladder
from rooflab.types.machine import Level, Link, Machine, Rate, Source

SOURCE = Source("measured", "rooflab measure")


def rungs(name: str) -> dict[str, Rung]:
    return {rung.name: rung for rung in ladder(catalog.find(name))}


def attained(value: float, **more: object) -> Rate:
    return Rate(value=value, per_s="byte", basis="attained", source=SOURCE, **{"what": "read", **more})  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("name", catalog.names())
def test_every_machine_has_a_ladder_to_the_internet_with_sources(name: str) -> None:
    found = ladder(catalog.find(name))
    assert found[-1].name == "internet (1 Gbit/s)"
    assert len({rung.name for rung in found}) == len(found)
    for rung in found:
        assert rung.source.ref
        assert (rung.bytes_per_s is None) == (rung.time_s is None) == (rung.basis is None)
        assert (rung.latency_s is None) == (rung.latency_source is None)


@pytest.mark.parametrize("name", catalog.names())
def test_each_rung_is_slower_than_the_one_before(name: str) -> None:
    assert all(rung.slower is None or rung.slower >= 0.97 for rung in ladder(catalog.find(name)))


def test_h200_from_registers_to_the_internet() -> None:
    found = rungs("h200")
    assert list(found) == [
        "registers",
        "L1",
        "L2",
        "HBM (HBM3e)",
        "another GPU's memory (over NVLink 4)",
        "host memory (over PCIe 5.0 x16)",
        "another machine's memory (over 100 GbE)",
        "disk (NVMe SSD)",
        "network storage (over 10 GbE)",
        "hard disk",
        "internet (1 Gbit/s)",
    ]
    registers, hbm = found["registers"], found["HBM (HBM3e)"]
    # 32.996 TFLOP/s fp64 attained / 2 × 3 operands × 8 bytes = 396 TB/s, more than fp32's 375.8
    assert registers.bytes_per_s == pytest.approx(32.996e12 / 2 * 3 * 8)
    assert registers.source.kind == "derived"
    assert registers.capacity_bytes == 132 * 256 * 1024  # all SMs
    assert hbm.basis == "attained"
    assert hbm.time_s == pytest.approx(1e9 / 4.299e12)
    assert hbm.slower == pytest.approx(8.208 / 4.299)  # L2's bandwidth over HBM's
    assert found["another GPU's memory (over NVLink 4)"].capacity_bytes == 141e9
    assert found["another GPU's memory (over NVLink 4)"].latency_s is None  # nobody gives it


def test_own_links_replace_the_generic_ones() -> None:
    found = rungs("dgx-h100")
    assert found["another machine's memory (over InfiniBand NDR)"].bytes_per_s == 50e9
    assert "another machine's memory (over 100 GbE)" not in found
    assert found["HBM (HBM3)"].capacity_bytes == 80e9  # of one of the eight
    assert found["another GPU's memory (over NVLink 4)"].capacity_bytes == 80e9


def test_a_cpu_has_no_host_and_an_accelerator_without_a_link_an_assumed_one() -> None:
    assert not any(name.startswith("host memory") for name in rungs("epyc-9755"))
    assert rungs("tpu-v7")["host memory (over PCIe 4.0 x16)"].source.kind == "assumed"


def test_what_is_not_known_is_none_and_skipped_by_the_ratio() -> None:
    found = rungs("epyc-9755")
    assert found["L3"].time_s is None
    assert found["L3"].slower is None
    assert found["DRAM (DDR5)"].slower == pytest.approx(
        128 * 64 * 2.7e9 / 576e9, rel=1e-3
    )  # over L2, the last known
    assert found["DRAM (DDR5)"].capacity_bytes is None  # what is fitted, not what the part has
    assert next(rung for rung in ladder(catalog.find("b300")) if rung.name == "L1").capacity_bytes is None


def test_a_measured_machine_keeps_its_own_disk_and_says_when_a_rate_is_one_cores() -> None:
    machine = Machine(
        name="host",
        kind="cpu",
        source=SOURCE,
        levels=(
            Level(name="L1", source=SOURCE, rates=(attained(1e11, scope="core"),)),
            Level(name="DRAM", source=SOURCE, rates=(attained(2e10),)),
            Level(name="disk", source=SOURCE, rates=(attained(3e9, what="sequential read"),)),
        ),
        links=(Link(name="core to core", to="core", source=SOURCE, latency_s=5e-8),),
    )
    found = {rung.name: rung for rung in ladder(machine)}
    assert "registers" not in found  # no arithmetic peak to derive it from
    assert found["L1"].note == "one core"
    assert found["disk"].bytes_per_s == 3e9
    assert "disk (NVMe SSD)" not in found
