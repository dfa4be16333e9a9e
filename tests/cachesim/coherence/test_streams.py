"""What threads do to each other's lines in the usual programs: closed forms, errors, views."""

from __future__ import annotations

import io

import numpy as np
import pytest

import rooflab
from rooflab import views
from rooflab.cachesim.coherence import stream
from rooflab.cachesim.coherence import streams as core_streams
from rooflab.errors import RooflabError, UnknownNameError
from rooflab.types.core_simulation import CoreSimulation
from rooflab.types.simulation import Cache

# Compiling the simulator of several cores takes half a minute.
pytestmark = pytest.mark.slow

LEVELS = [Cache(32768, 8), Cache(524288, 8), Cache(1 << 24, 16)]
COSTS = {"L1": 1, "L2": 10, "L3": 40, "memory": 200, "transfer": 80, "upgrade": 20}


def simulated(streams, **settings):
    return rooflab.simulate_cores(streams, **{"levels": LEVELS, **settings})


def test_counters_in_one_line_lose_it_at_every_store_and_padded_ones_never():
    # Both cores store n times and each store finds the other's copy; all but the last loss are asked for again.
    together = simulated(core_streams.counters(2, 1000))
    assert (together.invalidations, together.true_sharing, together.false_sharing) == (2000, 0, 1999)
    apart = simulated(core_streams.counters(2, 1000, padding_bytes=64))
    assert (apart.invalidations, apart.transfers, apart.upgrades) == (0, 0, 0)
    assert together.lines[0].used == ("core 0: count[0] stored", "core 1: count[1] stored")
    assert together.racing == apart.racing == 0


def test_one_shared_counter_is_true_sharing_and_races():
    found = simulated([[("load", "n", 0), ("store", "n", 0)] * 100] * 2)
    assert found.false_sharing == 0
    assert found.true_sharing == found.invalidations - 1
    assert {(race.array, race.index) for race in found.races} == {("n", 0)}
    atomic = simulated([[("atomic", "n", 0)] * 100] * 2)
    assert (atomic.races, atomic.true_sharing) == ((), 198)  # all but the first two misses


def test_a_reduction_with_partial_sums_in_registers_shares_almost_nothing():
    lines = {
        name: simulated(core_streams.reduction(2, 4096, **more)).false_sharing for name, more in REDUCTIONS.items()
    }
    assert lines["in memory"] > 1000
    assert lines["padded"] == 0
    assert lines["in registers"] <= 1


REDUCTIONS = {"in memory": {}, "padded": {"padding_bytes": 64}, "in registers": {"partial_in_memory": False}}


@pytest.mark.parametrize("slots", [16, 64])
def test_a_ring_is_true_sharing_alone(slots):
    found = simulated(core_streams.producer_consumer(512, slots=slots), protocol="moesi")
    ring = found.array("ring")
    # After the first time round each of the lines that the consumer read is taken back, and asked for again.
    assert ring.true_sharing > 0
    assert (ring.false_sharing, found.racing, found.downgrades) == (0, 0, 0)


