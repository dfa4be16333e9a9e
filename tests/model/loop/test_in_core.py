"""What a core takes for loops: the busiest resource, the chain, calls and missed branches, added over the nest."""

from __future__ import annotations

import math

import pytest
from msgspec.structs import replace

from rooflab.machines import microarchitecture
from rooflab.machines.bench.experiments import core_operations
from rooflab.model.device.constants import load_family
from rooflab.model.loop import cores, in_core
from rooflab.types.core_timing import CoreTiming
from rooflab.types.loop import CoreLoop, FlowStep

TIMING = CoreTiming(
    cycle_s=0.5e-9,
    latency={"fp add": 4.0, "divide fp64": 13.0, "store forward": 6.0, "integer": 1.0, "call exp fp32": 29.0},
    throughput={"fp add": 0.5, "divide fp64": 4.0, "load": 0.5, "store": 1.0, "call exp fp64": 12.0},
    missed_branch=18.0,
)


def loop(operations, chain=None, **more):
    return CoreLoop(line=3, passes=1000, entries=1, operations=operations, chain=chain or {}, **more)


@pytest.mark.parametrize(
    ("given", "cycles", "why"),
    [
        # 1000 additions on two units: 500 cycles, the loads as many; the entry comes on top
        (loop({"fp add": 1000.0, "load": 500.0}), 500, "arithmetic (line 3)"),
        # the same where each waits for the last: 4 cycles each
        (loop({"fp add": 1000.0}, {"fp add": 1.0}), 4000, "a chain of additions (line 3)"),
        # through memory: 4 + 6
        (
            loop({"fp add": 1000.0}, {"fp add": 1.0, "store forward": 1.0}, chain_lines=(5,)),
            10000,
            "a chain of additions, store to load (line 5)",
        ),
        # divisions: 4 cycles each where they are independent
        (loop({"divide fp64": 1000.0}), 4000, "division (line 3)"),
        # calls and missed branches come on top of 1000 loads
        (
            loop({"load": 1000.0, "call exp fp64": 1000.0}, missed=100, missed_line=4),
            500 + 12000 + 1800,
            "calls of exp (line 3)",
        ),
        (
            loop({"load": 100.0}, missed=500, missed_line=4, missed_share=0.4),
            50 + 9000,
            "branches foretold wrongly (line 4, 40 % of them)",
        ),
        # a chain that runs over several lines names them all
        (
            loop({"fp add": 2000.0}, {"fp add": 2.0}, chain_lines=(5, 7)),
            8000,
            "a chain of additions (lines 5, 7)",
        ),
        # where a function's own way from argument to result is known, a chain through it takes that
        (
            loop({"call exp fp32": 10.0}, {"call exp fp32": 1.0}),
            1000 * 29,
            "a chain of exp (line 3)",
        ),
    ],
)
def test_cycles_of_a_loop(given, cycles, why):
    (found,) = in_core.of_loops((given,), TIMING)
    assert found.total == pytest.approx(cycles)
    assert found.why == why


def test_an_end_that_a_count_decides_is_known_before_the_sums_are():
    # 100 rows of 8 sums that wait for one another: 8 × 4 cycles a row, one row beside the other where ends
    # are foreseen. A missed end costs 18: by itself where the count says it, after the sums where they decide it.
    def missed(after, count=99):
        row = CoreLoop(
            line=1,
            passes=800,
            entries=100,
            operations={"slot": 1600.0},
            chain={"fp add": 1.0},
            missed=count,
            missed_after=after,
            flow=(FlowStep("fp add", 1.0, ((0, 1),)),),
        )
        (found,) = in_core.of_loops((row,), TIMING)
        return found.total

    foreseen, counted, summed = missed({}, 0), missed({"integer": 1.0}), missed({"fp add": 1.0, "fp compare": 1.0})
    assert summed > 100 * (8 * 4 + 18)
    assert 99 * 18 <= counted < summed - 100 * 18
    assert counted >= foreseen


def test_conversions_take_the_units_that_add():
    # 1000 additions at 0.5, 1000 numbers of whole ones at 1.25, 1000 whole ones of numbers at 0.5
    each = {**TIMING.throughput, "convert from whole": 1.25, "convert to whole": 0.5, "to whole": 1.0}
    timing = replace(TIMING, throughput=each)
    given = loop({"fp add": 1000.0, "convert from whole": 1000.0, "convert to whole": 1000.0, "to whole": 1000.0})
    (found,) = in_core.of_loops((given,), timing)
    assert found.total == pytest.approx(2250)
    # comparisons alone are bound by the way to the other registers: 1000 at 1.0, not at 0.5
    (found,) = in_core.of_loops((loop({"fp add": 1000.0, "to whole": 1000.0}),), timing)
    assert found.total == pytest.approx(1000)
    assert found.busiest == "results moved to whole numbers"


