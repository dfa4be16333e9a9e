"""Causes of a difference in time: each alone, all together, always adding up."""

from __future__ import annotations

import math
import random

import pytest

from rooflab.comparing import attribution
from rooflab.comparing.attribution import added, terms_of
from rooflab.types.comparison import Measure


def measure(**changed) -> Measure:
    """10 µs: 2 µs to start one kernel, 8 µs at half the rate of a memory of 1 TB/s for 4 MB."""
    plain = {
        "time_s": 10e-6,
        "overhead_s": 2e-6,
        "launches": 1.0,
        "flop": 1e6,
        "nbytes": 4e6,
        "roof_compute_s": 1e-7,
        "roof_memory_s": 4e-6,
    }
    return Measure(**{**plain, **changed})


@pytest.mark.parametrize(
    ("changed", "cause", "seconds"),
    [
        # Half the bytes: the 8 µs halve.
        ({"nbytes": 2e6, "roof_memory_s": 2e-6, "time_s": 6e-6}, attribution.BYTES, -4e-6),
        # A memory twice as fast for the same bytes.
        ({"roof_memory_s": 2e-6, "time_s": 6e-6}, attribution.ROOFS, -4e-6),
        # The same roofs, nearer to them.
        ({"time_s": 7e-6}, attribution.EFFICIENCY, -3e-6),
        # Two kernels, each as long to start.
        ({"launches": 2.0, "overhead_s": 4e-6, "time_s": 12e-6}, attribution.LAUNCHES, 2e-6),
        ({"overhead_s": 3e-6, "time_s": 11e-6}, attribution.OVERHEAD, 1e-6),
        # 40 times the FLOP: 4 µs of compute are as long as the bytes; 80 times: twice as long, so 16 for 8 µs.
        ({"flop": 80e6, "roof_compute_s": 8e-6, "time_s": 18e-6}, attribution.FLOP, 8e-6),
    ],
)
def test_a_single_cause_is_the_whole(changed, cause, seconds):
    (term,) = terms_of(measure(), measure(**changed))
    assert term.cause == cause
    assert term.seconds == pytest.approx(seconds, rel=1e-9)


def test_two_factors_share_what_they_do_together():
    # 8 µs = 4 µs of roof × 2. Half the bytes and half the distance: 2 µs. Alone each saves 4, after the other 2.
    found = terms_of(measure(), measure(nbytes=2e6, roof_memory_s=2e-6, time_s=4e-6))
    assert {term.cause: round(term.seconds * 1e6, 9) for term in found} == {
        attribution.BYTES: -3.0,
        attribution.EFFICIENCY: -3.0,
    }


def test_terms_add_up_whatever_the_numbers():
    rng = random.Random(7)
    for _ in range(300):
        sides = []
        for _ in range(2):
            drawn = {name: 10 ** rng.uniform(-9, -3) for name in ("time_s", "roof_compute_s", "roof_memory_s")}
            drawn["overhead_s"] = drawn["time_s"] * rng.uniform(0, 1.2)
            drawn |= {"flop": 10 ** rng.uniform(3, 12), "nbytes": 10 ** rng.uniform(3, 12)}
            drawn["launches"] = float(rng.randint(1, 9))
            for name in ("flop", "nbytes", "roof_compute_s"):
                if rng.random() < 0.1:
                    drawn[name] = 0.0
            sides.append(Measure(**drawn))
        base, other = sides
        change = other.time_s - base.time_s
        terms = terms_of(base, other)
        # To the last bit of the largest part: parts can be far larger than what is left of them.
        last = 4 * math.ulp(max(abs(term.seconds) for term in terms))
        assert math.fsum(term.seconds for term in terms) == pytest.approx(change, rel=0, abs=last)


def test_what_is_not_known_is_not_told_apart():
    (term,) = terms_of(measure(flop=None), measure(time_s=13e-6))
    assert (term.cause, term.seconds) == (attribution.UNEXPLAINED, pytest.approx(3e-6))
    assert terms_of(measure(time_s=None), measure()) == ()


def test_overhead_that_one_side_does_not_know_counts_as_efficiency():
    (term,) = terms_of(measure(), measure(overhead_s=None, time_s=14e-6))
    assert term.cause == attribution.EFFICIENCY


def test_one_side_alone():
    (gone,) = terms_of(measure(), None)
    (new,) = terms_of(None, measure())
    assert (gone.cause, gone.seconds) == (attribution.REMOVED, -10e-6)
    assert (new.cause, new.seconds) == (attribution.ADDED, 10e-6)


def test_rows_add():
    one = terms_of(measure(), measure(time_s=7e-6))
    two = terms_of(measure(), measure(time_s=12e-6))
    (term,) = added([one, two])
    assert (term.cause, term.seconds) == (attribution.EFFICIENCY, pytest.approx(-1e-6))
