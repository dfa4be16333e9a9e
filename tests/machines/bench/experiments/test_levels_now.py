"""Shared levels read once more: which working sets are chosen, and that a reading is one."""

from __future__ import annotations

import os

import pytest

from rooflab.machines.bench.experiments import levels_now
from rooflab.types.machine import Curve, Level, Machine, Source
from rooflab.units import MIB

HERE = Source("measured", "a test")
SIZES = tuple(float(size * MIB) for size in (0.5, 1, 2, 4, 8, 12, 16, 24, 32, 64, 128))


def machine(capacity, reported=None, scope="core", threads=1):
    curve = Curve(
        name="read bandwidth",
        x_unit="byte",
        y_unit="byte/s",
        scope=scope,
        x=SIZES,
        best=(1e10,) * len(SIZES),
        median=(1e10,) * len(SIZES),
        source=HERE,
        threads=threads,
    )
    return Machine(
        name="a test's",
        kind="cpu",
        source=HERE,
        levels=(
            Level(name="L2", source=HERE, capacity_bytes=1.0 * MIB),
            Level(
                name="L3",
                source=HERE,
                capacity_bytes=capacity * MIB,
                reported_capacity_bytes=(reported or capacity) * MIB,
                shared_by=2,
            ),
            Level(name="DRAM", source=HERE),
        ),
        curves=(curve,),
    )


@pytest.fixture
def chosen(monkeypatch):
    """The working sets in MiB that are streamed through, each at twice what the sweep had."""
    monkeypatch.setattr(levels_now, "_streamed", lambda places, cpus, scope, last: dict.fromkeys(places, 2e10))
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1}, raising=False)

    def of(nbytes, scope="core", **given):
        found = levels_now.measure(machine(scope=scope, **given), nbytes, scope)
        assert all((each.now, each.then) == (2e10, 1e10) for each in found)
        return [each.nbytes / MIB for each in found]

    return of


def test_what_the_cache_holds_what_the_loop_touches_and_what_lies_far_beyond_are_read(chosen):
    assert chosen(15 * MIB, capacity=16.0, reported=32.0) == [8, 16, 64]
    assert chosen(5 * MIB, capacity=16.0, reported=32.0) == [4, 8, 64]


def test_what_is_far_larger_than_the_cache_is_read_as_memory(chosen):
    assert chosen(4000 * MIB, capacity=16.0, reported=32.0) == [8, 64]


def test_what_lies_in_a_nearer_cache_needs_no_reading(chosen):
    assert chosen(0.7 * MIB, capacity=16.0) == []


def test_threads_that_share_the_cache_each_have_their_part(chosen):
    # of 16 MiB each of two holds 8, of which half is surely held; far beyond is twice as much as each has of 32
    assert chosen(7 * MIB, scope="all", threads=2, capacity=16.0, reported=32.0) == [4, 8, 32]


def test_more_threads_than_there_are_are_not_read(chosen):
    assert chosen(7 * MIB, scope="all", threads=4, capacity=16.0) == []


def test_no_sweep_is_no_reading():
    assert levels_now.measure(machine(16.0), 8 * MIB, "all") == ()


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="threads cannot be kept on CPUs here")
def test_a_reading_is_bytes_per_second_of_this_machine():
    found = levels_now.measure(machine(4.0), 3 * MIB, "core")
    assert [each.nbytes / MIB for each in found] == [2, 4, 8]
    # slower than any disk or faster than any cache of one core it is not
    assert all(1e8 < each.now < 1e12 for each in found)