def test_a_gather_is_as_many_instructions_as_were_measured():
    # 100 vectors of 8: 800 numbers of 6 instructions each, of which 6 enter a cycle, at 1.0 a number in their unit
    timing = replace(
        TIMING, throughput={**TIMING.throughput, "gather wide": 0.5, "gather slots wide": 6.0, "slot": 1 / 6}
    )
    (found,) = in_core.of_loops((loop({"gather wide": 800.0, "slot": 1000.0}),), timing)
    assert found.total == pytest.approx((1000 + 5 * 800) / 6)


def test_calls_of_numbas_own_functions_have_a_price_where_none_was_measured():
    (found,) = in_core.of_loops((loop({"call allocation": 10.0, "call random_state": 10.0}),), TIMING)
    assert found.calls == {"allocation": 400.0, "random_state": 80.0}


def test_changes_that_no_other_core_comes_between_follow_one_another():
    timing = replace(TIMING, throughput={**TIMING.throughput, "locked": 8.0})
    (found,) = in_core.of_loops((loop({"locked": 400.0, "fp add": 1000.0}),), timing)
    assert found.total == pytest.approx(3200)
    assert found.busiest == "changes that no other core comes between"


def test_short_loops_overlap():
    # 100 entries of 10 additions: the window of 256 instructions holds 25.6 entries, and one leaves as one comes
    # in; after the last nothing comes
    short = CoreLoop(line=1, passes=1000, entries=100, operations={"fp add": 1000.0}, chain={"fp add": 1.0})
    (found,) = in_core.of_loops((short,), TIMING)
    window = TIMING.window
    assert found.chain == pytest.approx(4000 * (0.01 + 0.99 / (1 + window * 100 / 1000)))


def test_times_of_a_nest():
    cycles = in_core.of_loops((loop({"load": 2000.0}), loop({"divide fp64": 1000.0})), TIMING)
    times = in_core.times_of(cycles, TIMING.cycle_s, 2)
    assert [each.busiest for each in times] == ["division", "loads"]
    assert times[0].time_s == pytest.approx((4000) * 0.5e-9 / 2)


def test_usual_times_stand_in():
    usual = cores.usual(1e-9)
    assert not usual.measured
    (found,) = in_core.of_loops((loop({"call gamma fp64": 1000.0, "call helper": 1000.0}),), usual)
    # 40 cycles of a function of the maths library that was not timed, 5 of a call whose body is counted apart
    assert found.calls == {"gamma": 40000.0, "helper": 5000.0}


