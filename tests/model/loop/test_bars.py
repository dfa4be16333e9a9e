"""Bars of loops: they hold the prediction, add up, widen where less is known; the sample they follow from."""

from __future__ import annotations

import itertools
import math
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from rooflab.model.device.constants import load_family
from rooflab.model.loop import bars
from rooflab.types.loop import LoopTime, Predicted

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "benchmarks"))
import loop_bars

CHAIN = LoopTime(
    line=1, time_s=1.0, busiest="loads", ports_s=0.1, chain="a chain of additions, products", chain_s=1.0
)
SELECTED = replace(CHAIN, chain="a chain of fp compare, fp select")
LOADS = LoopTime(line=2, time_s=1.0, busiest="loads", ports_s=1.0)
WHOLE = replace(LOADS, busiest="whole numbers")
WAITS = replace(LOADS, busiest="results of a pass")
MISSED = LoopTime(line=3, time_s=1.0, busiest="loads", ports_s=0.0, missed_s=1.0)
CALLED = LoopTime(line=4, time_s=1.0, busiest="loads", ports_s=0.0, calls_s={"exp": 1.0})
EVERY = (CHAIN, SELECTED, LOADS, WHOLE, WAITS, MISSED, CALLED)


def predicted(time_s=1.0, **more):
    return Predicted(
        threads=1,
        core_s=time_s,
        core_why="",
        overlapped_s=time_s,
        serial_s=time_s,
        time_s=time_s,
        bound="compute-bound",
        binds="",
        **more,
    )


def of(taken, **known):
    return bars.around(predicted(taken.time_s), bars.errors(bars.parts(taken), **known))


def in_core(*loops):
    time_s = sum(each.time_s for each in loops)
    return bars.Taken(time_s, loops, time_s, 0.0)


def width(made):
    assert made.low_s is not None
    assert made.high_s is not None
    return math.log(made.high_s / made.low_s)


MEMORY = bars.Taken(2.0, (LOADS,), 1.0, 1.8, waiting_s=0.9, both_s=0.2, team_s=0.1)
MIXTURES = [*(in_core(a, b) for a, b in itertools.combinations(EVERY, 2)), MEMORY]


@pytest.mark.parametrize("taken", MIXTURES)
def test_bars_hold_the_prediction_and_join_errors_as_independent_ones(taken):
    made = of(taken)
    assert 0 < made.low_s < made.time_s < made.high_s
    assert math.log(made.high_s / made.time_s) == pytest.approx(math.hypot(*made.errors.values()))
    assert list(made.errors.values()) == sorted(made.errors.values(), reverse=True)


@pytest.mark.parametrize("taken", MIXTURES)
def test_bars_widen_where_core_or_memory_were_not_measured(taken):
    known, by_table, usual = (of(taken, core=how) for how in ("measured", "by_table", "usual"))
    assert usual.low_s < by_table.low_s < known.low_s
    assert usual.high_s > by_table.high_s > known.high_s
    assert width(of(taken, rates_measured=False)) >= width(known)


@pytest.mark.parametrize("loops", list(itertools.combinations(EVERY, 3)))
def test_shares_of_a_core_without_data_add_up(loops):
    shares = bars.parts(in_core(*loops))
    assert sum(share for kind, share in shares.items() if kind != "least") == pytest.approx(1.0)


def test_each_mechanism_counts_by_its_share_of_the_time():
    shares = bars.parts(in_core(CHAIN, MISSED))
    assert (shares["chain"], shares["missed"]) == (0.5, 0.5)
    constant = load_family("cpu")
    found = bars.errors(shares)
    assert found[bars.WORDS["chain"]] == pytest.approx(0.5 * constant("loop.error_chain"))
    assert found[bars.WORDS["missed"]] == pytest.approx(0.5 * constant("loop.error_missed"))


def test_a_plain_chain_is_known_better_than_anything_else():
    plain = width(of(in_core(CHAIN)))
    assert plain < 0.15
    assert all(width(of(in_core(each))) > plain for each in EVERY[1:])


def test_what_goes_on_beside_another_entry_is_less_sure():
    shares = bars.parts(in_core(replace(CHAIN, apart_s=1.5)))
    assert shares["beside"] == pytest.approx(0.5)
    assert width(of(in_core(replace(CHAIN, apart_s=1.5)))) > width(of(in_core(CHAIN)))


def test_of_core_and_data_the_shorter_counts_less():
    # memory 4 s with 1 s waiting; a core of 2 s is half as long, so that half of it counts
    shares = bars.parts(bars.Taken(4.0, (replace(LOADS, ports_s=2.0),), 2.0, 4.0, waiting_s=1.0))
    assert shares["units"] == pytest.approx(0.5 * 2 / 4)
    assert (shares["bytes"], shares["waiting"]) == (0.75, 0.25)


def test_a_wait_may_be_hidden_more_than_it_may_be_longer():
    made = of(bars.Taken(1.0, (), 0.0, 1.0, waiting_s=1.0))
    assert math.log(made.time_s / made.low_s) > 2 * math.log(made.high_s / made.time_s)


def test_what_is_taken_to_be_known_by_heart_only_adds_time():
    learnt = replace(MISSED, time_s=1.0, missed_s=0.5, ports_s=0.5, learnt_s=0.5)
    made, plain = of(in_core(learnt)), of(in_core(replace(learnt, learnt_s=0.0)))
    assert made.low_s == pytest.approx(plain.low_s)
    assert made.high_s > plain.high_s


def test_what_threads_share_is_less_sure():
    assert width(of(MEMORY._replace(shared_s=0.5))) > width(of(MEMORY))


def test_bars_reach_to_where_a_shared_cache_keeps_more_and_less():
    made = of(in_core(CHAIN))
    wide = bars.widened(made, 0.8, 1.3)
    assert math.log(wide.high_s) == pytest.approx(math.hypot(math.log(made.high_s), math.log(1.3)))
    assert math.log(wide.low_s) == pytest.approx(-math.hypot(math.log(made.low_s), math.log(0.8)))
    assert wide.errors[bars.KEPT] == pytest.approx(math.log(1.3))
    assert bars.widened(made, 1.0, None) == made


def test_nothing_takes_no_time():
    made = of(bars.Taken(0.0, (), 0.0, 0.0))
    assert (made.low_s, made.high_s, made.errors) == (0.0, 0.0, {})


def test_the_constants_are_those_that_the_sample_gives():
    found = loop_bars.fitted(loop_bars.sample())
    for kind, value in loop_bars.in_use().items():
        assert value == pytest.approx(found[kind], rel=0.05), kind


def test_four_of_five_of_the_sample_lie_inside():
    found = loop_bars.judged(loop_bars.sample(), loop_bars.in_use())
    assert found.loops == 266
    assert 0.78 < found.inside < 0.83
    assert found.half < 0.25


def test_the_benchmark_and_the_model_make_the_same_bars():
    shares = bars.parts(MEMORY)
    made = of(MEMORY)
    (down,), (up,) = loop_bars.ends([loop_bars.FirstRun("", "", 1.0, 1.0, 1.0, shares)], loop_bars.in_use())
    assert made.low_s == pytest.approx(made.time_s * math.exp(-down))
    assert made.high_s == pytest.approx(made.time_s * math.exp(up))
