"""Plateaus of made-up curves whose truth is known, and of curves recorded on real machines."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rooflab.machines.bench.levels.flats import flats
from rooflab.machines.bench.levels.plateaus import NamedPlateau, named_plateaus
from rooflab.machines.bench.run.trials import sizes
from rooflab.units import GIB, KIB, MIB
from support.machines.curves import DEFAULT_SIZES, ZEN3, curve

SWEEPS = Path(__file__).resolve().parents[3] / "samples" / "sweeps"
REPORTED = (("L1", 32.0 * KIB), ("L2", 512.0 * KIB), ("L3", 32.0 * MIB))
QUICK_SIZES = (*sizes(4 * KIB, 64 * MIB, 2), 128 * MIB, 256 * MIB)
LARGE_SIZES = (*sizes(4 * KIB, 64 * MIB), *(2**k * MIB for k in range(7, 11)))


def by_name(found: Sequence[NamedPlateau]) -> dict[str, NamedPlateau]:
    """The plateaus by level, after the rules that hold for any curve."""
    names = [one.level for one in found]
    assert len(set(names)) == len(names)
    assert names[-1] == "DRAM"
    capacities = [one.capacity_bytes for one in found]
    assert capacities[-1] is None
    inner = [one for one in capacities if one is not None]
    assert inner == sorted(inner)
    assert len(inner) == len(found) - 1
    for one in found:
        assert one.first_bytes <= one.representative_bytes <= one.last_bytes
        assert one.last_bytes <= (one.capacity_bytes or math.inf)
    return {one.level: one for one in found}


@pytest.mark.parametrize("x", [DEFAULT_SIZES, QUICK_SIZES], ids=["default", "quick"])
def test_four_clean_levels(x: tuple[int, ...]) -> None:
    found = by_name(named_plateaus(x, curve(ZEN3, x), REPORTED))
    assert list(found) == ["L1", "L2", "L3", "DRAM"]
    for name, (capacity, rate) in zip(found, ZEN3, strict=True):
        assert found[name].height == pytest.approx(rate, rel=0.01)
        if name != "DRAM":
            assert found[name].capacity_bytes == pytest.approx(capacity, rel=0.05)


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), noise=st.floats(0.0, 0.05))
def test_noise_moves_no_label(seed: int, noise: float) -> None:
    found = by_name(named_plateaus(DEFAULT_SIZES, curve(ZEN3, DEFAULT_SIZES, noise, seed), REPORTED))
    assert list(found) == ["L1", "L2", "L3", "DRAM"]
    for name, (capacity, rate) in zip(found, ZEN3, strict=True):
        assert found[name].height == pytest.approx(rate, rel=0.1)
        if name != "DRAM":
            assert 0.5 * capacity <= (found[name].capacity_bytes or 0) <= 1.5 * capacity


# What likwid-bench 5.2 read on a guest that reports 32 MiB of L3 shared with other guests, bytes → B/s;
# between the points, lines in log-log.
GUEST = {
    16e3: 133e9,
    24e3: 133e9,
    64e3: 75e9,
    256e3: 75e9,
    480e3: 74e9,
    700e3: 62e9,
    4e6: 61e9,
    8e6: 55e9,
    16e6: 16e9,
    25e6: 12e9,
    1e9: 11e9,
}


@pytest.mark.parametrize("seed", range(5))
def test_guest_with_a_part_of_the_l3(seed: int) -> None:
    x = (*sizes(8 * KIB, 64 * MIB), *(2**k * MIB for k in range(7, 11)))
    y = np.exp(np.interp(np.log(x), np.log(list(GUEST)), np.log(list(GUEST.values()))))
    y *= np.exp(np.random.default_rng(seed).normal(0, 0.02, len(x)))
    found = by_name(named_plateaus(x, y.tolist(), REPORTED))
    assert list(found) == ["L1", "L2", "L3", "DRAM"]
    # The roof that a tool measured at 0.75 × the reported size lay below main memory's.
    assert found["DRAM"].height * 3 < found["L3"].height < found["L2"].height
    assert found["L3"].capacity_bytes is not None
    assert 4 * MIB < found["L3"].capacity_bytes < 16 * MIB
    assert found["DRAM"].height == pytest.approx(11.3e9, rel=0.1)


def test_no_l3_to_be_seen() -> None:
    steps = (ZEN3[0], ZEN3[1], ZEN3[3])
    found = by_name(named_plateaus(DEFAULT_SIZES, curve(steps, DEFAULT_SIZES), REPORTED))
    assert list(found) == ["L1", "L2", "DRAM"]
    assert found["DRAM"].height == pytest.approx(12e9, rel=0.01)


def test_l2_hidden_behind_the_l3() -> None:
    # An L2 as fast as the L3 leaves one plateau; it ends where the L3 does.
    steps = (ZEN3[0], ZEN3[2], ZEN3[3])
    found = by_name(named_plateaus(DEFAULT_SIZES, curve(steps, DEFAULT_SIZES), REPORTED))
    assert list(found) == ["L1", "L3", "DRAM"]


@pytest.mark.parametrize("caches", [(), (("L1", None), ("L2", None), ("L3", None))], ids=["none", "no sizes"])
def test_no_reported_caches(caches: tuple[tuple[str, float | None], ...]) -> None:
    found = by_name(named_plateaus(DEFAULT_SIZES, curve(ZEN3, DEFAULT_SIZES), caches))
    assert list(found) == ["L1", "L2", "L3", "DRAM"]
    assert found["L3"].capacity_bytes == pytest.approx(32 * MIB, rel=0.05)


def test_more_plateaus_than_reported_caches() -> None:
    # The system says nothing of the L3: its plateau is nobody's, and above all not main memory's.
    found = by_name(named_plateaus(DEFAULT_SIZES, curve(ZEN3, DEFAULT_SIZES), REPORTED[:2]))
    assert list(found) == ["L1", "L2", "DRAM"]
    assert found["L2"].height == pytest.approx(91e9, rel=0.01)
    assert found["DRAM"].height == pytest.approx(12e9, rel=0.01)


def test_hypervisor_that_names_a_part_of_the_l3() -> None:
    # A Threadripper 3990X under WSL2 reports 16 MiB of 256: https://github.com/microsoft/WSL/issues/6964
    steps = (*ZEN3[:2], (256 * MIB, 40e9), ZEN3[3])
    reported = (*REPORTED[:2], ("L3", 16.0 * MIB))
    found = by_name(named_plateaus(LARGE_SIZES, curve(steps, LARGE_SIZES), reported))
    assert list(found) == ["L1", "L2", "L3", "DRAM"]
    assert found["L3"].height == pytest.approx(40e9, rel=0.01)
    assert found["L3"].capacity_bytes == pytest.approx(256 * MIB, rel=0.05)
    assert found["DRAM"].height == pytest.approx(12e9, rel=0.01)


def test_a_sweep_beside_other_work_makes_no_l1_of_megabytes() -> None:
    # Each run was cut into by another process: what is nearer than 3 MiB looks all the same.
    steps = ((3 * MIB, 70e9), (12 * MIB, 45e9), (40 * MIB, 30e9), (math.inf, 12e9))
    found = by_name(named_plateaus(LARGE_SIZES, curve(steps, LARGE_SIZES), REPORTED))
    assert not {"L1", "L2"} & set(found)


def test_step_of_the_tlb_inside_the_l3() -> None:
    # From 6 MiB on each page costs a walk, but the L3 goes on to 32 MiB: roof of the first, end of the second.
    steps = (*ZEN3[:2], (6 * MIB, 62e9), (32 * MIB, 45e9), ZEN3[3])
    found = by_name(named_plateaus(DEFAULT_SIZES, curve(steps, DEFAULT_SIZES), REPORTED))
    assert list(found) == ["L1", "L2", "L3", "DRAM"]
    assert found["L3"].height == pytest.approx(62e9, rel=0.01)
    assert found["L3"].last_bytes <= 6 * MIB
    assert found["L3"].capacity_bytes == pytest.approx(32 * MIB, rel=0.05)


def test_step_of_the_tlb_inside_main_memory_is_no_cache() -> None:
    steps = (*ZEN3[:2], (192 * MIB, 12e9), (math.inf, 10e9))
    found = by_name(named_plateaus(LARGE_SIZES, curve(steps, LARGE_SIZES), REPORTED))
    assert list(found) == ["L1", "L2", "DRAM"]
    assert found["DRAM"].height == pytest.approx(10e9, rel=0.01)


def test_unreported_level_is_not_taken_into_its_neighbour() -> None:
    # L2 is not reported: its plateau lies between L1's and L3's, and must not become the L3's roof.
    found = by_name(named_plateaus(DEFAULT_SIZES, curve(ZEN3, DEFAULT_SIZES), (REPORTED[0], REPORTED[2])))
    assert found["L3"].height == pytest.approx(62e9, rel=0.01)
    assert found["L1"].height == pytest.approx(185e9, rel=0.01)


@pytest.mark.parametrize("ratio", [1.3, 1.4])
def test_l3_hardly_faster_than_memory(ratio: float) -> None:
    steps = (*ZEN3[:2], (32 * MIB, ratio * 20e9), (math.inf, 20e9))
    found = by_name(named_plateaus(DEFAULT_SIZES, curve(steps, DEFAULT_SIZES, 0.01), REPORTED))
    assert list(found) == ["L1", "L2", "L3", "DRAM"]
    assert found["L3"].height / found["DRAM"].height == pytest.approx(ratio, rel=0.05)


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), count=st.integers(1, 6), factor=st.sampled_from([0.3, 0.5, 0.8, 1.3, 2.0]))
def test_single_spikes_move_no_label(seed: int, count: int, factor: float) -> None:
    rng = np.random.default_rng(seed)
    y = np.array(curve(ZEN3, DEFAULT_SIZES, 0.01, seed))
    # Spikes are apart, and not on the last points, which alone show main memory here.
    spots = rng.choice(np.arange(1, len(y) - 4, 3), count, replace=False)
    y[spots] *= factor
    found = by_name(named_plateaus(DEFAULT_SIZES, y.tolist(), REPORTED))
    # A level cut to pieces may stay without a name; none gets another's.
    assert list(found)[-2:] == ["L3", "DRAM"]
    assert found["DRAM"].height == pytest.approx(12e9, rel=0.1)
    for name, rate in (("L1", 185e9), ("L2", 91e9), ("L3", 62e9)):
        assert name not in found or found[name].height == pytest.approx(rate, rel=0.15)


@pytest.mark.parametrize("per_octave", [1.5, 2.0, 3.0])
def test_a_ramp_is_no_plateau(per_octave: float) -> None:
    x = list(sizes(4 * KIB, 64 * MIB))
    y = [100e9 / per_octave ** math.log2(size / 4096) for size in x]
    assert not flats(x, y)
    (memory,) = named_plateaus(x, y, REPORTED)
    assert memory.level == "DRAM"
    assert memory.height == pytest.approx(np.median(y[-2:]))


def test_a_level_lost_in_noise_lends_its_name_to_none() -> None:
    # L2 is all noise: L1's plateau must not become L2's because the ramp behind it is long.
    y = np.array(curve(ZEN3, DEFAULT_SIZES))
    inside = [k for k, size in enumerate(DEFAULT_SIZES) if 32 * KIB < size <= 512 * KIB]
    y[inside] *= np.resize([0.75, 1.3, 1.0], len(inside))
    found = by_name(named_plateaus(DEFAULT_SIZES, y.tolist(), REPORTED))
    assert found["L1"].height == pytest.approx(185e9, rel=0.01)
    assert found["L3"].height == pytest.approx(62e9, rel=0.01)


def test_a_ramp_between_two_plateaus_belongs_to_nobody() -> None:
    steps = ((32 * KIB, 185e9), (math.inf, 12e9))
    found = by_name(named_plateaus(DEFAULT_SIZES, curve(steps, DEFAULT_SIZES, octaves=8), REPORTED))
    assert list(found) == ["L1", "DRAM"]
    assert (found["L1"].capacity_bytes or 0) <= 64 * KIB
    assert found["DRAM"].first_bytes >= 4 * MIB


def test_one_level_only() -> None:
    (memory,) = named_plateaus(DEFAULT_SIZES, [11e9] * len(DEFAULT_SIZES), REPORTED)
    assert (memory.level, memory.capacity_bytes, memory.height) == ("DRAM", None, pytest.approx(11e9))


@settings(max_examples=80)
@given(
    values=st.lists(st.floats(1e8, 1e12), min_size=3, max_size=40),
    reported=st.lists(st.sampled_from([None, 16.0 * KIB, 1.0 * MIB, 64.0 * MIB, 1.0 * GIB]), max_size=4),
)
def test_any_curve_keeps_the_rules(values: list[float], reported: list[float | None]) -> None:
    x = [4096.0 * 2 ** (k / 4) for k in range(len(values))]
    by_name(named_plateaus(x, values, [(f"L{k + 1}", size) for k, size in enumerate(reported)]))


@settings(max_examples=40)
@given(
    # Each level at least 1.35 × slower than the one before, and 3 to 6 octaves larger.
    ratios=st.lists(st.floats(1.35, 4.0), min_size=3, max_size=3),
    octaves=st.lists(st.floats(3.0, 5.0), min_size=2, max_size=2),
    seed=st.integers(0, 1000),
)
def test_any_hierarchy_is_found(ratios: list[float], octaves: list[float], seed: int) -> None:
    capacities = [32.0 * KIB]
    for step in octaves:
        capacities.append(capacities[-1] * 2**step)
    rates = [200e9]
    for ratio in ratios:
        rates.append(rates[-1] / ratio)
    y = curve([*zip(capacities, rates, strict=False), (math.inf, rates[-1])], LARGE_SIZES, 0.01, seed)
    found = by_name(named_plateaus(LARGE_SIZES, y, [(f"L{k + 1}", size) for k, size in enumerate(capacities)]))
    assert list(found) == ["L1", "L2", "L3", "DRAM"]
    for name, rate in zip(found, rates, strict=True):
        assert found[name].height == pytest.approx(rate, rel=0.05)


@pytest.mark.parametrize("path", sorted(SWEEPS.glob("*.json")), ids=lambda path: path.stem)
def test_recorded_sweeps_show_the_levels_of_their_machines(path: Path) -> None:
    sample = json.loads(path.read_text())
    reported = [(name, float(size)) for name, size in sample["reported_bytes"].items()]
    found = by_name(named_plateaus(sample["working_set_bytes"], sample["best_bytes_per_s"], reported))
    assert list(found) == list(sample["expected"])
    for name, (low, high) in sample["expected"].items():
        assert low <= found[name].height <= high, (name, found[name])


def test_there_are_recorded_sweeps() -> None:
    assert list(SWEEPS.glob("*.json"))
