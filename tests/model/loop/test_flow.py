"""Passes of a loop on a model of a core's queues: limits that follow by hand, and the overlap of short entries."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from msgspec.structs import replace

from rooflab.model.loop import flow, in_core
from rooflab.types.core_timing import CoreTiming
from rooflab.types.loop import CoreLoop, FlowStep
from rooflab.types.loop_code import TURNS

TIMING = CoreTiming(
    cycle_s=0.25e-9,
    latency={"fp add": 3.0, "fp multiply": 4.0, "load": 5.0, "store forward": 9.0, "integer": 1.0},
    throughput={"fp add": 0.5, "fp multiply": 0.5, "load": 0.5, "store": 1.0, "slot": 1 / 6, "divide fp64": 5.0},
    missed_branch=20.0,
    window=320.0,
    scheduler=64.0,
    queue=64.0,
    loads=88.0,
    stores=64.0,
    registers=160.0,
)


def made(steps, passes=1000, entries=1, slots=None, in_code=None, **more):
    count = len(steps) if slots is None else slots
    kinds = Counter(each.kind for each in steps) if in_code is None else in_code
    return CoreLoop(
        line=1,
        passes=passes,
        entries=entries,
        operations={"slot": float(count * passes), **{kind: float(n * passes) for kind, n in kinds.items()}},
        flow=tuple(steps),
        **more,
    )


def cycles(loop, timing=TIMING, between=0.0):
    found = flow.run(
        loop, timing, lambda kind: timing.latency.get(kind, 1.0), timing.throughput.__getitem__, between
    )
    assert found is not None
    return found if loop.entries > 1 else found._replace(each=found.alone / loop.passes)


def test_a_sum_waits_for_itself():
    found = cycles(made([FlowStep("load", 1.0), FlowStep("fp add", 1.0, ((0, 0), (1, 1)))]))
    assert found.each == pytest.approx(3.0)


def test_two_sums_wait_side_by_side():
    one = [FlowStep("load", 1.0), FlowStep("fp add", 1.0, ((0, 0), (1, 1)))]
    other = [FlowStep("fp add", 1.0, ((0, 0), (2, 1)))]
    assert cycles(made([*one, *other])).each == pytest.approx(3.0)


def test_a_sum_in_memory_waits_for_the_store():
    # load the last result, add, store: 9 + 3
    steps = [
        FlowStep("load", 1.0, (), (2, 1), "store forward"),
        FlowStep("fp add", 1.0, ((0, 0),)),
        FlowStep("store", 1.0, ((1, 0),)),
    ]
    assert cycles(made(steps)).each == pytest.approx(12.0)


def test_a_sum_in_memory_that_every_other_pass_finds_waits_in_those():
    steps = [
        FlowStep("load", 1.0, (), (2, 1), "store forward", finds=0.5),
        FlowStep("fp add", 1.0, ((0, 0),)),
        FlowStep("store", 1.0, ((1, 0),)),
    ]
    # two or three passes in a row wait for one another, beside others: far from the 12 of a chain
    assert cycles(made(steps)).each < 3.0


def row(how, vectors=4):
    """Of each entry a pass: numbers loaded, added to and stored, all of them then found by the next entry."""
    loads = [FlowStep("load", 1.0, (), (2 * vectors + n, 1), how) for n in range(vectors)]
    adds = [FlowStep("fp add", 1.0, ((n, 0),)) for n in range(vectors)]
    stores = [FlowStep("store", 1.0, ((vectors + n, 0),)) for n in range(vectors)]
    return made([*loads, *adds, *stores], entries=1000)


def test_what_is_handed_on_through_memory_is_to_the_next_entry_too():
    # 9 + 3 for an entry of one pass
    assert cycles(row("store forward")).each == pytest.approx(12.0, abs=1.0)


def test_what_a_store_cannot_hand_on_waits_until_all_before_are_written():
    latency = {**TIMING.latency, "store forward split": 22.0}
    timing = replace(TIMING, latency=latency)
    # 22 + 3, and of four stores, which are written one a cycle in order, the last three cycles later
    assert cycles(row("store forward split"), timing).each == pytest.approx(22 + 3 + 3, abs=1.0)
    # where it takes little longer, it is handed on: 10 + 3
    timing = replace(TIMING, latency={**latency, "store forward split": 10.0})
    assert cycles(row("store forward split"), timing).each == pytest.approx(13.0, abs=1.0)


def test_what_waits_for_nothing_takes_its_unit():
    # four additions on two units: two cycles; the front would need less
    assert cycles(made([FlowStep("fp add", 1.0)] * 4)).each == pytest.approx(2.0, rel=0.02)
    # and twelve instructions of the front for one of them two
    assert cycles(made([FlowStep("fp add", 1.0)], slots=12)).each == pytest.approx(2.0, rel=0.02)


def test_a_division_is_its_unit():
    steps = [FlowStep("load", 1.0), FlowStep("divide fp64", 1.0, ((0, 0),)), FlowStep("store", 1.0, ((1, 0),))]
    timing = replace(TIMING, latency={**TIMING.latency, "divide fp64": 13.0})
    assert cycles(made(steps), timing).each == pytest.approx(5.0, rel=0.02)


@pytest.mark.parametrize("busy", [3.0, 7.0, 15.0, 16.0, 24.0, 39.0, 50.0])
def test_a_slow_unit_never_stands_still_while_something_waits_for_it(busy):
    # whatever part of a stretch of cycles one of its operations fills: the next one begins within the same stretch
    steps = [FlowStep("load", 1.0), FlowStep("divide fp64", 1.0, ((0, 0),))]
    timing = replace(
        TIMING,
        latency={**TIMING.latency, "divide fp64": busy + 8.0},
        throughput={**TIMING.throughput, "divide fp64": busy},
    )
    # but for a stretch of 40 cycles, in which it is not said when each begins, of the 1000 that are looked at
    assert cycles(made(steps), timing).each == pytest.approx(busy, rel=0.05)


def test_the_scheduler_bounds_what_waits():
    # 40 additions one after the other in each pass, which waits for no other: 120 cycles, and as many passes at
    # once as the scheduler and the queue hold
    steps = [FlowStep("load", 1.0)] + [FlowStep("fp add", 1.0, ((n, 0),)) for n in range(40)]
    wide = replace(TIMING, scheduler=1000.0, window=1e4, registers=None)
    assert cycles(made(steps), wide).each == pytest.approx(20.0, rel=0.1)  # two additions a cycle
    narrow = replace(wide, scheduler=20.0, queue=0.0)
    # at most 20 wait: half of a pass, and what leaves it lets the next come in
    assert 60 < cycles(made(steps), narrow).each < 120


def test_what_some_passes_run_takes_its_unit_in_these_alone():
    # in each pass four additions, in half of the passes eight more: 8 in the mean, two a cycle
    half = int("01" * (TURNS // 2), 2)
    steps = [FlowStep("fp add", 1.0)] * 4 + [FlowStep("fp add", 1.0, turns=half)] * 8
    assert cycles(made(steps, slots=8)).each == pytest.approx(4.0, rel=0.05)


def test_a_sum_that_some_passes_add_to_waits_for_the_last_that_did():
    # in a quarter of the passes: 3 cycles of four
    quarter = int("0001" * (TURNS // 4), 2)
    sums = ((0, 0), *((1, n) for n in range(1, 9)))
    steps = [FlowStep("load", 1.0), FlowStep("fp add", 1.0, sums, turns=quarter)]
    assert cycles(made(steps, slots=1)).each == pytest.approx(0.75, rel=0.05)


def test_a_chain_that_some_passes_break_is_as_long_as_its_pieces():
    # three passes add to what the last one had, the fourth begins anew from a load of its own
    anew = int("1000" * (TURNS // 4), 2)
    goes_on = 2**TURNS - 1 - anew
    steps = [FlowStep("load", 1.0, turns=anew), FlowStep("fp add", 1.0, ((0, 1), (1, 1)), turns=goes_on)]
    whole = [FlowStep("fp add", 1.0, ((0, 1),))]
    timing = replace(TIMING, latency={**TIMING.latency, "fp add": 30.0})
    assert cycles(made(whole, slots=20), timing).each == pytest.approx(30.0, rel=1e-3)
    assert cycles(made(steps, slots=20), timing).each < 10.0


def test_a_comparison_waits_in_two_places_of_the_scheduler():
    # each pass a chain of 20 products, and eight that wait for its end: 28 places, or 36
    steps = [FlowStep("fp multiply", 1.0)] + [FlowStep("fp multiply", 1.0, ((n, 0),)) for n in range(19)]
    waiting = {kind: [FlowStep(kind, 1.0, ((19, 0),))] * 8 for kind in ("fp add", "fp compare apart")}
    timing = replace(
        TIMING,
        latency={**TIMING.latency, "fp compare apart": 3.0},
        throughput={**TIMING.throughput, "fp compare apart": 0.5},
        queue=0.0,
    )
    adds, compares = (cycles(made([*steps, *each]), timing).each for each in waiting.values())
    assert compares > 1.15 * adds


def test_a_division_that_is_ready_goes_first():
    # a pass has six divisions one after the other, 78 cycles; passes do not wait for one another, so that the unit
    # never stands still: 5 cycles each
    steps = [FlowStep("load", 1.0)] + [FlowStep("divide fp64", 1.0, ((n, 0),)) for n in range(6)]
    timing = replace(TIMING, latency={**TIMING.latency, "divide fp64": 13.0})
    assert cycles(made(steps), timing).each == pytest.approx(30.0, rel=0.05)


def test_multiplications_wait_in_a_scheduler_of_their_own():
    # entries of 32 multiplications one after the other, 3 cycles each, five instructions beside each: the window
    # holds two more entries, a scheduler of 24 not one
    steps = [FlowStep("integer multiply", 1.0, ((0, 1),))]
    timing = replace(
        TIMING,
        latency={"integer multiply": 3.0},
        throughput={"integer multiply": 1.0, "slot": 1 / 6},
        integers=96.0,
        multiplies=24.0,
    )
    loop = made(steps, passes=3200, entries=100, slots=5)
    assert cycles(loop, timing).each > 1.2 * cycles(loop, replace(timing, multiplies=96.0)).each


@pytest.mark.parametrize("length", [40, 160, 320, 1280])
def test_entries_overlap_as_the_window_retires_them(length):
    # each entry a chain of its own, of 0.7 cycles an instruction: against the closed form
    passes = length // 4
    steps = [FlowStep("fp add", 1.0, ((0, 1),))]
    timing = replace(
        TIMING, scheduler=1e4, registers=None, loads=None, stores=None, latency={"fp add": 2.8}, throughput={
            "fp add": 0.01, "slot": 0.001}
    )  # fmt: skip
    loop = made(steps, passes=passes * 1000, entries=1000, slots=4)
    hidden = in_core._not_hidden(length, timing.window)
    assert cycles(loop, timing).each / 2.8 == pytest.approx(hidden, rel=0.12)


def test_nothing_is_known_of_a_loop_without_its_operations():
    assert flow.run(CoreLoop(line=1, passes=10, entries=1, operations={}), TIMING, float, float, 0.0) is None


def test_which_adder_takes_an_addition_is_settled_as_it_enters():
    # two adders in turn: the third addition is the first one's, taken at 10, though the other is free then
    add = flow._timed(FlowStep("fp add", 1.0), lambda _: 3.0, lambda _: 0.5)
    used, turns = {}, {}
    assert [flow._free(add, ready, used, turns) for ready in (10.0, 5.0, 10.0, 10.0)] == [10.0, 5.0, 11.0, 10.0]
    # many that wait for nothing keep both busy
    assert cycles(made([FlowStep("fp add", 1.0)] * 8)).each == pytest.approx(4.0, abs=0.1)


def test_a_function_called_holds_registers():
    # a pass: a call of 36 cycles and 90 from argument to result, and 60 products of that. Of the call's
    # instructions, 0.5 · 36 · 6 = 108, 59 leave a number; with the products 119, so that 160 registers hold 1.34
    # passes, each of which takes at least 90 + 4: 70 cycles a pass. Without that, 36 and 61 instructions: 46.
    slow = replace(
        TIMING,
        latency={**TIMING.latency, "call pow fp64": 90.0},
        throughput={**TIMING.throughput, "call pow fp64": 36.0},
        window=1000.0,
        scheduler=1000.0,
    )
    steps = [FlowStep("call pow fp64", 1.0), *[FlowStep("fp multiply", 1.0, ((0, 0),))] * 60]
    assert cycles(made(steps), slow).each == pytest.approx(94 * 119 / 160, rel=0.1)
    assert cycles(made(steps), replace(slow, registers=None)).each == pytest.approx(36 + 61 / 6, rel=0.03)


def test_a_branch_in_a_function_waits_for_what_the_function_is_given():
    # a load, three sums one after the other, a call: in every second one a branch is foretold wrongly
    steps = [
        FlowStep("load", 1.0),
        *(FlowStep("fp add", 1.0, ((n, 0),)) for n in range(3)),
        FlowStep("call sin fp64", 1.0, ((3, 0),)),
    ]
    timing = replace(
        TIMING,
        throughput={**TIMING.throughput, "call sin fp64": 10.0},
        latency={**TIMING.latency, "call sin fp64": 30.0},
    )

    def each(missed):
        one = made(steps)
        given = timing, lambda kind: timing.latency.get(kind, 1.0), timing.throughput.__getitem__, 0.0
        found = flow.run(one, *given, lambda _: missed)
        assert found is not None
        return found.alone / one.passes

    # its busy cycles and the rest that passes through the front
    assert each(0.0) == pytest.approx(10 + 5 / 6, rel=0.05)
    # 5 for the load and 9 for the sums, until the next pass begins 20 later: of half of the passes
    assert each(1.0) == pytest.approx(5 + 9 + 20 + 10 / 12, rel=0.1)
    assert each(0.5) == pytest.approx((each(0.0) + each(1.0)) / 2, rel=0.2)


def test_results_of_a_function_leave_one_by_one():
    # 1 % more of a function takes about 1 % more: no cliff where its results just fill the registers
    def each(busy):
        timing = replace(
            TIMING,
            throughput={**TIMING.throughput, "call sin fp64": busy},
            latency={**TIMING.latency, "call sin fp64": 60.0},
        )
        return cycles(made([FlowStep("load", 1.0), FlowStep("call sin fp64", 1.0, ((0, 0),))] * 2), timing).each

    found = [each(20.0 + n) for n in range(30)]
    assert max(b / a for a, b in itertools.pairwise(found)) < 1.1


WHOLE = replace(
    TIMING,
    latency={**TIMING.latency, "integer shift": 1.0},
    throughput={**TIMING.throughput, "integer": 0.25, "integer shift": 0.5, "convert from whole": 1.0},
)
# x ^= x << 13; x ^= x >> 7; x ^= x << 17 (Marsaglia, 2003): each waits for the one before, 6 cycles
XORSHIFT = [
    FlowStep("integer shift", 1.0, ((5, 1),)),
    FlowStep("integer", 1.0, ((0, 0), (5, 1))),
    FlowStep("integer shift", 1.0, ((1, 0),)),
    FlowStep("integer", 1.0, ((1, 0), (2, 0))),
    FlowStep("integer shift", 1.0, ((3, 0),)),
    FlowStep("integer", 1.0, ((3, 0), (4, 0))),
]


def test_a_chain_of_whole_numbers_waits_for_itself():
    assert cycles(made(XORSHIFT), WHOLE).each == pytest.approx(6.0, rel=0.01)


def test_a_chain_waits_where_two_shifts_of_its_result_stand_before_its_own():
    # two units shift: one beside it leaves the other free, of two one stands in its way (Zen 4: 5.95 and 7.0)
    beside = FlowStep("integer shift", 1.0, ((5, 0),))
    assert cycles(made([*XORSHIFT, beside]), WHOLE).each == pytest.approx(6.0, rel=0.01)
    assert cycles(made([*XORSHIFT, beside, beside]), WHOLE).each == pytest.approx(7.0, rel=0.01)


def test_whole_numbers_take_no_more_units_than_there_are():
    # eight a pass, four units, none waits for another
    assert cycles(made([FlowStep("integer", 1.0)] * 8), WHOLE).each == pytest.approx(2.0, rel=0.02)


def test_whole_numbers_that_addresses_take_in_take_no_unit():
    # eight shifts, of which the machine code has two: of two a cycle, one cycle
    steps = [FlowStep("integer shift", 1.0)] * 8
    timing = replace(TIMING, throughput={**TIMING.throughput, "integer shift": 0.5, "slot": 0.01})
    assert cycles(made(steps), timing).each == pytest.approx(4.0, rel=0.1)
    assert cycles(made(steps, in_code={"integer shift": 2}), timing).each == pytest.approx(1.0, rel=0.1)


def test_a_number_that_is_converted_leaves_by_a_unit_of_whole_numbers():
    # 6 of them pass 4 units: 1.5 cycles, where the conversions alone take 1
    steps = [FlowStep("integer", 1.0)] * 4 + [FlowStep("convert from whole", 1.0)] * 2
    timing = replace(WHOLE, throughput={**WHOLE.throughput, "slot": 0.1, "convert from whole": 0.5})
    assert cycles(made(steps), timing).each == pytest.approx(1.5, rel=0.05)


def test_additions_of_vectors_do_not_stand_in_the_way_of_shuffles():
    # 4 shuffles of 1 cycle on their unit beside 8 additions of 0.5 on theirs: 4 cycles, not 8
    throughput = {"shuffle wide": 1.0, "vector integer wide": 0.5, "slot": 1 / 6}
    timing = replace(TIMING, latency={"shuffle wide": 1.0, "vector integer wide": 1.0}, throughput=throughput)
    steps = [FlowStep("shuffle wide", 4.0), FlowStep("vector integer wide", 8.0)]
    assert cycles(made(steps), timing).each == pytest.approx(4.0, rel=0.05)


INDEXED = [
    FlowStep("load integer", 1.0),
    FlowStep("integer shift", 1.0, ((0, 0),)),
    FlowStep("load", 1.0, ((1, 0),)),
    FlowStep("fp add", 1.0, ((2, 0),)),
]


def far_cycles(steps, far, **more):
    loop = made(steps, **more)
    latency, each = TIMING.latency, {**TIMING.throughput, "integer shift": 0.5, "load integer": 0.5}
    found = flow.run(loop, TIMING, lambda kind: latency.get(kind, 1.0), each.__getitem__, 0.0, far=far)
    assert found is not None
    return found


def test_misses_wait_for_a_buffer():
    # 4 of 200 cycles at once: one each 50
    found = far_cycles(INDEXED, flow.Far((2,), ((1.0, 200.0),), 4), passes=4000)
    assert found.alone / 4000 == pytest.approx(50.0, rel=0.02)


def test_misses_wait_for_room_in_the_window():
    # 80 instructions a pass: four passes in the window of 320
    found = far_cycles(INDEXED, flow.Far((2,), ((1.0, 400.0),), 24), passes=4000, slots=80)
    assert 400 / 5 < found.alone / 4000 < 400 / 3


def test_what_hits_takes_as_long_as_without_misses():
    assert far_cycles(INDEXED, flow.Far((2,), (), 24), passes=4000) == far_cycles(INDEXED, None, passes=4000)


def test_the_first_lines_of_rows_are_those_of_the_first_pass_of_an_entry():
    row = [FlowStep("load", 1.0), FlowStep("fp add", 1.0, ((0, 0), (1, 1)))]
    near = far_cycles(row, None, passes=8000, entries=100, slots=40)
    begun = flow.Far((0,), (), 24, first=((1.0, 300.0),))
    # rows of 80 passes: the next begins when this one has nearly left the window
    later = 80 * (far_cycles(row, begun, passes=8000, entries=100, slots=40).each - near.each)
    assert 0.5 * 300 < later < 1.1 * 300
