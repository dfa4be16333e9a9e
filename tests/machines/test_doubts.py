"""What is said of a machine whose measurement failed its self-checks, lacks a level, or is another host's."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest

import rooflab
from rooflab.machines.detect import CacheInstance, Cpu, Host
from rooflab.machines.doubts import doubts, doubts_of_timing, is_other, unfound
from rooflab.types.machine import Check, Level, Machine, Rate, Source
from rooflab.units import KIB, MIB

MEASURED = Source("measured", "rooflab measure", "2026-05-04")
READ = Rate(value=90e9, per_s="byte", what="read", basis="attained", source=MEASURED, scope="core")


def level(name: str, found: float | None, reported: float | None) -> Level:
    return Level(
        name=name,
        source=MEASURED,
        capacity_bytes=found,
        reported_capacity_bytes=reported,
        rates=(READ,) if found else (),
    )


def machine(name: str = "Intel(R) Xeon(R) Platinum 8375C CPU @ 2.90GHz", **facts: object) -> Machine:
    base = Machine(
        name=name,
        kind="cpu",
        source=MEASURED,
        levels=(level("L1", 48 * KIB, 48 * KIB), level("L2", 1.2 * MIB, 1.25 * MIB), level("DRAM", 8e9, 8e9)),
        checks=(Check(name="spread", ok=True, message="Fine."),),
        environment={"microarchitecture": "Ice Lake-SP"},
    )
    return msgspec.structs.replace(base, **facts)


def host(name: str, microarchitecture: str | None = "Ice Lake-SP", caches: tuple[int, ...] = (1, 2)) -> Host:
    cpu = Cpu(number=0, core=0, package=0, die=None, cluster=None, node=0, max_hz=None, siblings=(0,))
    listed = tuple(
        CacheInstance(
            level=number,
            kind="data",
            shared_cpus=(0,),
            capacity_bytes=48 * KIB * 26 ** (number - 1),
            ways=12,
            line_bytes=64,
            sets=64,
        )
        for number in caches
    )
    return Host(name=name, microarchitecture=microarchitecture, cpus=(cpu,), allowed_cpus=(0,), caches=listed)


HERE = host("Intel(R) Xeon(R) Platinum 8375C CPU @ 2.90GHz")


def test_a_sound_measurement_of_this_host_says_nothing() -> None:
    assert doubts(machine()) == ()
    assert doubts_of_timing(machine(), HERE) == ()
    assert doubts(None) == doubts_of_timing(None) == ()


def test_failed_checks_are_named() -> None:
    failed = [Check(name=f"check {k}", ok=k % 2 == 0, message="…") for k in range(18)]
    (line,) = doubts(machine(checks=tuple(failed)))
    assert "9 of 18 self-checks failed (check 1, check 3, check 5, check 7, check 9, check 11 and 3 more)" in line


def test_a_level_that_was_not_found_is_named() -> None:
    bare = machine(
        levels=(level("L1", 48 * KIB, 48 * KIB), level("L2", None, 1.25 * MIB), level("DRAM", 8e9, 8e9))
    )
    assert [one.name for one in unfound(bare)] == ["L2"]
    (line,) = doubts(bare)
    assert "no L2, 1.25 MiB, which the system reports" in line


def test_a_file_without_a_level_that_this_host_reports() -> None:
    (line,) = doubts_of_timing(machine(), host(HERE.name, caches=(1, 2, 3)))
    assert "no L3" in line


@pytest.mark.parametrize(
    ("name", "here", "other"),
    [
        ("AMD EPYC", "AMD EPYC", False),
        ("AMD EPYC", "AMD EPYC 7B13 64-Core Processor", False),
        ("AMD Ryzen 9 9950X", "AMD Ryzen 9 9950X 16-Core Processor", False),
        ("Intel(R) Xeon(R) CPU @ 2.20GHz", "Intel(R) Xeon(R) CPU @ 2.60GHz", False),
        ("AMD Ryzen 9 9950X", "AMD Ryzen 9 7950X 16-Core Processor", True),
        ("Intel Core i9-14900K", "Intel(R) Core(TM) i9-13900K", True),
    ],
)
def test_cpu_models_by_name(name: str, here: str, other: bool) -> None:
    assert is_other(machine(name), host(here)) == other


def test_one_name_for_two_microarchitectures() -> None:
    # A hypervisor calls every generation "AMD EPYC".
    zen = machine("AMD EPYC", environment={"microarchitecture": "Zen 4"})
    assert is_other(zen, host("AMD EPYC", "Zen 2"))
    assert not is_other(zen, host("AMD EPYC", None))
    (line,) = doubts_of_timing(zen, host("AMD EPYC", "Zen 2"))
    assert "timed on this host, AMD EPYC (Zen 2), but the roofs are those of AMD EPYC (Zen 4)" in line


def test_a_host_that_names_its_core_alone() -> None:
    here = host("Neoverse-V2", "Neoverse V2")
    assert not is_other(machine("AWS Graviton4", environment={}), here)
    assert is_other(machine("AWS Graviton3", environment={"microarchitecture": "Neoverse V1"}), here)


def test_a_catalogue_entry_is_not_blamed_for_what_it_does_not_state() -> None:
    listed = machine(source=Source("datasheet", "https://example.com"), levels=(level("DRAM", None, None),))
    assert doubts(listed) == ()
    assert doubts_of_timing(listed, dataclasses.replace(HERE, caches=())) == ()


def test_every_report_says_it(tmp_path) -> None:
    from rooflab import streams

    bad = machine(checks=(Check(name="clock", ok=False, message="It moved."),), name="Imagined 9000")
    expected = "Imagined 9000 as measured: 1 of 1 self-checks failed (clock)"
    simulated = rooflab.simulate(streams.sequential(2**16), machine=bad)
    assert expected in simulated.warnings[0]
    path = tmp_path / "simulation.json"
    simulated.save(path)
    assert expected in path.read_text()

    def double(a):
        for i in range(a.shape[0]):
            a[i] = 2.0 * a[i]

    import numpy as np

    report = rooflab.loop(double, np.ones(512), machine=bad, timed=False)
    assert expected in report.warnings[0]
    assert not any("timed on" in line for line in report.warnings)
    op = rooflab.op("matmul", "64x64", "64x64").on(
        msgspec.structs.replace(rooflab.machine("l4"), checks=bad.checks)
    )
    expected = expected.replace("Imagined 9000", rooflab.machine("l4").name)
    assert any(expected in line for line in op.warnings)