def test_a_halo_races_without_barriers_only():
    quiet = simulated(core_streams.halo_exchange(2, 34))
    loud = simulated(core_streams.halo_exchange(2, 34, barriers=False))
    assert quiet.racing == 0
    # Only the two rows at the border are touched by both cores.
    assert {race.index // 34 for race in loud.races} == {16, 17}


def test_a_message_without_a_barrier_can_be_stale_and_with_one_cannot():
    send = [("store", "data", 0, 42), ("store", "flag", 0, 1)]
    read = [("load", "flag", 0), ("load", "data", 0)]
    found = simulated([send, read])
    (data,) = [race for race in found.races if race.array == "data"]
    assert (data.kind, data.reader, data.seen, data.could_see) == ("write-read", 1, "42", ("initial", "42"))
    assert simulated([[*send, ("barrier",)], [("barrier",), *read]]).races == ()


def test_a_lock_orders_what_it_guards():
    guarded = [("acquire", "lock", 0), ("load", "n", 0), ("store", "n", 0), ("release", "lock", 0)]
    assert simulated([guarded * 5] * 3).races == ()


def test_a_plain_store_to_a_lock_races_with_who_takes_it():
    taken = [("acquire", "lock", 0), ("release", "lock", 0)]
    found = simulated([[("store", "lock", 0)], taken])
    assert {(race.array, race.kind) for race in found.races} == {("lock", "write-write")}
    assert simulated([[("store", "lock", 0), ("barrier",)], [("barrier",), *taken]]).races == ()


def test_an_owned_line_is_written_back_once_by_its_owner():
    # Core 0 stores and core 1 loads line 0: owned at core 0. Then core 0 loads two lines more into its two ways.
    small = [Cache(128, 2), Cache(1 << 14, 4)]
    first = [("store", "a", 0), ("barrier",), ("barrier",), ("load", "a", 8), ("load", "a", 16)]
    found = simulated([first, [("barrier",), ("load", "a", 0), ("barrier",)]], levels=small, protocol="moesi")
    assert found.downgrades == 0
    assert [core.levels[0].writebacks for core in found.cores] == [1, 0]
    assert found.cores[0].levels[0].write_bytes == 64
    # MESI has written it when core 1 loaded it, and evicts it clean.
    found = simulated([first, [("barrier",), ("load", "a", 0), ("barrier",)]], levels=small, protocol="mesi")
    assert (found.downgrades, found.cores[0].levels[0].writebacks, found.cores[0].levels[0].write_bytes) == (
        1,
        0,
        64,
    )


def test_a_store_to_a_line_of_three_takes_two_copies_by_one_upgrade():
    read, stores = [("load", "a", 0), ("barrier",)], [("store", "a", 0)]
    found = simulated([[*read, *stores], read, read])
    assert (found.upgrades, found.invalidations) == (1, 2)
    # A core that holds no copy misses instead: it gets the line and takes the three others' copies.
    found = simulated([read, read, read, [("barrier",), *stores]])
    assert (found.upgrades, found.invalidations) == (0, 3)
    assert found.cores[3].levels[0].misses == 1


def test_sharing_is_false_until_something_that_another_core_wrote_is_used():
    # Core 1 loses the line to a store of item 0; it asks again for item 1 (false), at last for item 0 too (true).
    lose = [("store", "a", 0), ("barrier",), ("barrier",)]
    begin = [("load", "a", 1), ("barrier",)]
    for used, (true, false) in (((1,), (0, 1)), ((1, 1, 0), (1, 0)), ((), (0, 0))):
        again = [("load", "a", index) for index in used]
        found = simulated([[("barrier",), *lose], [*begin, ("barrier",), *again, ("barrier",)]])
        assert (found.true_sharing, found.false_sharing) == (true, false)
        assert found.arrays[0].unreturned == (0 if used else 1)


def test_an_older_store_of_the_same_core_is_hidden_by_the_newer():
    stores = [("store", "x", 0, 1), ("store", "x", 0, 2)]
    found = simulated([[*stores, ("barrier",), ("store", "x", 0, 3)], [("barrier",), ("load", "x", 0)]], quantum=9)
    (race,) = found.races
    assert race.could_see == ("2", "3")


def test_triad_moves_its_closed_form():
    found = simulated(core_streams.triad(2, 1 << 13))
    # Three arrays of 64 KiB: a line each time at every level, none of them shared
    assert sum(core.levels[0].misses for core in found.cores) == 3 * (1 << 13) // 8
    assert found.shared is not None
    assert found.shared.read_bytes == 3 * (1 << 13) * 8


def test_by_time_the_slow_core_does_less_in_the_same_time():
    found = simulated(core_streams.counters(2, 100, padding_bytes=64), costs=COSTS)
    # One miss from memory, then hits of the first level, alike on both
    assert [core.time for core in found.cores] == [200 + 199, 200 + 199]


@pytest.mark.parametrize(
    ("streams", "settings", "said"),
    [
        ([], {}, "0 cores, expected 1 to 64: a list of operations for each"),
        ("load", {}, "streams is a str, expected a list of operations for each core"),
        ([[("load", "a")]], {}, "core 0, entry 0: ('load', 'a'), expected (\"load\", array, index)"),
        ([[("load", "a", -1)]], {}, "core 0, entry 0: index of a is -1, expected a whole number from 0"),
        ([[("lod", "a", 1)]], {}, "unknown operation at core 0, entry 0 'lod'; did you mean load?"),
        ([[("barrier",)], []], {}, "core 0 is at a barrier, core 1 has ended; expected as many barriers"),
        ([[("release", "l", 0)]], {}, "core 0, entry 0: releases l[0], which it does not hold"),
        ([[("acquire", "l", 0)], [("acquire", "l", 0)]], {}, "core 0 has ended, core 1 waits for l[0]"),
        ([[]], {"quantum": 0}, "quantum is 0, expected a whole number above zero"),
        ([[]], {"quantum": 1 << 64}, "quantum is 18446744073709551616, expected a whole number above zero"),
        ([[]], {"costs": {"L1": 1}}, "cost of L2 is None, expected a whole number"),
        ([[]], {"costs": {**COSTS, "L2": "10"}}, "cost of L2 is '10', expected a whole number"),
        ([[]], {"costs": {**COSTS, "L2": float("nan")}}, "cost of L2 is nan, expected a whole number"),
        ([[]], {"costs": {**COSTS, "L2": 1 << 64}}, "cost of L2 is 18446744073709551616, expected a whole number"),
        ([[]], {"costs": {**COSTS, "L2": 0.5}}, "cost of L2 is 0.5, expected a whole number"),
        ([[]], {"protocol": "msi"}, "unknown protocol 'msi'; did you mean mesi, moesi?"),
        (
            [[]],
            {"levels": [Cache(1024, 2, prefetch=("next-line",))]},
            "L1: prefetch is ('next-line',), expected ()",
        ),
        ([[]], {"levels": [Cache(1024, 2), Cache(4096, 2, 128)]}, "L2: line_bytes is 128, expected the 64"),
    ],
)
def test_bad_input_is_one_clear_line(streams, settings, said):
    with pytest.raises(RooflabError) as error:
        simulated(streams, **settings)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_an_index_beyond_a_given_array_is_named():
    with pytest.raises(RooflabError, match=r"core 0, entry 0: load a\[4\] is out of bounds, expected 0 to 3"):
        stream.listed([[("load", "a", 4)]], arrays={"a": 4})


def test_a_record_beyond_the_arrays_is_refused_before_it_is_simulated():
    laid = stream.lay_out({"a": 4})
    records = stream.pack(laid["a"], 0, np.array([0, 1 << 20]))
    streams = stream.CoreStreams("wrong", (laid["a"],), (lambda: iter((records,)),))
    with pytest.raises(
        RooflabError, match=r"core 0, entry 1: record \d+ names address 8,388,608, expected one of 32"
    ):
        simulated(streams)


def test_an_unknown_array_lists_those_known():
    with pytest.raises(UnknownNameError, match="unknown array 'b'; known: a"):
        simulated([[("load", "a", 0)]]).array("b")


def test_the_terminal_says_what_is_shared_and_what_races():
    file = io.StringIO()
    views.show(simulated([[("store", "data", 0, 42)], [("load", "data", 0)]]), file)
    text = file.getvalue()
    assert "core 0 stores, core 1 loads  core 1     42   initial, 42" in text
    assert "Data races: on 1 items." in text


def test_json_is_read_back():
    found = simulated([[("store", "data", 0, 42)], [("load", "data", 0)]])
    assert CoreSimulation.from_dict(found.to_dict()) == found
    with pytest.raises(RooflabError, match="schema 99 is newer"):
        CoreSimulation.from_dict({**found.to_dict(), "schema": 99})
