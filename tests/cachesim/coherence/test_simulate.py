"""Several cores, compiled, count what the plain ones count: every counter, both protocols, any order of turns."""

from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rooflab.cachesim.coherence import simulate, stream
from rooflab.cachesim.level import hierarchy
from rooflab.cachesim.run.replay import replay
from rooflab.types.simulation import Cache
from support.cachesim.cores_oracle import Cores, Turns

# Compiling the simulator of several cores takes half a minute.
pytestmark = pytest.mark.slow

LEVEL = ("hits", "misses", "evictions", "writebacks", "read_bytes", "write_bytes", "invalidations")
CORE = ("upgrades", "invalidations", "received", "supplied", "downgrades", "true_sharing", "false_sharing")
LINE = ("upgrades", "invalidations", "downgrades", "true_sharing", "false_sharing")
ITEMS = 96


def by_oracle(streams, cores, levels, protocol, quantum, costs):
    """Every counter by the oracle, and the time of each core."""
    oracle = Cores(len(cores), levels, protocol == "moesi", costs)
    size, part = levels[0].line_bytes, max(levels[0].line_bytes // 64, 1)
    arrays, turns = {array.name: array for array in streams.arrays}, Turns(cores, quantum)
    while turn := turns.next():
        core, operation, name, index = turn
        item, cost = arrays[name].item_bytes, 0
        first = arrays[name].base + index * item
        for line in range(first // size, (first + item - 1) // size + 1):
            touched = range(max(first, line * size), min(first + item, (line + 1) * size))
            cost += oracle.access(core, line, {byte // part for byte in touched}, operation != "load")
        turns.done(core, operation, name, cost)
    for core, line in sorted(oracle.pending):
        oracle.count("false_sharing", core, line)
    return oracle.n, turns.clock


def expected_counts(n, cores, depth, shared, lines):
    """The oracle's counters in the order of `counted`."""
    found = [[n[what, core] for what in CORE] for core in range(cores)]
    found += [[n[what, core, k] for what in LEVEL] for core in range(cores) for k in range(depth)]
    found += [[n[what, "shared", core] for what in LEVEL] for core in range(cores)] if shared else []
    return found + [[n[what, "line", line] for what in LINE] for line in lines]


def counted(found):
    every = [[getattr(core, what) for what in CORE] for core in found.cores]
    every += [[getattr(level, what) for what in LEVEL] for core in found.cores for level in core.levels]
    every += [[getattr(each, what) for what in LEVEL] for each in found.shared.references] if found.shared else []
    return every + [[getattr(line, what) for what in LINE] for line in found.lines]


@st.composite
def hierarchies(draw):
    """One to three small levels of one line length, the last one inclusive or not."""
    one_of = st.sampled_from
    line, count = draw(one_of([32, 64, 64, 128])), draw(st.integers(1, 3))
    made = []
    for n in range(count):
        ways, sets = draw(one_of([1, 2, 4])), draw(one_of([1, 2, 3, 4]))
        inclusion = draw(one_of(["non-inclusive", "inclusive"])) if n and n == count - 1 else "non-inclusive"
        made.append(Cache(ways * sets * line, ways, line, inclusion=inclusion))
    return made


access = st.tuples(
    st.sampled_from(["load", "load", "store", "store", "atomic"]),
    st.just("a"),
    st.one_of(st.integers(0, 11), st.integers(0, ITEMS - 1)),
)
plain = st.lists(access, max_size=40)
locked = st.tuples(st.sampled_from(["lock", "other"]), st.lists(access, max_size=4)).map(
    lambda each: [("acquire", each[0], 0), *each[1], ("release", each[0], 0)]
)
phases = st.lists(st.one_of(plain, plain, locked), max_size=4).map(lambda parts: list(chain(*parts)))


@st.composite
def programs(draw):
    """One to four cores, with as many barriers on each."""
    cores, barriers = draw(st.integers(1, 4)), draw(st.integers(0, 2))
    made = [draw(phases) for _ in range(cores)]
    for _ in range(barriers):
        made = [[*entries, ("barrier",), *draw(phases)] for entries in made]
    return made


RUNS = {
    "cores": programs(),
    "protocol": st.sampled_from(["mesi", "moesi"]),
    "quantum": st.sampled_from([None, None, 1, 1, 2, 7]),
    "item": st.sampled_from([1, 8, 8, 64]),
}


@given(levels=hierarchies(), **RUNS)
@settings(max_examples=2000)
def test_every_counter_equals_the_oracles(cores, levels, protocol, quantum, item):
    check_every_counter(cores, levels, protocol, quantum, item)


@given(**RUNS)
@settings(max_examples=60)
def test_every_counter_of_two_levels_equals_the_oracles(cores, protocol, quantum, item):
    levels = [Cache(256, 2), Cache(512, 2, inclusion="inclusive")]
    check_every_counter(cores, levels, protocol, quantum, item)


def check_every_counter(cores, levels, protocol, quantum, item):
    depth, shared = max(len(levels) - 1, 1), len(levels) > 1
    costs = [*(1, 12, 40)[:depth], 50 if shared else 0, 200, 60, 20]
    names = [*(f"L{n}" for n in range(1, depth + 1)), f"L{depth + 1}", "memory", "transfer", "upgrade"]
    paired = {name: cost for name, cost in zip(names, costs, strict=True) if cost}
    sizes = {"a": ITEMS, "lock": 1, "other": 1}
    streams = stream.listed(cores, arrays=sizes, item_bytes={"a": item}, align_bytes=8)
    timed = paired if quantum is None else None
    found = simulate.simulate(streams, levels, protocol=protocol, quantum=quantum, costs=timed)
    n, clock = by_oracle(streams, cores, levels, protocol, quantum, costs)
    assert counted(found) == expected_counts(n, len(cores), depth, shared, [line.line for line in found.lines])
    assert [core.time for core in found.cores] == (clock if timed else [None] * len(cores))
    for what in LINE:
        assert sum(getattr(array, what) for array in found.arrays) == sum(n[what, c] for c in range(len(cores)))


one = st.lists(st.tuples(st.sampled_from(["load", "store"]), st.just("a"), st.integers(0, 400)), max_size=200)


@pytest.mark.parametrize("policy", ["lru", "fifo", "plru", "random", "qlru_h11_m1_r0_u0"])
@given(
    entries=one,
    inclusion=st.sampled_from(["non-inclusive", "inclusive"]),
    index=st.sampled_from(["modulo", "xor"]),
)
@settings(max_examples=100)
def test_one_core_counts_what_the_simulator_of_one_core_does(policy, entries, inclusion, index):
    near = Cache(512, 4, 64, policy, index=index)
    middle = Cache(1024, 4, 64, policy, inclusion="inclusive", index=index)
    far = Cache(3072, 4, 64, policy, inclusion=inclusion)
    streams = stream.listed([entries], arrays={"a": 401})
    found = simulate.simulate(streams, [near, middle, far], races=False)
    built = hierarchy.build([near, middle, far])
    (records,) = streams.cores[0]()
    replay(built.address, records & 15, records >> 16, records >> 4 & 4095, records * 0)
    wanted = built.result("one core").levels
    assert found.shared is not None
    for level, other in zip((*found.cores[0].levels, found.shared), wanted, strict=True):
        assert {what: getattr(level, what) for what in LEVEL} == {what: getattr(other, what) for what in LEVEL}
