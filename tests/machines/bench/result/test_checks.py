"""Each self-check holds on good data, and fails with its own sentence on data made wrong for it."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import numpy as np
import pytest

from rooflab.machines.bench.experiments.bandwidth import StreamCase
from rooflab.machines.bench.findings import Findings
from rooflab.machines.bench.kernels.rows import READ
from rooflab.machines.bench.plan import DEFAULT, Sizes
from rooflab.machines.bench.result import capacity_checks
from rooflab.machines.bench.result.checks import checks
from rooflab.machines.bench.run.background_load import BackgroundLoad
from rooflab.machines.bench.run.trials import Sample, Samples, Trial
from rooflab.machines.detect import Cpu, Host
from rooflab.types.machine import Check, Level, Machine, Point, Rate, Source
from rooflab.units import KIB, MIB

SOURCE = Source("measured", "a test")
CPUS = (0, 1)
# Bytes per second of one core at each level: read, write, copy, triad are alike here.
BANDWIDTH = {"L1": 200e9, "L2": 100e9, "L3": 60e9, "DRAM": 15e9}
LATENCY = {"L1": 1e-9, "L2": 4e-9, "L3": 15e-9, "DRAM": 100e-9}
CAPACITY = {"L1": 32 * KIB, "L2": 512 * KIB, "L3": 32 * MIB, "DRAM": None}


def rate(value: float, scope: str = "core", what: str = "read", **more: Any) -> Rate:
    given = {"per_s": "byte", "basis": "attained", "source": SOURCE, "spread": 0.01, **more}
    return Rate(value=value, scope=scope, what=what, **given)  # type: ignore[arg-type]


def level(name: str) -> Level:
    rates = []
    # Two cores double what is private; the memory they share gives one and a half.
    for scope, factor in (("core", 1.0), ("all", 1.5 if name == "DRAM" else 2.0)):
        rates.append(rate(factor * BANDWIDTH[name], scope))
        rates += [
            rate(0.5 * factor * BANDWIDTH[name], scope, what, stores="ordinary")
            for what in ("write", "copy", "triad")
        ]
        rates.append(rate(factor * 10e9, scope, "write", stores="nontemporal", spread=0.5))
    if name == "L1":
        rates += [
            rate(factor * 210e9, scope, basis="theoretical", spread=None)
            for scope, factor in (("core", 1), ("all", 2))
        ]
    return Level(
        name=name,
        source=SOURCE,
        latency_s=LATENCY[name],
        capacity_bytes=CAPACITY[name],
        reported_capacity_bytes=CAPACITY[name],
        rates=tuple(rates),
    )


def peak(value: float, scope: str, **more: Any) -> Rate:
    return rate(value, scope, "fma", per_s="flop", dtype="fp64", engine="vector", **more)


def machine() -> Machine:
    peaks = [peak(50e9, "core"), peak(99e9, "all")]
    peaks += [
        peak(51e9, "core", basis="theoretical", spread=None),
        peak(102e9, "all", basis="theoretical", spread=None),
    ]
    # 24 GB and 2 GFLOP a second: right under 1.5 × 15 GB/s, and 5 GFLOP/s of matmul under 99
    points = (
        Point(name="triad", flop=2e9, bytes=21e9, time_s=1.0, source=SOURCE, spread=0.01),
        Point(name="matmul", flop=90e9, bytes=1e9, time_s=1.0, source=SOURCE, spread=0.01),
    )
    return Machine(
        name="test",
        kind="cpu",
        source=SOURCE,
        levels=tuple(level(name) for name in BANDWIDTH),
        peaks=tuple(peaks),
        points=points,
    )


def findings(**changes: Any) -> Findings:
    host = Host(
        name="test",
        cpus=tuple(Cpu(number=cpu, siblings=(cpu,)) for cpu in CPUS),
        allowed_cpus=CPUS,
        hypervisor=changes.pop("hypervisor", None),
    )
    clocks = changes.pop("clocks", [3.7e9] * 20)
    given: dict[str, Any] = {
        "background_load": BackgroundLoad(0.01, 0.0),
        "huge_share": 1.0,
        "sizes": Sizes((), (), (), 8.0),
        **changes,
    }
    found = Findings(host, CPUS, (), given.pop("sizes"), DEFAULT)
    for name, value in given.items():
        setattr(found, name, value)
    at = StreamCase(READ, "core", 1024, "L1")
    found.rates[at] = Samples(Trial(at, (), 1.0), [Sample(1.0, clock) for clock in clocks])
    return found


def replaced(subject: Machine, where: str, keep: Any = None, **changes: Any) -> Machine:
    """`subject` with its level `where` changed, or those of that level's rates for which `keep` is true."""
    levels = []
    for one in subject.levels:
        if one.name == where:
            if keep is None:
                one = msgspec.structs.replace(one, **changes)
            else:
                rates = tuple(msgspec.structs.replace(r, **changes) if keep(r) else r for r in one.rates)
                one = msgspec.structs.replace(one, rates=rates)
        levels.append(one)
    return msgspec.structs.replace(subject, levels=tuple(levels))


