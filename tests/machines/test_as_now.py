"""A machine's shared levels as they stream now: rates and sweeps follow readings, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rooflab.machines import as_now, served_share
from rooflab.machines.as_now import Reading
from rooflab.types.machine import Curve, Level, Machine, Rate, Source
from rooflab.units import MIB

HERE = Source("measured", "a test")
SIZES = tuple(float(size * MIB) for size in (0.5, 2, 4, 8, 16, 32, 64, 96, 128))
THEN = (200e9, 100e9, 100e9, 100e9, 60e9, 30e9, 25e9, 25e9, 25e9)


def rate(value, scope="core", basis="attained"):
    return Rate(value=value, per_s="byte", what="read", basis=basis, source=HERE, scope=scope)


@pytest.fixture
def machine():
    return made()


def made():
    return Machine(
        name="a test's",
        kind="cpu",
        source=HERE,
        levels=(
            Level(name="L2", source=HERE, capacity_bytes=1.0 * MIB, rates=(rate(200e9),)),
            Level(
                name="L3",
                source=HERE,
                capacity_bytes=16.0 * MIB,
                shared_by=2,
                rates=(rate(100e9), rate(180e9, "all"), rate(400e9, basis="theoretical")),
            ),
            Level(name="DRAM", source=HERE, rates=(rate(25e9), rate(40e9, "all"))),
        ),
        curves=(
            Curve(
                name="read bandwidth",
                x_unit="byte",
                y_unit="byte/s",
                scope="core",
                x=SIZES,
                best=THEN,
                median=THEN,
                source=HERE,
                threads=1,
            ),
        ),
    )


def readings(held, about, far):
    """Ratios of now and then at 8, 16 and 64 MiB of one core."""
    return {
        "core": tuple(
            Reading(size * MIB, ratio * then, then)
            for size, ratio, then in ((8, held, 100e9), (16, about, 60e9), (64, far, 25e9))
        )
    }


def test_a_machine_that_streams_as_it_did_is_the_machine(machine):
    assert as_now.as_now(machine, readings(1.0, 1.0, 1.0)) == machine
    assert as_now.as_now(machine, {}) == machine


def test_the_last_cache_changes_by_what_it_holds_and_the_memory_by_what_lies_far_beyond(machine):
    now = as_now.as_now(machine, readings(0.8, 0.5, 0.6))
    near, last, memory = now.levels
    assert [each.value for each in near.rates] == [200e9]
    # those of all cores were not read again, and no theory changes
    assert [each.value for each in last.rates] == [pytest.approx(80e9), 180e9, 400e9]
    assert [each.value for each in memory.rates] == [pytest.approx(15e9), 40e9]


def test_the_sweep_changes_between_readings_by_logarithms_and_within_nearer_caches_not_at_all(machine):
    (curve,) = as_now.as_now(machine, readings(0.8, 0.5, 0.6)).curves
    # 32 MiB lies half way from 16 to 64
    ratios = (1, 0.8, 0.8, 0.8, 0.5, 0.55, 0.6, 0.6, 0.6)
    assert curve.best == pytest.approx([ratio * then for ratio, then in zip(ratios, THEN, strict=True)])


def test_a_cache_that_neighbours_fill_is_found_to_serve_less(machine):
    then = served_share.of_last_cache(machine)
    now = served_share.of_last_cache(as_now.as_now(machine, readings(1.0, 0.6, 1.0)))
    # 36 GB/s between 100 and 25: 1/36 = h/100 + (1 − h)/25, h = (1/25 − 1/36) / (1/25 − 1/100) = 0.407
    assert now.of(16 * MIB) == pytest.approx(0.407 / 0.95, abs=0.01)
    # 60: h = (1/25 − 1/60) / (1/25 − 1/100) = 0.778
    assert then.of(16 * MIB) == pytest.approx(0.778 / 0.95, abs=0.01)


def test_what_changed_is_said_with_both_figures(machine):
    said = as_now.said(machine, readings(0.95, 0.5, 1.02))
    assert "one core read 16 MiB at 30.0 GB/s, 60.0 GB/s when a test's was measured" in said


def test_nothing_is_said_of_what_stayed_within_a_tenth(machine):
    assert as_now.said(machine, readings(0.95, 1.08, 1.02)) == ""


def test_rows_follow_their_own_reading_and_elsewhere_the_streams(machine):
    half = tuple(y / 2 for y in THEN)
    rows = replace(machine.curves[0], name=as_now.ROWS, best=half, median=half)
    both = replace(machine, curves=(*machine.curves, rows))
    # streams as they were; rows at 16 MiB half as fast
    found = {"core": (*readings(1.0, 1.0, 1.0)["core"], Reading(16 * MIB, 15e9, 30e9, as_now.ROWS))}
    now = as_now.as_now(both, found)
    assert now.curves[0].best == THEN
    changed = dict(zip(SIZES, now.curves[1].best, strict=True))
    assert changed[8 * MIB] == pytest.approx(50e9)
    assert changed[16 * MIB] == pytest.approx(15e9)
    assert changed[64 * MIB] == pytest.approx(12.5e9)
    assert as_now.said(both, found) == ""


def test_the_memory_reads_as_it_does_now_whatever_moment_the_sweep_met(machine):
    *near, memory = machine.levels
    copy = replace(rate(20e9), what="copy")
    other = replace(machine, levels=(*near, replace(memory, rates=(*memory.rates, copy))))
    # the sweep met twice what the level's own reads did: now is as those were
    found = {
        "core": tuple(
            each._replace(then=50e9) if each.then == 25e9 else each for each in readings(1, 1, 1)["core"]
        )
    }
    now = as_now.as_now(other, found).levels[-1]
    assert [each.value for each in now.rates] == [25e9, 40e9, 20e9]


@given(st.lists(st.floats(1e9, 2e11), min_size=3, max_size=3))
def test_what_is_read_now_is_in_the_sweep_and_nothing_smaller_is_slower(now):
    sizes = 8 * MIB, 20 * MIB, 64 * MIB
    found = [
        Reading(x, y, float(np.interp(np.log(x), np.log(SIZES), THEN))) for x, y in zip(sizes, now, strict=True)
    ]
    curve = as_now.as_now(made(), {"core": found}).curves[0]
    assert list(curve.x) == sorted({*SIZES, *sizes})
    best = dict(zip(curve.x, curve.best, strict=True))
    for each in found:
        assert best[each.nbytes] >= each.now * (1 - 1e-9)
        assert all(y >= each.now * (1 - 1e-9) for x, y in best.items() if 2 * MIB <= x <= each.nbytes)
    assert all(low <= high for low, high in zip(curve.median, curve.best, strict=True))


def test_what_swings_from_look_to_look_is_not_put_down_to_the_code(machine):
    def looked(swing):
        held, about, far = readings(1.0, 1.0, 1.0)["core"]
        return {"core": (held._replace(least=held.now), about, far._replace(least=far.now / swing))}

    assert as_now.said(machine, looked(1.2)) == ""
    said = as_now.said(machine, looked(2.5))
    assert "one core read 64 MiB at 10.0 GB/s in one moment and at 25.0 GB/s in another" in said
    assert "not the code's" in said
