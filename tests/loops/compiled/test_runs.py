"""Timed runs of a loop as a report holds them: which moment is kept, and what is disturbed."""

from __future__ import annotations

import pytest

from rooflab.loops.compiled import runs, time
from rooflab.timing import Timing
from rooflab.types.loop import Timed


def of(best_s, median_s, *, threads=1, cache="warm", rounds=100):
    return Timed(
        threads=threads,
        cache=cache,
        best_s=best_s,
        median_s=median_s,
        spread=(median_s - best_s) / median_s,
        runs=rounds,
    )


def test_of_two_moments_the_quicker_is_kept_of_warm_runs_alone(monkeypatch):
    given = [of(2e-3, 3e-3), of(5e-3, 5e-3, cache="cold", rounds=3), of(1e-3, 1e-3, threads=2)]
    later = {"alone": Timing(1e-3, 1.1e-3, 0.1, 80, 1), "team": Timing(1.5e-3, 2e-3, 0.25, 90, 1)}
    monkeypatch.setattr(runs, "warm", lambda function, arguments, fresh, part: later[function])
    monkeypatch.setattr(runs, "_of_teams", lambda function, *_: [of(later[function].best_s, 2e-3, threads=2)])
    alone, cold, team = runs.once_more(given, "alone", "team", None, False)
    assert (alone.best_s, alone.median_s, alone.runs) == (1e-3, 1.1e-3, 80)
    assert (cold, team) == (given[1], given[2])


def test_what_takes_long_is_not_run_at_another_moment(monkeypatch):
    monkeypatch.setattr(runs, "warm", None)
    given = [of(0.2, 0.2, rounds=5)]
    assert runs.once_more(given, "alone", None, None, False) == given


@pytest.mark.parametrize(
    ("run", "disturbed", "held_s"),
    [
        (of(1e-3, 1.2e-3), False, 1.2e-3),
        (of(1e-3, 1.3e-3), True, 1e-3),
        (of(1e-3, 1.3e-3, cache="cold"), False, 1.3e-3),  # what each finds in the caches differs
        (of(1e-3, 1.3e-3, rounds=3), False, 1.3e-3),  # three do not say what is usual
    ],
)
def test_runs_of_which_half_take_a_quarter_longer_are_disturbed_and_the_best_is_held_against_predictions(
    run, disturbed, held_s
):
    assert (run.disturbed, run.time_s) == (disturbed, held_s)


@pytest.mark.parametrize(
    ("once_s", "rounds"),
    [(1e-6, 100), (6e-4, 100), (2e-3, 30), (0.03, 5), (0.3, 3), (30.0, 2)],  # 60 ms ÷ 2 ms; at least 5; 1 s in all
)
def test_rounds_are_many_and_short_and_few_of_long_calls(once_s, rounds):
    assert time.rounds_of(once_s) == rounds


def test_a_part_of_the_rounds_is_three_at_least():
    assert time.rounds_of(2e-3, 1 / 3) == 10
    assert time.rounds_of(0.03, 1 / 3) == 3