def check_named(found: tuple[Check, ...], name: str) -> Check:
    (one,) = [check for check in found if check.name == name]
    return one


NAMES = [
    "background load",
    "spread",
    "clock",
    "bandwidth order",
    "latency order",
    "below theory",
    "L1 capacity",
    "L2 capacity",
    "L3 capacity",
    "thread scaling",
    "known kernels",
    "working set",
    "huge pages",
]


def test_all_hold_on_good_data() -> None:
    found = checks(machine(), findings())
    assert [check.name for check in found] == NAMES
    assert [check.message for check in found if not check.ok] == []


@pytest.mark.parametrize("name", NAMES)
def test_every_sentence_is_one(name: str) -> None:
    message = check_named(checks(machine(), findings()), name).message
    assert re.fullmatch(r"[A-Z0-9].*\.", message)
    assert "\n" not in message


def is_core_read(one: Rate) -> bool:
    return one.what == "read" and one.scope == "core" and one.basis == "attained"


def _peaks(subject: Machine, basis: str, scope: str, **changes: Any) -> Machine:
    peaks = tuple(
        msgspec.structs.replace(one, **changes) if (one.basis, one.scope) == (basis, scope) else one
        for one in subject.peaks
    )
    return msgspec.structs.replace(subject, peaks=peaks)


