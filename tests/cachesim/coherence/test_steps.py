"""Operations one by one: their sums are those of the whole simulation, and states are never in conflict."""

from __future__ import annotations

import random

import pytest

import rooflab
from rooflab import Cache, core_streams
from rooflab.cachesim.coherence.steps import MOST_STEPS

CACHES = [Cache(1024, 2), Cache(4096, 4)]


def test_the_example_of_the_docs():
    found = rooflab.simulate_cores(core_streams.counters(2, 100), levels=CACHES)
    assert found.line_bytes == 64
    assert len(found.steps) == MOST_STEPS
    # By hand: a load alone is exclusive; the second load shares; a store takes the other copy away.
    assert [(step.core, step.operation, step.states, step.invalidated) for step in found.steps[:4]] == [
        (0, "load", ("E", "I"), ()),
        (1, "load", ("S", "S"), ()),
        (0, "store", ("M", "I"), (1,)),
        (1, "store", ("I", "M"), (0,)),
    ]
    assert [(step.first_byte, step.nbytes) for step in found.steps[:2]] == [(0, 8), (8, 8)]
    assert [step.supplier for step in found.steps[:5]] == [None, 0, None, 0, 1]
    assert [step.hit for step in found.steps[:6]] == [False, False, True, False, False, True]
    assert found.steps[4].written_back == (1,)


def program(chance: random.Random, cores: int) -> list[list[tuple]]:
    """A few operations for each core on few items, whole turns of a lock among them."""
    streams = []
    for _ in range(cores):
        entries: list[tuple] = []
        for _ in range(chance.randrange(1, 7)):
            if chance.random() < 0.25:
                entries += [("acquire", "lock", 0), ("store", "shared", 0), ("release", "lock", 0)]
            else:
                entries.append((chance.choice(("load", "store")), "x", chance.randrange(24)))
        streams.append(entries)
    if chance.random() < 0.5:
        streams = [[*entries, ("barrier",), ("load", "x", 0)] for entries in streams]
    return streams


@pytest.mark.parametrize("seed", range(60))
def test_the_steps_add_up_to_the_simulation(seed):
    chance = random.Random(seed)
    cores = chance.randrange(1, 5)
    streams = program(chance, cores)
    how = {"protocol": chance.choice(("mesi", "moesi")), "levels": CACHES}
    if chance.random() < 0.3:
        how["costs"] = {"L1": 1, "L2": 5, "memory": 20, "transfer": 9}
    else:
        how["quantum"] = chance.randrange(1, 4)
    found = rooflab.simulate_cores(streams, **how)
    steps = found.steps
    total = sum(map(len, streams))
    assert len(steps) == min(total, MOST_STEPS)
    if total > MOST_STEPS:
        return
    assert sum(step.operation == "load" for step in steps) == sum(core.loads for core in found.cores)
    assert sum(len(step.invalidated) for step in steps) == found.invalidations
    assert sum(step.upgrade for step in steps) == found.upgrades
    assert sum(step.supplier is not None for step in steps) == found.transfers
    assert sum(len(step.written_back) for step in steps) == found.downgrades
    assert sum(step.true_sharing for step in steps) == found.true_sharing
    # Copies that live to the end are judged then: no step's doing.
    assert sum(len(step.false_sharing) for step in steps) <= found.false_sharing
    for core in range(cores):
        # In the order of its own stream.
        assert [step.operation for step in steps if step.core == core] == [entry[0] for entry in streams[core]]
    for step in steps:
        alone = sum(letter in "ME" for letter in step.states)
        assert alone <= 1
        if alone:
            assert sum(letter != "I" for letter in step.states) == 1
        if step.operation in ("store", "acquire", "release", "atomic"):
            assert step.states[step.core] == "M"


def test_a_blocked_core_acts_when_the_lock_is_free():
    guarded = [("acquire", "lock", 0), ("store", "n", 0), ("release", "lock", 0)]
    found = rooflab.simulate_cores([guarded] * 3, levels=CACHES)
    held = None
    for step in found.steps:
        if step.operation == "acquire":
            assert held is None
            held = step.core
        assert held == step.core
        if step.operation == "release":
            held = None
    assert len(found.steps) == 9
