"""Nodes held against each other: who stands apart in what, what may be behind it, and what cannot be told."""

from __future__ import annotations

import math
import random

import msgspec
import pytest

from rooflab.comparing.fleet import judged
from rooflab.errors import UnknownNameError
from rooflab.machines.fleet.nodes import kind_of, natural
from rooflab.machines.fleet.quantities import quantities
from rooflab.types.fleet import FleetNode
from rooflab.types.machine import Level, Link, Machine, Rate
from rooflab.types.measured import Products
from rooflab.types.source import Source

SOURCE = Source(kind="measured", ref="a test")
DATE = "2026-01-01T00:00:00+00:00"


def machine(rng, *, memory=1.0, clock=1.0, link=1.0, others=None, name="cpu"):
    """A machine of two levels whose speeds are multiplied by these, each with 1 % of scatter."""

    def rate(value, **more):
        return Rate(value=value * rng.gauss(1, 0.01), basis="attained", source=SOURCE, **more)

    theory = Rate(value=200e9, per_s="byte", what="read", basis="theoretical", source=SOURCE)
    dram = Level(
        name="DRAM",
        source=SOURCE,
        latency_s=90e-9 * rng.gauss(1, 0.01),
        rates=(
            theory,
            *(rate(150e9 * memory, per_s="byte", what=what) for what in ("read", "copy")),
            rate(20e9 * memory, per_s="byte", what="read", scope="core"),
        ),
    )
    cache = Level(name="L1", source=SOURCE, rates=(rate(300e9 * clock, per_s="byte", what="read", scope="core"),))
    peaks = tuple(
        rate(value * clock, per_s="flop", what="fma", dtype="fp64", engine="vector", scope=scope)
        for scope, value in (("core", 80e9), ("all", 2e12))
    )
    remote = Link(
        name="node 0 to memory of node 1",
        to="remote memory",
        source=SOURCE,
        each_way_bytes_per_s=10e9 * link * rng.gauss(1, 0.01),
    )
    return Machine(
        name=name,
        kind="cpu",
        source=SOURCE,
        compute_unit="core",
        compute_units=32,
        levels=(cache, dram),
        peaks=peaks,
        clocks=(rate(3e9 * clock, per_s="cycle", what="clock under load"),),
        links=(remote,),
        environment={} if others is None else {"others_share": others},
    )


def fleet(count, odd=None, *, again=None, seed=1, **common):
    """A fleet of `count` nodes, those of `odd` made as it says; `again` is what these are the second time."""
    rng, odd = random.Random(seed), odd or {}
    nodes = []
    for number in range(count):
        one = machine(rng, **{**common, **odd.get(number, {})})
        second = None if again is None or number not in odd else machine(rng, **{**common, **again})
        name = f"node {number}"
        nodes.append(FleetNode(name=name, host=name, kind=kind_of(one), machine=one, again=second))
    return judged(nodes, "a test", DATE)


def test_quantities_have_the_best_that_was_attained_and_their_own_theory():
    found = quantities(machine(random.Random(1)))
    assert list(found) == [
        "DRAM read, one core",
        "DRAM read, all cores",
        "DRAM copy, all cores",
        "DRAM latency",
        "L1 read, one core",
        "fp64 peak, one core",
        "fp64 peak, all cores",
        "clock under load",
        "node 0 to memory of node 1",
    ]
    assert found["DRAM read, all cores"].theory == 200e9
    assert found["DRAM copy, all cores"].theory is None
    assert (found["DRAM latency"].better, found["DRAM latency"].unit) == ("less", "s")


@pytest.mark.parametrize(
    ("error", "flop_per_s", "there"),
    [(0.1, 1e12, True), (None, 1e12, True), (0.3, 1e12, False), (0.1, 3e12, False)],
)
def test_products_whose_fit_cannot_be_right_are_left_out(error, flop_per_s, there):
    one = machine(random.Random(1))
    theory = Rate(
        value=2e12, per_s="flop", what="fma", dtype="fp64", engine="vector", basis="theoretical", source=SOURCE
    )
    fit = {"terms": {"per multiply-add": 2 / flop_per_s}, "flop_per_s": flop_per_s, "error": error}
    products = Products(library="numpy", routine="product", dtype="fp64", threads=2, source=SOURCE, **fit)
    one = msgspec.structs.replace(one, peaks=(*one.peaks, theory), products=(products,))
    assert ("numpy fp64 product, 2 threads" in quantities(one)) == there


def test_a_healthy_fleet_is_said_to_be_one():
    found = fleet(12)
    assert found.name == "12 nodes: none stands apart"
    assert found.slow == ()
    assert found.verdict[0].startswith(
        "None of the 12 nodes of cpu, 32 cores stands apart in any of 9 quantities; "
    )


