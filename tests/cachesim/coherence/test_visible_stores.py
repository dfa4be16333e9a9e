"""Races and what they could see, against all pairs of accesses and the whole order between them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rooflab
from rooflab.types.simulation import Cache
from support.cachesim.cores_oracle import Turns

# Compiling the simulator of several cores takes half a minute.
pytestmark = pytest.mark.slow

LEVELS = [Cache(512, 2), Cache(1024, 2), Cache(4096, 4)]
ITEMS = 4


def ordered(cores, quantum):
    """Each access as (core, entry, operation, array, index), and the places of all that come before it."""
    turns, places = Turns(cores, quantum), [0] * len(cores)
    events, before, released = [], [], {}
    known = [set() for _ in cores]
    barriers = [0] * len(cores)
    while turn := turns.next():
        core, operation, array, index = turn
        while cores[core][places[core]][0] == "barrier":
            # All that any core did before it is known to all behind it.
            places[core] += 1
            barriers[core] += 1
            known[core] |= {n for n, each in enumerate(events) if each[5] < barriers[core]}
        if operation in ("acquire", "atomic"):
            known[core] |= released.get((array, index), set())
        events.append((core, places[core], operation, array, index, barriers[core]))
        before.append(set(known[core]))
        known[core].add(len(events) - 1)
        if operation in ("release", "atomic"):
            released[array, index] = released.get((array, index), set()) | known[core]
        places[core] += 1
        turns.done(core, operation, array, 0)
    return events, before


def racing(events, before):
    """Items of which two accesses conflict and neither comes before the other (locks aside)."""
    found = set()
    for late, (core, _, operation, array, index, _) in enumerate(events):
        for early in range(late):
            other = events[early]
            same = (other[3], other[4]) == (array, index) and array == "a" and other[0] != core
            if same and not operation == other[2] == "load" and early not in before[late]:
                found.add((array, index))
    return found


def could_see(events, before, load):
    """The stores that the load at place `load` could see, brute force."""
    item = events[load][3:5]
    stores = [n for n, each in enumerate(events) if each[3:5] == item and each[2] in ("store", "atomic")]
    earlier = [n for n in stores if n in before[load]]
    seen = [n for n in stores if load not in before[n] and not any(n in before[other] for other in earlier)]
    return {(events[n][0], events[n][1]) for n in seen} | ({"initial"} if not earlier else set())


def left_at_the_end(events, before, item):
    """The stores of `item` that no other store comes after."""
    stores = [n for n, each in enumerate(events) if each[3:5] == item and each[2] in ("store", "atomic")]
    last = [n for n in stores if not any(n in before[other] for other in stores)]
    return {(events[n][0], events[n][1]) for n in last}


access = st.tuples(
    st.sampled_from(["load", "load", "store", "store", "atomic"]), st.just("a"), st.integers(0, ITEMS - 1)
)
locked = st.lists(access, max_size=3).map(lambda body: [("acquire", "lock", 0), *body, ("release", "lock", 0)])
part = st.lists(st.one_of(access.map(lambda each: [each]), locked), max_size=8).map(
    lambda parts: [each for entries in parts for each in entries]
)


@st.composite
def programs(draw):
    cores, barriers = draw(st.integers(2, 3)), draw(st.integers(0, 2))
    made = [draw(part) for _ in range(cores)]
    for _ in range(barriers):
        made = [[*entries, ("barrier",), *draw(part)] for entries in made]
    return made


@given(cores=programs(), quantum=st.sampled_from([1, 2, 5]))
@settings(max_examples=600)
def test_races_are_those_of_all_pairs_and_see_what_they_could(cores, quantum):
    check_races(cores, quantum)


@given(cores=programs(), quantum=st.sampled_from([1, 2, 5]))
@settings(max_examples=30)
def test_races_of_a_few_programs_see_what_they_could(cores, quantum):
    check_races(cores, quantum)


def check_races(cores, quantum):
    valued = [
        [(*each, (core, entry)) if each[0] in ("store", "atomic") else each for entry, each in enumerate(entries)]
        for core, entries in enumerate(cores)
    ]
    found = rooflab.simulate_cores(valued, levels=LEVELS, quantum=quantum)
    events, before = ordered(cores, quantum)
    assert {(race.array, race.index) for race in found.races} == racing(events, before)
    for race in found.races:
        late = next(n for n, each in enumerate(events) if each[:2] == (race.later, race.entry))
        if race.kind == "write-write":
            wanted = left_at_the_end(events, before, events[late][3:5])
        elif race.kind == "read-write":
            # the last load of the other core before the store
            item = (race.earlier, "load", *events[late][3:5])
            wanted = could_see(
                events, before, max(n for n in range(late) if (events[n][0], *events[n][2:5]) == item)
            )
        else:
            wanted = could_see(events, before, late)
        assert set(race.could_see) == {each if each == "initial" else repr(each) for each in wanted}
