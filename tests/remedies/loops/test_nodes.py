"""What is said of memory on several nodes, against times derived by hand."""

from __future__ import annotations

import msgspec
import pytest

import rooflab
from rooflab.model.loop import placement
from rooflab.remedies.loops import nodes
from rooflab.remedies.loops.case import Case
from rooflab.types.loop import CoreLoop, LineCounts, LoopReport, Region
from rooflab.types.machine import Link, is_main_memory
from rooflab.types.simulation import Cache, LevelCounts, Simulation

READ = 1 << 30


@pytest.fixture(scope="module")
def guest(root):
    """Without what the last cache keeps, and what threads of its attain between one and all."""
    made = rooflab.machine(root / "examples" / "zen4-guest.toml")
    return msgspec.structs.replace(made, curves=(), checks=())


def with_nodes(machine, count):
    source = machine.source
    links = tuple(
        Link(
            name=f"node {node} to memory of node {home}",
            to="local memory" if node == home else "remote memory",
            source=source,
            each_way_bytes_per_s=20e9 if node == home else 5e9,
        )
        for node in range(count)
        for home in range(count)
    )
    return msgspec.structs.replace(machine, links=links)


def case(machine, spread=True):
    levels = tuple(
        LevelCounts(
            name=name, cache=Cache(capacity, 8, name=name), hits=0, misses=READ // 64, evictions=0, writebacks=0,
            read_bytes=READ, write_bytes=0,
        )
        for name, capacity in (("L1", 1 << 15), ("L2", 1 << 20), ("L3", 1 << 24))
    )  # fmt: skip
    report = LoopReport(
        name="t", where="t.py:1", arguments={}, flop_by=(), accesses=READ // 8, accessed_bytes=READ,
        stored_bytes=0, simulation=Simulation(name="t", levels=levels, accesses=READ // 8),
        lines=(LineCounts(line=3, text="", flop=0, accesses=1, misses=dict.fromkeys(("L1", "L2", "L3"), 1)),),
        core_loops=(CoreLoop(line=3, passes=10**6, entries=1, operations={"fp add": 1e6}),),
        regions=(Region(line=2, last_line=4, variable="i", entries=1, trips=64),) if spread else (),
    )  # fmt: skip
    placed = placement.place_on(report, machine)
    return Case(placed, state=None, caches=None, machine=machine, limit_s=None, counted=[])


def test_memory_of_another_node_is_priced(guest):
    (one,) = nodes.near_memory(case(with_nodes(guest, 2), spread=False))
    # 1 GiB at 5 GB/s
    assert "of another it is 5.00 GB/s, 215 ms instead of" in one.reason


def test_a_team_gains_the_memory_of_all_nodes(guest):
    near, spread = nodes.near_memory(case(with_nodes(guest, 2)))
    assert near.rule == spread.rule == "near-memory"
    assert "predicted are arrays that lie on all 2 nodes" in spread.reason
    assert "fill them in a loop over prange" in spread.reason


def test_on_one_node_nothing_is_said(guest):
    assert not list(nodes.near_memory(case(guest)))
    assert not list(nodes.near_memory(case(with_nodes(guest, 1))))


@pytest.mark.parametrize("count", [2, 3, 4, 8])
def test_one_node_gives_its_part_and_no_less_than_one_core_gets(guest, count):
    (before,), (after,) = (
        [level for level in each.levels if is_main_memory(level)]
        for each in (guest, nodes.on_one_node(guest, count))
    )
    ones = {
        each.what: each.value for each in before.rates if each.scope == "core" and each.stores != "nontemporal"
    }
    for was, now in zip(before.rates, after.rates, strict=True):
        if was.scope == "core" or was.stores == "nontemporal":
            continue
        assert now.value == pytest.approx(max(was.value / count, min(was.value, ones.get(was.what, 0.0))))
    assert nodes.nodes_of(with_nodes(guest, count)) == count


def test_nodes_seen_from_one_of_them_are_counted_too(guest):
    made = with_nodes(guest, 8)
    first = [each for each in made.links if each.name.startswith("node 0 ")]
    assert nodes.nodes_of(msgspec.structs.replace(made, links=tuple(first))) == 8
