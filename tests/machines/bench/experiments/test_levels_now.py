"""Shared levels read between runs: which working sets are chosen, that the best counts, what a reading is."""

from __future__ import annotations

import os

import pytest
from msgspec.structs import replace

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


class Streams:
    """What reads, at rates that come one after the other; the last of them for good."""

    def __init__(self, *rates):
        self.rates, self.read_so_far = list(rates), []

    def __call__(self, machine, allowed):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def read(self, scope, places):
        rate = self.rates.pop(0) if len(self.rates) > 1 else self.rates[0]
        self.read_so_far.append((scope, sorted(each / MIB for _, each in places)))
        return {each: [rate / 2, rate] for each in places}


@pytest.fixture
def streams(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1}, raising=False)
    monkeypatch.setattr(levels_now.time, "sleep", lambda seconds: None)

    def of(*rates):
        found = Streams(*rates)
        monkeypatch.setattr(levels_now, "_Streams", found)
        return found

    return of


@pytest.fixture
def chosen(streams):
    """The working sets in MiB that are streamed through, each at twice what the sweep had."""
    streams(2e10)

    def of(nbytes, scope="core", **given):
        with levels_now.Watch(machine(scope=scope, **given), nbytes) as watch:
            watch.look(given.get("threads", 1))
            found = watch.readings(scope, nbytes)
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
    # of 16 MiB each of two holds 8, of which half is surely held; far beyond is four times what each has of 32
    assert chosen(7 * MIB, scope="all", threads=2, capacity=16.0, reported=32.0) == [4, 8, 64]


def test_more_threads_than_there_are_are_not_read(chosen):
    assert chosen(7 * MIB, scope="all", threads=4, capacity=16.0) == []


def test_no_sweep_is_no_reading():
    with levels_now.Watch(machine(16.0), 8 * MIB) as watch:
        watch.look(2)
        assert watch.readings("all", 8 * MIB) == ()


def test_of_several_looks_the_best_counts_as_of_runs(streams):
    read = streams(1e10, 3e10, 2e10)
    with levels_now.Watch(machine(16.0), 15 * MIB) as watch:
        for _ in range(3):
            watch.look(1)
        assert [each.now for each in watch.readings("core", 15 * MIB)] == [3e10] * 3
    assert len(read.read_so_far) == 3


def test_only_looks_of_as_many_threads_as_were_swept_count(streams):
    read = streams(1e10)
    with levels_now.Watch(machine(16.0, scope="all", threads=2), 30 * MIB) as watch:
        watch.look(1)
        watch.look(4)
        assert read.read_so_far == []
        watch.look(2)
        # each of two has half of what the loop goes through
        assert read.read_so_far == [("all", [4, 16, 32])]


def test_between_runs_of_a_team_whose_first_thread_keeps_to_one_cpu_the_team_is_read_all_the_same(
    streams, monkeypatch
):
    read = streams(1e10)
    with levels_now.Watch(machine(16.0, scope="all", threads=2), 30 * MIB) as watch:
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {1}, raising=False)
        watch.look(2)
        assert len(watch.readings("all", 15 * MIB)) == 3
    assert read.read_so_far == [("all", [4, 16, 32])]


def test_what_was_not_foreseen_is_read_afterwards_in_several_moments(streams):
    read = streams(1e10, 2e10)
    with levels_now.Watch(machine(16.0), 0.5 * MIB) as watch:
        watch.look(1)
        assert read.read_so_far == []
        assert [each.now for each in watch.readings("core", 15 * MIB)] == [2e10] * 3
    assert read.read_so_far == [("core", [8, 16, 32])] * 3


def test_what_another_process_has_seen_is_taken_over(streams):
    streams(1e10)
    with levels_now.Watch(machine(16.0), 15 * MIB) as there, levels_now.Watch(machine(16.0), 15 * MIB) as here:
        there.look(1)
        here.see(there.seen())
        assert here.readings("core", 15 * MIB) == there.readings("core", 15 * MIB)


def test_where_memory_is_short_nothing_is_read(monkeypatch):
    def refused(machine, allowed):
        raise MemoryError

    monkeypatch.setattr(levels_now, "_Streams", refused)
    monkeypatch.setattr(levels_now.time, "sleep", lambda seconds: None)
    with levels_now.Watch(machine(16.0), 15 * MIB) as watch:
        watch.look(1)
        assert watch.readings("core", 15 * MIB) == ()


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="threads cannot be kept on CPUs here")
def test_a_reading_is_bytes_per_second_of_this_machine():
    with levels_now.Watch(machine(4.0), 3 * MIB) as watch:
        watch.look(1)
        watch.look(1)
        found = watch.readings("core", 3 * MIB)
    assert [each.nbytes / MIB for each in found] == [2, 4, 8]
    # slower than any disk or faster than any cache of one core it is not
    assert all(1e8 < each.now < 1e12 for each in found)


def test_rows_are_read_through_as_much_as_the_loop_goes_through(streams):
    read = streams(1e10)
    swept = machine(16.0)
    swept = replace(swept, curves=(*swept.curves, replace(swept.curves[0], name="bandwidth of rows side by side")))
    with levels_now.Watch(swept, 15 * MIB) as watch:
        watch.look(1)
        found = watch.readings("core", 15 * MIB)
    assert read.read_so_far == [("core", [8, 15, 16, 32])]
    assert [each.nbytes / MIB for each in found if each.sweep != "read bandwidth"] == [15]
    # far beyond the cache, rows are as the memory is
    with levels_now.Watch(swept, 120 * MIB) as watch:
        watch.look(1)
    assert read.read_so_far[-1] == ("core", [8, 32])
