"""From findings to a machine, without measuring: levels not seen or not reported, one core, half a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rooflab
from rooflab.machines.bench.experiments.bandwidth import StreamCase
from rooflab.machines.bench.experiments.call_overhead import CallOverhead
from rooflab.machines.bench.experiments.disk import Disk, DiskRate
from rooflab.machines.bench.findings import Findings, RemoteMemory
from rooflab.machines.bench.kernels.emit import clock_kernel
from rooflab.machines.bench.kernels.jit import Kernel
from rooflab.machines.bench.kernels.rows import READ, STORES
from rooflab.machines.bench.levels.levels import CoreCache, curve, measured_levels, notches, remeasured
from rooflab.machines.bench.plan import DEFAULT, Sizes
from rooflab.machines.bench.result.assemble import assemble
from rooflab.machines.bench.run.pinned_threads import Job
from rooflab.machines.bench.run.trials import Sample, Samples, Trial
from rooflab.machines.consistency import contradictions
from rooflab.machines.detect import Cpu, Host
from rooflab.machines.microarchitecture import named as microarchitecture
from rooflab.timing import Series, Timing
from rooflab.types.machine import Machine, Rate
from rooflab.units import GIB, KIB, MIB
from support.machines.curves import DEFAULT_SIZES, ZEN3
from support.machines.curves import curve as made_up_curve

KERNEL = Kernel(clock_kernel(), None, None)
REPORTED = (
    CoreCache("L1", 32 * KIB, 1, 1, 64, 8),
    CoreCache("L2", 512 * KIB, 1, 1, 64, 8),
    CoreCache("L3", 32 * MIB, 2, 2, 64, 16),
)
DATE = "2026-01-15T12:00:00+00:00"


def samples(cpus: int, *values: float) -> Samples:
    trial = Trial("any", tuple(Job(cpu, KERNEL, 1) for cpu in range(cpus)), 1.0)
    return Samples(trial, [Sample(value, 3.7e9) for value in values])


def sweep(cpus: int = 1) -> dict[int, Samples]:
    y = made_up_curve(ZEN3, DEFAULT_SIZES)
    return {size: samples(cpus, value, 0.99 * value) for size, value in zip(DEFAULT_SIZES, y, strict=True)}


def found(cpus: int = 2, reported: tuple[CoreCache, ...] = REPORTED, **changes: Any) -> Findings:
    numbers = tuple(range(cpus))
    host = Host(
        name="Test CPU",
        cpus=tuple(Cpu(number=cpu, siblings=(cpu,)) for cpu in numbers),
        allowed_cpus=numbers,
        memory_bytes=64 * GIB,
        memory_granted_bytes=24 * GIB,
    )
    made = Findings(host, numbers, reported, Sizes(DEFAULT_SIZES, DEFAULT_SIZES, DEFAULT_SIZES, 8.0), DEFAULT)
    made.sweeps = {"core": sweep()}
    made.levels = measured_levels(made.sweeps["core"], None, reported, 256 * MIB)
    # Load to use: 1, 4, 15 and 100 ns
    made.latency = {8 * KIB: Series((1e9,)), 128 * KIB: Series((250e6,)), 4 * MIB: Series((66.7e6,))}
    made.latency[128 * MIB] = Series((10e6,))
    for place in made.levels:
        for row in (READ, *STORES):
            for scope, members in (("core", 1), ("all", cpus)) if cpus > 1 else (("core", 1),):
                value = members * place.plateau.height
                made.rates[StreamCase(row, scope, place.core_bytes, place.name)] = samples(
                    members, value, 0.98 * value
                )  # type: ignore[arg-type]
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def all_rates(machine: Machine) -> list[Rate]:
    return [*machine.peaks, *machine.clocks, *(rate for level in machine.levels for rate in level.rates)]


def test_levels_near_to_far_with_found_and_reported_capacity() -> None:
    machine = assemble(found(), DATE)
    assert [level.name for level in machine.levels] == ["L1", "L2", "L3", "DRAM"]
    for level, size in zip(machine.levels, (32 * KIB, 512 * KIB, 32 * MIB), strict=False):
        assert level.capacity_bytes == pytest.approx(size, rel=0.05)
        assert level.reported_capacity_bytes == size
        assert level.line_bytes == 64
    memory = machine.levels[-1]
    assert (memory.capacity_bytes, memory.reported_capacity_bytes) == (24 * GIB, 64 * GIB)
    assert [level.latency_s for level in machine.levels] == pytest.approx([1e-9, 4e-9, 15e-9, 100e-9], rel=0.01)


def test_caches_that_are_not_reported_are_no_main_memory() -> None:
    machine = assemble(found(reported=(), loaded=Series((5e6,))), DATE)
    assert [level.name for level in machine.levels] == ["L1", "L2", "L3", "DRAM"]
    for level, size in zip(machine.levels, (32 * KIB, 512 * KIB, 32 * MIB), strict=False):
        assert level.capacity_bytes == pytest.approx(size, rel=0.05)
        assert level.reported_capacity_bytes is None
        assert level.loaded_latency_s is None
    assert machine.levels[-1].capacity_bytes == 24 * GIB
    assert machine.levels[-1].loaded_latency_s == pytest.approx(200e-9)


def test_a_reported_cache_that_no_plateau_shows_has_no_roof() -> None:
    steps = (ZEN3[0], ZEN3[1], ZEN3[3])
    made = found()
    y = made_up_curve(steps, DEFAULT_SIZES)
    made.sweeps = {"core": {size: samples(1, value) for size, value in zip(DEFAULT_SIZES, y, strict=True)}}
    made.levels = measured_levels(made.sweeps["core"], None, REPORTED, 256 * MIB)
    made.rates = {at: taken for at, taken in made.rates.items() if at.level != "L3"}
    machine = assemble(made, DATE)
    assert [level.name for level in machine.levels] == ["L1", "L2", "L3", "DRAM"]
    hidden = machine.level("L3")
    assert (hidden.rates, hidden.capacity_bytes, hidden.latency_s) == ((), None, None)
    assert hidden.reported_capacity_bytes == 32 * MIB
    (check,) = [check for check in machine.checks if check.name == "L3 capacity"]
    assert not check.ok


@pytest.mark.parametrize("cpus", [1, 2])
def test_every_scope_has_its_rates(cpus: int) -> None:
    machine = assemble(found(cpus), DATE)
    for level in machine.levels:
        # read, and write, copy, triad with both kinds of store
        for scope in ("core", "all"):
            kinds = [(rate.what, rate.stores) for rate in level.rates if rate.scope == scope]
            assert len(kinds) == len(set(kinds)) == 7
    core, whole = (machine.level("L1").rate("read", scope=scope) for scope in ("core", "all"))
    assert core is not None
    assert whole is not None
    assert whole.value == cpus * core.value
    assert whole.threads == cpus


def test_rates_hold_best_median_spread_and_convention() -> None:
    rate = assemble(found(), DATE).level("L1").rate("read", scope="core")
    assert rate is not None
    assert (rate.value, rate.median) == pytest.approx((185e9, 0.99 * 185e9), rel=0.01)
    assert rate.spread == pytest.approx(0.01)
    assert rate.runs == 2
    assert (rate.basis, rate.per_s, rate.clock_hz, rate.stores) == ("attained", "byte", 3.7e9, None)
    for one in all_rates(assemble(found(), DATE)):
        assert one.source.ref
        assert (one.stores is not None) == (one.what in ("write", "copy", "triad"))


def test_disk_comes_last_and_its_pages_are_counted_too() -> None:
    rates = (
        DiskRate("write", Series((2e9, 1e9)), 4 * MIB),
        DiskRate("read", Series(()), 4 * MIB),  # nothing was moved in time
        DiskRate("random read 4 KiB", Series((4096e4,)), 4096),
    )
    machine = assemble(found(disk=Disk("page cache", rates, "ext4", 10**12, "why")), DATE)
    disk = machine.levels[-1]
    assert disk.name == "page cache"
    assert not contradictions(machine)
    assert [(rate.what, rate.per_s, rate.value) for rate in disk.rates] == [
        ("write", "byte", 2e9),
        ("random read 4 KiB", "byte", 4096e4),
        ("random read 4 KiB", "transaction", 1e4),
    ]
    assert disk.latency_s == pytest.approx(1e-4)
    assert disk.note is not None
    assert "ext4" in disk.note


def test_a_disk_that_was_not_measured_is_told() -> None:
    machine = assemble(found(disk="disk not measured: /x: No space left"), DATE)
    assert machine.environment["disk"] == "disk not measured: /x: No space left"
    assert machine.levels[-1].name == "DRAM"


def test_half_a_run_is_marked_and_round_trips() -> None:
    half = found(incomplete="interrupted while measuring latency over size", latency={}, rates={})
    machine = assemble(half, DATE)
    assert machine.incomplete == "interrupted while measuring latency over size"
    assert machine.checks[0].name == "complete"
    assert not machine.checks[0].ok
    assert [level.latency_s for level in machine.levels] == [None] * 4
    assert Machine.from_dict(machine.to_dict()) == machine


def test_nothing_but_a_sweep_of_one_core() -> None:
    machine = assemble(found(levels=(), rates={}, latency={}, incomplete="interrupted"), DATE)
    assert machine.levels == ()
    assert [one.name for one in machine.curves] == ["read bandwidth"]


def test_environment_leaves_out_what_is_unknown() -> None:
    environment = assemble(found(), DATE).environment
    assert environment["date"] == DATE
    assert environment["cpus"] == ["0", "1"]
    assert "hypervisor" not in environment
    assert None not in environment.values()


def test_notches_are_lifted_and_measured_again() -> None:
    first = {1024 * 2**k: samples(1, value) for k, value in enumerate((100.0, 100.0, 60.0, 98.0, 97.0))}
    assert notches(first) == [4096]
    assert curve(first)[1] == [100.0, 100.0, 98.0, 98.0, 97.0]
    asked = []

    def again(sizes: list[int]) -> dict[int, Samples]:
        asked.append(sizes)
        return {size: samples(1, 99.0) for size in sizes}

    mended = remeasured(first, again)
    assert asked == [[4096]]
    assert mended[4096].series.values == (60.0, 99.0)


def test_a_notch_that_stays_is_given_up() -> None:
    first = {1024 * 2**k: samples(1, value) for k, value in enumerate((100.0, 60.0, 100.0))}
    asked = []

    def again(sizes: list[int]) -> dict[int, Samples]:
        asked.append(sizes)
        return {size: samples(1, 50.0) for size in sizes}

    remeasured(first, again, attempts=2)
    assert len(asked) == 2


def test_a_shared_cache_is_measured_where_all_cores_fit() -> None:
    (l3,) = [place for place in measured_levels(sweep(), None, REPORTED, 256 * MIB) if place.name == "L3"]
    # Two sharers: together they must not exceed what one core was seen to get.
    assert 2 * l3.all_bytes <= 32 * MIB
    assert l3.plateau.first_bytes <= l3.all_bytes <= l3.plateau.last_bytes
    assert l3.core_bytes <= 32 * MIB


def test_private_levels_are_measured_at_the_same_size_by_all() -> None:
    for place in measured_levels(sweep(), sweep(2), REPORTED, 200 * MIB):
        if place.name in ("L1", "L2"):
            assert place.all_bytes == place.core_bytes
        if place.name == "DRAM":
            assert place.core_bytes == 256 * MIB
            assert place.all_bytes == 200 * MIB


def test_a_triad_above_the_theory_of_reads_is_read_back(tmp_path: Path) -> None:
    # Zen 4 loads 64 bytes a cycle and stores 32 beside them: triad may be 1.5 × what reads alone can be.
    made = found(microarchitecture=microarchitecture("Zen 4"))
    for at, taken in made.rates.items():
        if at.level == "L1" and at.row.name == "triad":
            cores = len(taken.trial.jobs)
            taken.taken[:] = [Sample(cores * 90 * 3.7e9, 3.7e9)] * 2
    machine = assemble(made, DATE)
    assert [check.name for check in machine.checks if not check.ok and check.name == "below theory"] == []
    machine.save(str(tmp_path / "machine.json"))
    assert rooflab.machine(tmp_path / "machine.json") == machine


def test_a_disk_smaller_than_memory_is_read_back(tmp_path: Path) -> None:
    # A cloud machine with 24 GiB of memory and 10 GB of disk
    disk = Disk("disk", (DiskRate("read", Series((1e9,)), 4 * MIB),), "ext4", 10**10)
    machine = assemble(found(disk=disk), DATE)
    machine.save(str(tmp_path / "machine.toml"))
    assert rooflab.machine(tmp_path / "machine.toml") == machine


def test_a_rate_above_theory_fails_its_check_and_is_read_back(tmp_path: Path) -> None:
    made = found(microarchitecture=microarchitecture("Zen 4"))
    for at, taken in made.rates.items():
        if at.level == "L1" and at.row.name == "read":
            taken.taken[:] = [Sample(len(taken.trial.jobs) * 70 * 3.7e9, 3.7e9)] * 2
    machine = assemble(made, DATE)
    assert [check.name for check in machine.checks if not check.ok and check.name == "below theory"] == [
        "below theory"
    ]
    machine.save(str(tmp_path / "machine.json"))
    assert rooflab.machine(tmp_path / "machine.json") == machine


def test_any_other_measured_machine_is_read_back(tmp_path: Path) -> None:
    machine = assemble(found(), DATE)
    for suffix in ("json", "toml"):
        machine.save(str(tmp_path / f"machine.{suffix}"))
        assert rooflab.machine(tmp_path / f"machine.{suffix}") == machine


def test_a_node_whose_memory_may_be_a_cache_says_so() -> None:
    remote = [
        RemoteMemory(0, home, Series((4e10,)), Series((1e7,)), 210 * MIB, beyond)
        for home, beyond in ((0, True), (1, False))
    ]
    near, far = assemble(found(remote=remote), DATE).links[-2:]
    assert (near.to, near.note) == ("local memory", "one core reading 210 MiB")
    assert (far.to, far.note) == ("remote memory", "one core reading 210 MiB, which may lie in a cache")
    assert far.latency_s == pytest.approx(100e-9)


def test_a_call_lost_in_noise_is_unknown_and_read_back(tmp_path: Path) -> None:
    made = found(call_overheads=[CallOverhead("numba", "0.68", Timing(0.0, 1e-9, 1.0, 3, 1000), "empty")])
    machine = assemble(made, DATE)
    assert [one.dispatch_s for one in machine.runtimes] == [None]
    machine.save(str(tmp_path / "machine.toml"))
    assert rooflab.machine(tmp_path / "machine.toml") == machine