GOOD = machine()
# Name of the check, a machine and findings made wrong for it alone, what its sentence must say.
WRONG = [
    (
        "background load",
        GOOD,
        findings(background_load=BackgroundLoad(0.2, 0.0)),
        ["ther processes used 20.0 %", "stop other work"],
    ),
    (
        "background load",
        GOOD,
        findings(background_load=BackgroundLoad(0.0, 0.1)),
        ["hypervisor took 10.0 %", "noisy neighbour"],
    ),
    (
        "spread",
        replaced(GOOD, "L1", is_core_read, spread=0.05),
        findings(),
        ["L1 read (core) 5 % (bound 3 %)", "noisy neighbour"],
    ),
    (
        "spread",
        replaced(GOOD, "DRAM", is_core_read, spread=0.12),
        findings(),
        ["DRAM read (core) 12 % (bound 8 %)"],
    ),
    ("spread", _peaks(GOOD, "attained", "all", spread=0.2), findings(), ["fma fp64 (all) 20 % (bound 3 %)"]),
    ("clock", GOOD, findings(clocks=[3.7e9] * 15 + [2.9e9] * 5), ["2.90 GHz", "3.70 GHz", "turbo"]),
    (
        "bandwidth order",
        replaced(GOOD, "L3", is_core_read, value=11e9),
        findings(),
        ["L3 read (core) 11.0 GB/s is under DRAM's 15.0 GB/s", "shared L3"],
    ),
    # No other guest fills a core's own cache.
    (
        "bandwidth order",
        replaced(GOOD, "L1", is_core_read, value=70e9),
        findings(),
        ["L1 read (core) 70.0 GB/s is under L2's 100 GB/s: likely other work on these cores"],
    ),
    (
        "latency order",
        replaced(GOOD, "L2", latency_s=30e-9),
        findings(),
        ["L2 30.0 ns is over L3 15.0 ns", "preempted"],
    ),
    (
        "below theory",
        replaced(GOOD, "L1", is_core_read, value=220e9),
        findings(),
        ["read (core) 104.8 %", "boost"],
    ),
    ("below theory", _peaks(GOOD, "attained", "core", value=53e9), findings(), ["fma fp64 (core) 103.9 %"]),
    (
        "L3 capacity",
        replaced(GOOD, "L3", capacity_bytes=8 * MIB),
        findings(hypervisor="KVM"),
        ["8 MiB found, 32 MiB reported", "other guests"],
    ),
    (
        "L3 capacity",
        replaced(GOOD, "L3", capacity_bytes=8 * MIB),
        findings(),
        ["8 MiB found, 32 MiB reported", "partitioned"],
    ),
    # What one core has to itself no other guest can share, its SMT sibling apart.
    (
        "L2 capacity",
        replaced(GOOD, "L2", capacity_bytes=128 * KIB, shared_by=1),
        findings(hypervisor="KVM"),
        ["128 KiB found, 512 KiB reported", "SMT sibling of another guest"],
    ),
    (
        "L3 capacity",
        replaced(GOOD, "L3", capacity_bytes=64 * MIB),
        findings(hypervisor="KVM"),
        ["64 MiB found, 32 MiB reported", "blurred", "reports too little"],
    ),
    (
        "L3 capacity",
        replaced(GOOD, "L3", capacity_bytes=None),
        findings(),
        ["32 MiB reported, but no plateau shows it"],
    ),
    (
        "thread scaling",
        replaced(GOOD, "L2", lambda one: one.what == "read" and one.scope == "all", value=110e9),
        findings(),
        ["On 2 cores", "L2 read (core) × 1.10", "SMT siblings", "quota"],
    ),
    ("thread scaling", _peaks(GOOD, "attained", "all", value=60e9), findings(), ["fma fp64 (core) × 1.20"]),
    # More than the cores can: one of the two readings is wrong.
    ("thread scaling", _peaks(GOOD, "attained", "core", value=40e9), findings(), ["fma fp64 (core) × 2.48"]),
    (
        "known kernels",
        msgspec.structs.replace(
            GOOD, points=(msgspec.structs.replace(GOOD.points[0], time_s=0.5), GOOD.points[1])
        ),
        findings(),
        ["Triad moves 42.0 GB/s, DRAM's best is 22.5 GB/s"],
    ),
    (
        "known kernels",
        msgspec.structs.replace(
            GOOD, points=(GOOD.points[0], msgspec.structs.replace(GOOD.points[1], flop=150e9))
        ),
        findings(),
        ["Matmul computes 150 GFLOP/s, the peak is "],
    ),
    (
        "working set",
        GOOD,
        findings(sizes=Sizes((), (), (), 2.0)),
        ["2.0 × the last caches' capacity", "expected 4 ×"],
    ),
    ("huge pages", GOOD, findings(huge_share=0.5), ["50 % of the memory", "TLB"]),
]


@pytest.mark.parametrize(
    ("name", "subject", "found", "said"), WRONG, ids=lambda value: value if isinstance(value, str) else ""
)
def test_each_fails_where_it_should(name: str, subject: Machine, found: Findings, said: list[str]) -> None:
    made = checks(subject, found)
    check = check_named(made, name)
    assert not check.ok
    for part in said:
        assert part in check.message
    assert re.fullmatch(r".+\.", check.message)


def test_every_check_can_fail() -> None:
    failing = {name for name, *_ in WRONG}
    # L1 capacity is L3's check with another name.
    assert failing | {"L1 capacity"} == set(NAMES)


@pytest.mark.parametrize("index", range(len(WRONG)))
def test_a_wrong_number_fails_few_checks(index: int) -> None:
    name, subject, found, _ = WRONG[index]
    failed = {check.name for check in checks(subject, found) if not check.ok}
    # A level that is too slow may also scale wrongly, or lie under a kernel; nothing else is told by one number.
    assert failed - {name} <= {"thread scaling", "bandwidth order", "below theory", "known kernels"}


def test_a_point_above_the_attained_peak_is_noticed_though_theory_is_higher() -> None:
    # matmul computes 90 GFLOP/s; a disturbed peak of 60 is a roof measured too low, whatever theory says.
    low = _peaks(GOOD, "attained", "all", value=60e9)
    assert not check_named(checks(low, findings()), "known kernels").ok


def test_order_allows_what_the_runs_themselves_vary() -> None:
    slow = replaced(GOOD, "L3", is_core_read, value=13e9)  # 13 % under DRAM's 15
    assert not check_named(checks(slow, findings()), "bandwidth order").ok
    varied = replaced(slow, "L3", is_core_read, spread=0.2)
    assert check_named(checks(varied, findings()), "bandwidth order").ok
    near = replaced(GOOD, "L3", is_core_read, value=14e9)  # 7 %: within 8
    assert check_named(checks(near, findings()), "bandwidth order").ok


