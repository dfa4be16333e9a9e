"""Timed calls, runs, fleets and served models held against each other."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

import rooflab
from rooflab.comparing.fleet import judged
from rooflab.comparing.measured_sides import READERS
from rooflab.types.fleet import FleetNode
from rooflab.types.run import Run
from rooflab.types.timed_call import CallTimes, Surroundings, TimedCall
from rooflab.types.usage import Usage

EXAMPLES = Path(__file__).parents[2] / "examples"


def timed(median_s: float, low_s: float, high_s: float) -> TimedCall:
    warm = CallTimes(
        caches="warm", median_s=median_s, best_s=low_s, calls=9, blocks_s=(median_s,), low_s=low_s, high_s=high_s
    )
    return TimedCall(
        name="f",
        device="CPU",
        warm=warm,
        first_s=1.0,
        warm_up_calls=1,
        warm_up_s=1.0,
        surroundings=Surroundings(cpus=1),
    )


def changed(before, after, name: str):
    """The amount called `name` of two results."""
    return rooflab.compare(before, after).differences[0].amount(name)


def test_a_call_is_slower_where_its_intervals_lie_apart():
    apart = changed(timed(1.0, 0.98, 1.02), timed(1.5, 1.45, 1.55), "time")
    assert (apart.relative, apart.verdict) == (pytest.approx(0.5), "more")
    beside = changed(timed(1.0, 0.9, 1.1), timed(1.05, 0.95, 1.15), "time")
    assert beside.verdict == "same"


def test_a_run_is_its_median_between_its_ends():
    def run(*walls: float) -> Run:
        usage = tuple(Usage(wall_s=wall, user_s=wall / 2, system_s=0.1) for wall in walls)
        return Run(command=("a",), usage=usage, exit_code=0)

    one = changed(run(1.0, 2.0, 4.0), run(3.0), "time")
    assert (one.base.value, one.base.low, one.base.high) == (2.0, 1.0, 4.0)
    assert one.other.low is None  # a single run says nothing of its spread
    assert changed(run(1.0), run(3.0), "CPU time").relative == pytest.approx(1.6 / 0.6 - 1)
    assert changed(run(1.0), run(3.0), "memory").verdict == "unknown"  # nobody knows it


def test_a_fleet_is_compared_by_its_medians_and_by_its_nodes():
    measured = rooflab.machine(EXAMPLES / "zen4-guest.toml")
    levels = tuple(
        msgspec.structs.replace(
            each, rates=tuple(msgspec.structs.replace(rate, value=rate.value / 2) for rate in each.rates)
        )
        for each in measured.levels
    )
    slower = msgspec.structs.replace(measured, levels=levels)

    def fleet(machine):
        nodes = [FleetNode(name=f"n{at}", kind="k", machine=machine) for at in range(2)]
        return judged(nodes, "test", "2026-01-01T00:00:00+00:00")

    found = rooflab.compare(fleet(measured), fleet(slower)).differences[0]
    halved = [one.metric for one in found.amounts if one.relative == pytest.approx(-0.5)]
    assert any(": n0" in name for name in halved)
    assert any(": n" not in name for name in halved)


def test_a_served_model_is_compared_by_what_its_users_wait_for():
    small, large = (rooflab.serve("llama-3.1-8b", device, concurrency=4) for device in ("l4", "h100-sxm"))
    first, each = (changed(small, large, name) for name in ("time to first token", "time per token"))
    assert first.relative < 0
    assert each.relative < 0  # an H100 has eleven times an L4's bandwidth
    assert each.other.low < each.other.value < each.other.high


def test_every_one_of_them_can_be_named_in_a_gate():
    (gate,) = rooflab.compare(timed(1.0, 0.98, 1.02), timed(1.5, 1.45, 1.55), fail_if="time>+5%").gates
    assert gate.outcome == "failed"
    assert set(READERS) == {"TimedCall", "Run", "Fleet", "Serving"}
