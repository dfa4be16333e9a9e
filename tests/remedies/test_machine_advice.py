"""Advice for machines: each gain is that of two numbers of the machine, none where one is not known."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rooflab
from rooflab.types.machine import Level, Link, Machine, Rate
from rooflab.types.measured import Curve, Tlb
from rooflab.types.source import Source

SOURCE = Source(kind="measured", ref="made up")
GUEST = "examples/zen4-guest.toml"


@pytest.fixture(scope="module")
def guest() -> Machine:
    """A measured CPU, without what these tests add."""
    return msgspec.structs.replace(rooflab.machine(GUEST), tlbs=(), curves=())


def the(machine: Machine, rule: str):
    """The advice by that rule; None where it is not given."""
    return next((one for one in rooflab.advise(machine).each if one.rule == rule), None)


def test_rates_of_one_core_and_all_and_of_stores(guest):
    memory = guest.level("memory")
    one, every = (memory.rate("read", scope=scope, basis="attained").value for scope in ("core", "all"))
    shared = the(guest, "saturating-threads")
    assert shared.gain_share == pytest.approx(1 - one / every)
    assert shared.gain_low_s <= shared.gain_s <= shared.gain_high_s
    plain, past = (
        memory.rate("copy", basis="attained", stores=stores).value for stores in ("ordinary", "nontemporal")
    )
    assert the(guest, "non-temporal").gain_share == pytest.approx(1 - plain / past)


def test_huge_pages_save_the_wait_for_a_translation(guest):
    assert the(guest, "huge-pages") is None
    small = Tlb(page_bytes=4096, source=SOURCE, entries=(64, 1536), miss_s=(2e-9, 20e-9), held_pages=8192)
    huge = Tlb(page_bytes=2**21, source=SOURCE, held_pages=512)
    one = the(msgspec.structs.replace(guest, tlbs=(small, huge)), "huge-pages")
    latency = guest.level("memory").latency_s
    assert (one.before_s, one.after_s) == (latency + 20e-9, latency)
    alone = rooflab.advise(msgspec.structs.replace(guest, tlbs=(small,)))
    assert any(line.startswith("huge-pages: no waits with larger pages") for line in alone.unasked)
    always = {**guest.environment, "huge_pages": "always"}
    assert the(msgspec.structs.replace(guest, tlbs=(small, huge), environment=always), "huge-pages") is None


def test_huge_pages_that_a_host_keeps_in_small_ones_save_what_is_left(guest):
    small = Tlb(page_bytes=4096, source=SOURCE, entries=(64, 1536), miss_s=(2e-9, 20e-9), held_pages=8192)
    huge = Tlb(page_bytes=2**21, source=SOURCE, held_pages=512)

    def with_wait(seconds: float) -> Machine:
        waits = (0.0, seconds)
        steps = Curve(
            name="translation wait, 4 KiB steps in 2 MiB pages",
            x_unit="page",
            y_unit="s",
            scope="core",
            x=(1024.0, 8192.0),
            best=waits,
            median=waits,
            source=SOURCE,
        )
        return msgspec.structs.replace(guest, tlbs=(small, huge), curves=(steps,))

    one = the(with_wait(8e-9), "huge-pages")
    assert one.before_s - one.after_s == pytest.approx(12e-9)  # 20 − 8
    assert the(with_wait(18e-9), "huge-pages") is None
    assert any("the host keeps this guest's memory" in line for line in rooflab.advise(with_wait(18e-9)).unasked)


def test_memory_of_another_node_where_it_was_measured(guest):
    assert the(guest, "near-memory") is None
    links = tuple(
        Link(name=f"node 0 to memory of node {home}", to=to, source=SOURCE, each_way_bytes_per_s=rate, spread=0.1)
        for home, to, rate in ((0, "local memory", 20e9), (1, "remote memory", 10e9))
    )
    one = the(msgspec.structs.replace(guest, links=links), "near-memory")
    assert (one.before_s, one.after_s) == (0.1, 0.05)  # 1 GB at 10 and at 20 GB/s
    assert one.gain_low_s == pytest.approx(0.1 - 1 / 18)  # local 10 % less
    assert one.gain_high_s == pytest.approx(0.1 * (1 - 9 / 20))  # remote 10 % less: 55 % of its time


def test_threads_that_read_less_together(guest):
    curve = Curve(
        name="thread scaling", x_unit="thread", y_unit="byte/s", scope="all",
        x=(1.0, 2.0, 4.0), best=(10e9, 20e9, 16e9), median=(10e9, 19e9, 16e9), source=SOURCE,
    )  # fmt: skip
    one = the(msgspec.structs.replace(guest, curves=(curve,)), "fewer-threads")
    assert one.gain_share == pytest.approx(1 - 16 / 20)
    rising = msgspec.structs.replace(curve, best=(10e9, 20e9, 20e9))
    assert the(msgspec.structs.replace(guest, curves=(rising,)), "fewer-threads") is None


@given(st.lists(st.tuples(st.floats(1e9, 1e12), st.floats(0.01, 1.0)), min_size=4, max_size=4))
def test_nothing_saves_more_than_all_of_the_time(found):
    def rate(place: int, what: str, **more) -> Rate:
        best, share = found[place]
        return Rate(
            value=best, median=best * share, per_s="byte", what=what, basis="attained", source=SOURCE, **more
        )

    rates = (
        rate(0, "read", scope="core"),
        rate(1, "read", scope="all", threads=2),
        rate(2, "copy", scope="all", stores="ordinary"),
        rate(3, "copy", scope="all", stores="nontemporal"),
    )
    curve = Curve(
        name="thread scaling", x_unit="thread", y_unit="byte/s", scope="all", x=(1.0, 2.0),
        best=tuple(best for best, _ in found[2:]), median=tuple(best * share for best, share in found[2:]),
        source=SOURCE,
    )  # fmt: skip
    memory = Level(name="DRAM", source=SOURCE, rates=rates)
    machine = Machine(name="made up", kind="cpu", source=SOURCE, levels=(memory,), curves=(curve,))
    for one in rooflab.advise(machine).each:
        assert one.gain_low_s <= one.gain_s * (1 + 1e-9)
        assert one.gain_s <= one.gain_high_s * (1 + 1e-9) <= one.before_s * (1 + 1e-9)
    rules = {one.rule for one in rooflab.advise(machine).each}
    assert not {"saturating-threads", "fewer-threads"} <= rules  # two threads cannot be both more and less


def test_a_governor_gains_at_most_the_clock_that_is_stated(guest):
    saving = {**guest.environment, "governor": "powersave"}
    unknown = msgspec.structs.replace(guest, environment=saving, clocks=())
    assert any(line.startswith("governor: it is powersave") for line in rooflab.advise(unknown).unasked)
    clocks = tuple(
        Rate(value=value, per_s="cycle", what=what, basis="attained", source=SOURCE)
        for what, value in (("measured", 2e9), ("boost", 4e9))
    )
    one = the(msgspec.structs.replace(unknown, clocks=clocks), "governor")
    assert one.gain_share == pytest.approx(0.5)
    assert one.gain_low_s == 0  # power may have held it


def test_what_a_measurement_cannot_say_and_machines_that_were_not_measured(guest):
    unasked = [line.partition(":")[0] for line in rooflab.advise(guest).unasked]
    assert unasked == ["pinning", "memory channels"]
    for name in ("h200-sxm", "epyc-9654"):
        assert rooflab.advise(rooflab.machine(name)) == rooflab.advise(rooflab.machine("h200-sxm"))