@pytest.mark.parametrize("count", [5, 8, 40])
def test_slow_memory_is_named_with_its_evidence(count):
    found = fleet(count, {3: {"memory": 0.6}}, again={"memory": 0.6})
    assert found.suspects == ("node 3",)
    assert {each.quantity for each in found.slow} == {
        "DRAM read, one core",
        "DRAM read, all cores",
        "DRAM copy, all cores",
    }
    worst = next(each for each in found.slow if each.quantity == "DRAM read, all cores")
    # 150 GB/s × 0.6 of 200 GB/s, and 150 of 200, within a few times the scatter of 1 %.
    assert worst.speed == pytest.approx(0.6, rel=0.05)
    assert worst.of_theory == pytest.approx(0.45, rel=0.05)
    assert worst.usual_of_theory == pytest.approx(0.75, rel=0.05)
    assert worst.deviations == pytest.approx(-math.log(worst.speed) / found.quantities[1].spread)
    assert worst.confirmed
    assert worst.again == pytest.approx(0.6, rel=0.05)
    (sentence,) = found.verdict
    assert sentence.startswith("node 3 is slow in DRAM read, all cores: ")
    assert "measured again" in sentence
    assert "of its own theory, the others 7" in sentence
    assert "Only its memory is: a channel that is missing" in sentence


@pytest.mark.parametrize(
    ("odd", "cause"),
    [
        ({"clock": 0.7}, "Its clock is low: a power limit"),
        ({"link": 0.5}, "Only links between its nodes or cores are"),
        ({"memory": 0.5, "clock": 0.5, "others": 0.4}, "Other work took 40 % of its cores meanwhile (the others'"),
    ],
)
def test_the_pattern_of_what_is_slow_points_to_a_cause(odd, cause):
    found = fleet(10, {2: odd}, others=0.01)
    assert found.suspects == ("node 2",)
    assert cause in found.verdict[0]


def test_what_a_second_measurement_does_not_confirm_is_cleared():
    found = fleet(10, {4: {"memory": 0.6}}, again={"memory": 1.0})
    assert found.suspects == ()
    assert {each.confirmed for each in found.slow} == {False}
    assert found.name == "10 nodes: none stands apart"
    assert "looked slow in DRAM" in found.verdict[0]
    assert "not held against it" in found.verdict[0]


def test_two_slow_nodes_do_not_hide_each_other():
    assert set(fleet(9, {1: {"memory": 0.6}, 7: {"clock": 0.8}}).suspects) == {"node 1", "node 7"}


def test_a_slow_node_among_few_is_not_named_as_such():
    found = fleet(4, {1: {"memory": 0.5}})
    assert found.slow == ()
    assert found.name == "4 nodes: too few to tell a slow one"
    assert "among fewer than 5, which of them is off cannot be told" in found.verdict[0]
    assert "between the fastest and node 1" in found.verdict[0]
    assert "nothing to hold it against but its theory" in fleet(1).verdict[0]


def test_kinds_are_held_against_their_own():
    # Six fast nodes of another kind do not make six others slow.
    found = fleet(12, {number: {"name": "fast cpu", "clock": 2.0} for number in range(6)})
    assert found.suspects == ()
    assert {each.kind for each in found.quantities} == {"cpu, 32 cores", "fast cpu, 32 cores"}
    assert any(note.startswith("2 kinds of nodes, each held against its own") for note in found.notes)


def test_healthy_fleets_are_rarely_accused():
    # 1 % of healthy fleets in a quantity, nine quantities, and 5 % that matter: none of forty is expected.
    assert sum(bool(fleet(8, seed=seed).slow) for seed in range(40)) <= 2


def test_a_node_that_was_not_measured_is_said():
    rng = random.Random(1)
    one = machine(rng)
    nodes = [
        FleetNode(name="a", kind=kind_of(one), machine=one),
        FleetNode(name="b", failed="its worker was lost while at it, 3 times"),
    ]
    found = judged(nodes, "a test", DATE)
    assert found.name == "2 nodes: too few to tell a slow one, 1 not measured"
    assert found.verdict[-1] == "b was not measured: its worker was lost while at it, 3 times."
    assert found["b"] is nodes[1]
    with pytest.raises(UnknownNameError, match="unknown node 'c'"):
        found["c"]


def test_equal_values_scatter_by_nothing_and_one_beside_them_stands_apart():
    rng = random.Random(1)
    rng.gauss = lambda mean, spread: mean  # type: ignore[method-assign]
    nodes = []
    for number in range(6):
        one = machine(rng, memory=0.7 if number == 5 else 1.0)
        nodes.append(FleetNode(name=f"node {number}", kind=kind_of(one), machine=one))
    found = judged(nodes, "a test", DATE)
    assert found.suspects == ("node 5",)
    assert {each.deviations for each in found.slow} == {None}


def test_names_are_in_the_order_of_their_numbers():
    assert sorted(["n10", "n2", "n1"], key=natural) == ["n1", "n2", "n10"]