def test_nontemporal_stores_are_compared_with_nothing() -> None:
    slow = replaced(GOOD, "L1", lambda one: one.stores == "nontemporal", value=1e9, spread=0.9)
    assert [check.name for check in checks(slow, findings()) if not check.ok] == []


def test_stores_of_two_kinds_are_not_compared() -> None:
    # A fast non-temporal store to DRAM says nothing about ordinary stores to L3.
    fast = replaced(GOOD, "DRAM", lambda one: one.stores == "nontemporal", value=1e12)
    assert check_named(checks(fast, findings()), "bandwidth order").ok


def test_theory_is_not_held_against_another_scope() -> None:
    only = replaced(GOOD, "L1", lambda one: one.basis == "theoretical" and one.scope == "core", scope="sm")
    fast = replaced(only, "L1", is_core_read, value=300e9)
    assert check_named(checks(fast, findings()), "below theory").ok


def test_a_slow_l1_is_noticed_though_l2_has_no_rates() -> None:
    gap = replaced(GOOD, "L2", rates=(), capacity_bytes=None)
    slow = replaced(gap, "L1", is_core_read, value=30e9)
    assert (
        "L1 read (core) 30.0 GB/s is under L3's 60.0 GB/s"
        in check_named(checks(slow, findings()), "bandwidth order").message
    )


def test_what_was_not_measured_is_not_judged() -> None:
    bare = Machine(name="test", kind="cpu", source=SOURCE)
    found = findings(background_load=None, huge_share=None, sizes=Sizes((), (), (), None), clocks=[])
    assert checks(bare, found) == ()


def test_one_core_has_no_scaling() -> None:
    found = findings()
    found.cpus = (0,)
    assert "thread scaling" not in [check.name for check in checks(GOOD, found)]


def test_many_noisy_rates_are_counted() -> None:
    noisy = GOOD
    for name in BANDWIDTH:
        noisy = replaced(noisy, name, lambda one: one.basis == "attained", spread=0.3)
    # 4 levels × 2 scopes × 4 kinds (non-temporal stores not judged), 6 of them named
    assert "and 26 more" in check_named(checks(noisy, findings()), "spread").message


def test_a_cache_reported_smaller_than_found_is_told_with_both() -> None:
    large = replaced(GOOD, "L3", capacity_bytes=256 * MIB, reported_capacity_bytes=16 * MIB)
    message = check_named(checks(large, findings()), "L3 capacity").message
    assert "256 MiB found" in message
    assert "16 MiB reported" in message


@pytest.mark.parametrize(("ways", "share"), [(8, 0.43), (16, 0.59), (4, 0.28)])
def test_how_full_a_cache_may_be_where_pages_lie_at_random(ways, share):
    # by throwing pages into colours: the share of them that find fewer than `ways` others in theirs
    assert capacity_checks.room_share(ways) == pytest.approx(share, abs=0.02)
    random, colours = np.random.default_rng(0), 4000
    thrown = random.integers(0, colours, round(share * ways * colours))
    in_colour = np.bincount(thrown, minlength=colours)
    kept = (in_colour[thrown] <= ways).mean()
    assert kept == pytest.approx(0.97, abs=0.02)


def test_a_guests_second_cache_that_small_pages_explain_passes():
    half = replaced(GOOD, "L2", capacity_bytes=CAPACITY["L2"] // 2, shared_by=1, ways=8)
    found = check_named(checks(half, findings(hypervisor="KVM")), "L2 capacity")
    assert found.ok
    assert "lie at random over its sets of 8 ways" in found.message
    assert not check_named(checks(half, findings()), "L2 capacity").ok


def test_a_few_noisy_rates_of_a_guest_are_told_and_pass():
    guest = msgspec.structs.replace(GOOD, environment={"hypervisor": "KVM"})
    assert check_named(checks(replaced(guest, "L1", is_core_read, spread=0.08), findings()), "spread").ok
    one = check_named(checks(replaced(guest, "L1", is_core_read, spread=0.2), findings()), "spread")
    assert one.ok
    assert "20 % (bound 9 %)" in one.message
    noisy = guest
    for name in ("L1", "L2", "L3", "DRAM"):
        noisy = replaced(noisy, name, lambda one: one.basis == "attained", spread=0.3)
    assert not check_named(checks(noisy, findings()), "spread").ok