@pytest.mark.slow
def test_operations_of_this_core(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    timing = core_operations.measure()
    assert 0.1e-9 < timing.cycle_s < 5e-9
    # orders that hold on every core: a sum waits longer than it occupies a unit, a division longer than a sum
    assert timing.throughput["fp add"] < timing.latency["fp add"] < timing.latency["divide fp64"]
    assert timing.throughput["load"] < timing.latency["load"]
    assert timing.throughput["call exp fp64"] > timing.throughput["fp add"]
    assert timing.missed_branch > 3
    # memory for an array and a state that is filled anew take many operations each
    assert timing.throughput["call random_refill"] > timing.throughput["call allocation"] > 1
    assert timing.throughput["gather slots"] >= 1
    assert timing.throughput["locked"] > timing.throughput["store integer"]
    assert timing.latency["convert from whole"] > timing.latency["integer"]
    assert timing.latency["fp compare apart"] >= 1
    assert timing.throughput["call boxing"] > timing.throughput["load"]
    assert core_operations.measure() == timing


def test_a_broken_chain_takes_its_longest_piece():
    # 1000 passes of 10 operations: the window of 256 holds 25.6; half are broken: 1 + log2(12.8) = 4.68 in a row
    given = CoreLoop(
        line=1,
        passes=1000,
        entries=1,
        operations={"slot": 10000.0},
        chain={"fp add": 1.0},
        chain_kept=0.5,
        restarts=1,
    )
    (found,) = in_core.of_loops((given,), TIMING)
    assert found.chain == pytest.approx(4000 * (1 + math.log2(12.8)) / 25.6)


def test_a_chain_that_hardly_ever_breaks_is_whole():
    # the window holds 25.6 passes, of which one in a thousand breaks: pieces of 25.6 / 1.0256 in the mean
    given = CoreLoop(
        line=1,
        passes=1000,
        entries=1,
        operations={"slot": 10000.0},
        chain={"fp add": 1.0},
        chain_kept=0.999,
        restarts=1,
    )
    (found,) = in_core.of_loops((given,), TIMING)
    assert found.chain == pytest.approx(4000 / 1.0256)


def test_results_of_a_pass_fill_the_scheduler():
    # 20 additions after one another, 80 cycles: 97 places hold 4.85 passes, so that a pass takes 80 / 4.85
    given = CoreLoop(line=1, passes=100, entries=1, operations={"fp add": 2000.0}, depth={"fp add": 20.0})
    (found,) = in_core.of_loops((given,), TIMING)
    assert found.busiest == "results of a pass"
    assert found.ports == pytest.approx(100 * 20 * 4.0 * 20 / TIMING.scheduler)


def test_loads_that_overtake_stores_run_again():
    (found,) = in_core.of_loops((loop({"load": 1000.0}, collided=100.0),), TIMING)
    assert found.collided == pytest.approx(100 * 18 * load_family("cpu")("loop.overtaking"))
    assert found.why == "loads that overtake stores to their address (line 3)"


def test_a_core_by_its_microarchitecture():
    # Zen 4: additions and products 3 cycles, both in one 4; two pipes each; six instructions a cycle
    timing = cores.of_microarchitecture(microarchitecture.named("Zen 4"), 0.25e-9)
    assert (timing.latency["fp add"], timing.latency["fp multiply"]) == (3.0, 3.0)
    assert timing.latency["fp multiply-add"] == 4.0
    assert (timing.throughput["fp add"], timing.throughput["fp mixed"]) == (0.5, 0.25)
    assert timing.throughput["slot"] == pytest.approx(1 / 6)
    # 13 from the branch on, and before it the load of what it tests, and the comparison
    assert timing.missed_branch == 13.0 + cores.USUAL_LATENCY["load"] + 1.0
    assert not timing.measured


def test_a_branch_is_missed_later_where_its_condition_comes_late():
    # a load and an addition more than what the measured one waits for: 5 + 4 − 5 − 1 = 3 cycles
    given = loop({"load": 1000.0}, missed=100, missed_after={"load": 1.0, "fp add": 1.0})
    (found,) = in_core.of_loops((given,), TIMING)
    assert found.missed == pytest.approx(100 * (18 + 3))


def test_calls_go_on_beside_a_chain():
    # 1000 calls of 12 cycles and 500 of loads; a chain of 4 cycles waits no longer than that, one of 26 does
    calls = {"load": 1000.0, "call exp fp64": 1000.0}
    (short,) = in_core.of_loops((loop(calls, {"fp add": 1.0}),), TIMING)
    (long,) = in_core.of_loops((loop(calls, {"fp add": 2.0, "store forward": 3.0}),), TIMING)
    assert short.total == pytest.approx(500 + 12000)
    assert long.total == pytest.approx(26000)
    assert long.why.startswith("a chain of additions")


def test_what_is_around_a_waiting_loop_goes_on_beside_it():
    # outside 100 passes of 30 instructions, 5 cycles each; inside a chain that leaves more room than that
    outer = CoreLoop(line=1, passes=100, entries=1, operations={"slot": 3000.0}, innermost=False)
    inner = CoreLoop(
        line=2, passes=1000, entries=100, operations={"slot": 3000.0}, chain={"fp add": 1.0}, missed=99, within=0
    )
    around, within = in_core.of_loops((outer, inner), TIMING)
    assert within.chain == pytest.approx(4000)
    assert around.total == pytest.approx(0.0)
    # where each is foreseen, entries overlap, and less is hidden
    around, within = in_core.of_loops((outer, replace(inner, missed=0)), TIMING)
    assert around.total + within.total < 4000


def test_what_is_around_waits_for_units_that_the_loop_inside_is_short_of():
    # outside 600 slots, 100 cycles, 100 of its operations loads, 50 cycles of them; inside 4000 loads take 2000
    # and leave the rest of the core room: all but the loads goes on beside them
    outer = CoreLoop(line=1, passes=100, entries=1, operations={"slot": 600.0, "load": 100.0}, innermost=False)
    inside = {"slot": 6000.0, "load": 4000.0}
    flows = (FlowStep("load", 4.0),)
    inner = CoreLoop(line=2, passes=1000, entries=100, operations=inside, within=0, flow=flows)
    around, within = in_core.of_loops((outer, inner), TIMING)
    assert within.busiest == "loads"
    loads = 100 * TIMING.throughput["load"]
    assert around.total == pytest.approx(loads)


def test_loads_that_overtake_stores_as_measured():
    timing = replace(TIMING, throughput={**TIMING.throughput, "load overtaken": 2.0})
    (found,) = in_core.of_loops((loop({"load": 1000.0}, collided=100.0),), timing)
    assert found.collided == pytest.approx(200.0)


def test_whole_numbers_share_their_queues_with_addresses():
    # 3 loads, a store and 3 operations of whole numbers, 0.25 cycles each where such a mixture was timed: 1.75. Of
    # their own units none is busy as long: a cycle of the loads, half of the store, 0.75 of the three
    timing = replace(
        TIMING,
        throughput={
            "load integer": 1 / 3,
            "store integer": 0.5,
            "integer": 0.25,
            "integer mixed": 0.25,
            "slot": 0.2,
        },
    )
    given = loop({"slot": 6000.0, "load integer": 3000.0, "store integer": 1000.0, "integer": 3000.0})
    (found,) = in_core.of_loops((given,), timing)
    assert (found.busiest, found.ports) == ("whole numbers", pytest.approx(1750))
    # where it was not, the front takes longest
    plain = {name: each for name, each in timing.throughput.items() if name != "integer mixed"}
    (found,) = in_core.of_loops((given,), replace(timing, throughput=plain))
    assert (found.busiest, found.ports) == ("instructions", pytest.approx(1200))


def test_a_branch_on_a_floating_point_number_is_known_later():
    timing = replace(TIMING, latency={"load": 4.0, "load indexed": 5.0, "load vector": 7.0, "fp branch": 10.0})
    missed = {"load": 1.0, "fp compare": 1.0}
    (floating,) = in_core.of_loops((loop({"load": 1000.0}, missed=100, missed_after=missed),), timing)
    assert floating.missed == pytest.approx(100 * (18.0 + 10.0 + 2.0))  # a comparison takes 3 here, 1 is in the 18
    whole = {"load integer": 1.0, "integer": 1.0}
    (other,) = in_core.of_loops((loop({"load": 1000.0}, missed=100, missed_after=whole),), timing)
    assert other.missed == pytest.approx(100 * 18.0)


def test_loads_take_as_long_as_their_registers_and_addresses_need():
    timing = replace(TIMING, latency={"load": 4.0, "load indexed": 5.0, "integer": 1.0})
    zen = cores.with_room_of(microarchitecture.named("Zen 4"), timing)
    assert zen.latency["load vector"] == 7.0
    # a table that says where it is looked at next: an index, so 5 cycles, and an exclusive or
    given = loop({"load integer": 1000.0}, {"load integer": 1.0, "integer": 1.0})
    (found,) = in_core.of_loops((given,), zen)
    assert found.chain == pytest.approx(6000)
    assert found.why == "a chain of loads (line 3)"


def test_functions_take_as_long_as_for_their_arguments():
    timing = replace(TIMING, throughput={**TIMING.throughput, "call sin fp64": 30.0})
    plain = loop({"call sin fp64": 1000.0})
    dearer = loop({"call sin fp64": 1000.0}, dearer={"call sin fp64": 1.5})
    (usual,), (given,) = in_core.of_loops((plain,), timing), in_core.of_loops((dearer,), timing)
    assert (usual.total, given.total) == (30000.0, 45000.0)


def test_shifts_have_half_of_the_units():
    timing = replace(TIMING, throughput={**TIMING.throughput, "integer": 0.25, "integer shift": 0.5})
    (shifted,) = in_core.of_loops((loop({"integer shift": 1000.0}),), timing)
    (mixed,) = in_core.of_loops((loop({"integer shift": 500.0, "integer": 500.0}),), timing)
    assert (shifted.total, mixed.total) == (500.0, 250.0)


def test_whole_numbers_share_no_units_with_others_where_they_have_schedulers_of_their_own():
    # 8 products and 2 whole numbers: together 10 × 0.25 on shared units; apart, the products take 8 × 0.25
    timing = replace(TIMING, throughput={"fp multiply": 0.25, "fp mixed": 0.25, "integer": 0.25, "slot": 0.1})
    given = loop({"slot": 10000.0, "fp multiply": 8000.0, "integer": 2000.0})
    (shared,) = in_core.of_loops((given,), timing)
    (apart,) = in_core.of_loops((given,), replace(timing, integers=96.0))
    assert (shared.busiest, shared.ports) == ("whole numbers", pytest.approx(2500))
    assert (apart.busiest, apart.ports) == ("arithmetic", pytest.approx(2000))


def test_branches_known_by_heart_take_nothing_but_may():
    # 100 that only a first run misses, 18 cycles each if they are missed after all
    (found,) = in_core.of_loops((loop({"load": 1000.0}, missed=10, learnt=100),), TIMING)
    assert (found.missed, found.learnt) == (pytest.approx(10 * 18), pytest.approx(100 * 18))
    (once,) = in_core.of_loops((loop({"load": 1000.0}, missed=10),), TIMING)
    assert found.total == once.total
