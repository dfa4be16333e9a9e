"""Calibration, interleaving and jitter, with a set of threads that only pretends and a clock that stands still."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooflab.machines.bench.kernels.emit import clock_kernel
from rooflab.machines.bench.kernels.jit import Kernel
from rooflab.machines.bench.run import trials
from rooflab.machines.bench.run.arena import LINE_BYTES, Arena
from rooflab.machines.bench.run.pinned_threads import Job, Run
from rooflab.machines.bench.run.trials import JITTER_BYTES, Bench, Sample, Samples, Trial, sizes, spread_bound
from rooflab.units import GIB, KIB

KERNEL = Kernel(clock_kernel(), None, None)


class FakeThreads:
    """A set of threads on which one iteration takes `per_iteration_s`; it remembers every call."""

    def __init__(self, per_iteration_s: float = 1e-6) -> None:
        self.per_iteration_s = per_iteration_s
        self.ran: list[tuple[Job, ...]] = []
        self.slower: list[float] = []

    def run(self, jobs: Sequence[Job]) -> Run:
        self.ran.append(tuple(jobs))
        factor = self.slower.pop(0) if self.slower else 1.0
        each = tuple(job.iterations * self.per_iteration_s * factor for job in jobs)
        return Run(max(each), each)


def bench(pinned: FakeThreads, seed: int = 0, **more: Any) -> Bench:
    return Bench(pinned, {"clock": KERNEL}, np.random.default_rng(seed), **more)  # type: ignore[arg-type]


def trial(key: object, iterations: int = 10, **more: Any) -> Trial:
    return Trial(key, (Job(0, KERNEL, iterations, a=1 << 20, b=2 << 20, c=3 << 20),), 100.0, **more)


@pytest.mark.parametrize("per_iteration_s", [1e-9, 1e-7, 1e-5, 1e-3, 1.0])
@pytest.mark.parametrize("run_s", [0.004, 0.02])
def test_a_sample_takes_the_asked_time(per_iteration_s: float, run_s: float) -> None:
    pinned = FakeThreads(per_iteration_s)
    found = bench(pinned).interleave([trial("one", run_s=run_s)], rounds=3)["one"]
    one_pass = 10 * per_iteration_s
    # As near to the asked time as whole passes allow: a pass longer than that is made once.
    took = pinned.ran[-1][0].iterations * per_iteration_s
    assert took == pytest.approx(max(run_s, one_pass), rel=0.01, abs=one_pass / 2)
    assert found.series.values == pytest.approx([100 / one_pass] * 3)
    assert found.passes >= 1


def test_calibration_wastes_little() -> None:
    pinned = FakeThreads(1e-8)
    bench(pinned).interleave([trial("one", run_s=0.02)], rounds=0)
    spent = sum(jobs[0].iterations * pinned.per_iteration_s for jobs in pinned.ran)
    assert spent < 2.5 * 0.02


def test_every_trial_gets_every_round_in_a_new_order() -> None:
    pinned = FakeThreads(1e-3)
    # Told apart by their CPU; run_s is one pass, so that each sample is one call.
    several = [Trial(cpu, (Job(cpu, KERNEL, 10),), 1.0, run_s=0.01, jitter=False) for cpu in range(6)]
    found = bench(pinned).interleave(several, rounds=8)
    assert list(found) == list(range(6))
    assert all(len(samples.taken) == 8 for samples in found.values())
    calls = [jobs[0].cpu for jobs in pinned.ran][-48:]
    rounds = [tuple(calls[k : k + 6]) for k in range(0, 48, 6)]
    assert all(sorted(one) == list(range(6)) for one in rounds)
    assert len(set(rounds)) > 4


@given(seed=st.integers(0, 10**6))
def test_jitter_moves_all_streams_alike_by_whole_lines(seed: int) -> None:
    pinned = FakeThreads(1e-3)
    bench(pinned, seed).interleave([trial("one")], rounds=5)
    for (job,) in pinned.ran:
        shift = job.a - (1 << 20)
        assert 0 <= shift < JITTER_BYTES
        assert shift % LINE_BYTES == 0
        assert (job.b - (2 << 20), job.c - (3 << 20)) == (shift, shift)


def test_jitter_varies_and_can_be_left_out() -> None:
    pinned = FakeThreads(1e-3)
    bench(pinned).interleave([trial("one")], rounds=20)
    assert len({jobs[0].a for jobs in pinned.ran}) > 5
    pinned = FakeThreads(1e-3)
    bench(pinned).interleave([trial("one", jitter=False)], rounds=20)
    assert {jobs[0].a for jobs in pinned.ran} == {1 << 20}


def test_past_the_budget_no_third_round_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(10**6))
    monkeypatch.setattr(trials.time, "monotonic", lambda: float(next(now)))
    found = bench(FakeThreads(1e-3)).interleave([trial("one"), trial("two")], rounds=10, budget_s=0.5)
    assert [len(samples.taken) for samples in found.values()] == [2, 2]


def test_more_rounds_only_where_runs_disagree() -> None:
    pinned = FakeThreads(1e-3)
    pinned.slower = [1.0] * 2 + [1.0, 1.0, 1.4, 1.4, 1.4, 1.4]
    several = [trial("calm", tolerance=0.03, jitter=False), trial("wild", tolerance=0.03, jitter=False)]
    subject = Bench(pinned, {"clock": KERNEL}, _Sorted(), lambda: None)  # type: ignore[arg-type]
    # calm 1, wild 1, calm 1.4, wild 1.4, …: both disagree after 3 rounds, both settle once enough agree.
    found = subject.interleave(several, rounds=3)
    assert all(len(samples.taken) > 3 for samples in found.values())
    assert all(len(samples.taken) <= 9 for samples in found.values())
    assert all(samples.settled for samples in found.values())


class _Sorted:
    """A generator that shuffles nothing."""

    def permutation(self, count: int) -> np.ndarray:
        return np.arange(count)


def test_runs_that_never_agree_end_too() -> None:
    pinned = FakeThreads(1e-3)
    pinned.slower = [1.0, 1.0, *[2.0] * 10**4]
    found = bench(pinned).interleave([trial("one", tolerance=0.03, jitter=False)], rounds=3)["one"]
    assert len(found.taken) == 21  # the 3 asked for, and 6 × 3 more
    assert not found.settled


def test_without_a_tolerance_no_further_round() -> None:
    pinned = FakeThreads(1e-3)
    pinned.slower = [1.0, *([1.0, 2.0] * 50)]
    assert len(bench(pinned).interleave([trial("one")], rounds=4)["one"].taken) == 4


def test_the_higher_clock_around_a_sample_stands() -> None:
    pinned = FakeThreads(1e-6)
    arena = Arena.reserve(4096)
    subject = bench(pinned)
    assert subject.clock_hz(0, arena) == pytest.approx(128 / 1e-6)
    pinned = FakeThreads(1e-3)
    pinned.slower = [1.0, 2.0, 1.0, 1.0]  # calibration, clock before at half speed, sample, clock after
    (taken,) = bench(pinned).interleave([trial("one", jitter=False)], 1, clocked=arena)["one"].taken
    assert taken.clock_hz == pytest.approx(128 / 1e-3)


def test_without_an_arena_no_clock() -> None:
    found = bench(FakeThreads(1e-3)).interleave([trial("one")], rounds=2)["one"]
    assert found.clock_hz is None


def test_the_clock_of_a_series_is_that_of_its_best_run() -> None:
    samples = Samples(trial("one"), [Sample(1.0, 3e9), Sample(5.0, 4e9), Sample(2.0, 9e9)])
    assert samples.clock_hz == 4e9
    assert samples.series.best == 5.0


def test_tick_is_called_after_each_sample_and_may_stop() -> None:
    ticks = []

    def tick() -> None:
        ticks.append(1)
        if len(ticks) == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bench(FakeThreads(1e-3), tick=tick).interleave([trial("one")], rounds=100)
    assert len(ticks) == 5


def test_no_trials_no_samples() -> None:
    assert bench(FakeThreads()).interleave([], rounds=3) == {}


@pytest.mark.parametrize(
    ("label", "bound"), [("L1", 0.03), ("L2", 0.03), ("fma", 0.03), ("L3", 0.08), ("DRAM", 0.08)]
)
def test_bounds_of_the_spread(label: str, bound: float) -> None:
    assert spread_bound(label) == bound


def test_sizes_of_an_octave() -> None:
    # 4, 5, 6, 7, 8, 10, 12, 14, 16 KiB
    assert list(sizes(4 * KIB, 16 * KIB)) == [k * KIB for k in (4, 5, 6, 7, 8, 10, 12, 14, 16)]
    assert list(sizes(4 * KIB, 32 * KIB, 2)) == [k * KIB for k in (4, 6, 8, 12, 16, 24, 32)]
    assert list(sizes(4 * KIB, 4 * KIB)) == [4 * KIB]


@given(
    first=st.integers(2, 20).map(lambda k: 2**k * KIB),
    octaves=st.floats(0, 12),
    per_octave=st.sampled_from([1, 2, 4]),
)
def test_sizes_ascend_within_bounds(first: int, octaves: float, per_octave: int) -> None:
    last = max(first, min(int(first * 2**octaves), 64 * GIB))
    found = list(sizes(first, last, per_octave))
    assert found[0] == first
    assert found == sorted(set(found))
    assert all(size % KIB == 0 for size in found)
    assert found[-1] <= last
    # No gap is wider than a step.
    assert all(far / near <= 1 + 1 / per_octave for near, far in itertools.pairwise(found))
    assert last / found[-1] < 1 + 1 / per_octave


def test_windows_go_on_where_the_last_sample_ended_whatever_trial_it_was_of() -> None:
    pinned = FakeThreads(1e-3)
    several = [trial(key, windows=5, window_bytes=1 << 20, jitter=False) for key in "abc"]
    found = bench(pinned).interleave(several, rounds=4)
    starts = [jobs[0].a - (1 << 20) for jobs in pinned.ran]
    assert starts == [number % 5 << 20 for number in range(12)]
    # One window is one pass: 100 bytes in ten iterations of 1 ms.
    assert all(samples.passes == 1 for samples in found.values())
    assert found["a"].series.values == pytest.approx([100 / 0.01] * 4)


def test_a_lead_fills_the_caches_before_samples_in_a_row() -> None:
    pinned = FakeThreads(1e-3)
    found = bench(pinned).interleave([trial("one", windows=8, window_bytes=4096, lead=5)], rounds=2)["one"]
    # Twice five windows and three that are timed; those are all through memory that follows the last.
    assert len(pinned.ran) == 2 * (5 + 3)
    places = [(jobs[0].a - (1 << 20)) // 4096 for jobs in pinned.ran]
    assert places == [number % 8 for number in range(16)]
    assert len(found.taken) == 6


def test_without_time_each_trial_still_gets_two_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(0.0, 10.0)
    monkeypatch.setattr(trials.time, "monotonic", lambda: next(clock))
    several = [trial("plain", run_s=0.01), trial("led", windows=8, window_bytes=4096, lead=2)]
    found = bench(FakeThreads(1e-3)).interleave(several, rounds=5, budget_s=1.0)
    assert {key: len(samples.taken) for key, samples in found.items()} == {"plain": 2, "led": 3}


def test_a_short_sample_begins_warm() -> None:
    pinned = FakeThreads(1e-3)
    found = bench(pinned).interleave([trial("one", run_s=0.03, jitter=True)], rounds=2)["one"]
    assert found.passes == 3
    assert [jobs[0].iterations for jobs in pinned.ran][-4:] == [10, 30, 10, 30]
    assert found.series.values == pytest.approx([100 / 0.01] * 2)


def test_a_trial_that_settles_is_passed_through_before_samples_in_a_row() -> None:
    pinned = FakeThreads(per_iteration_s=1e-3)
    taken = bench(pinned).interleave([trial("settling", run_s=0.02, settling=8)], rounds=2)["settling"]
    # 10 ms a pass, so two of them a sample; one round is enough, as three samples are taken in a row
    assert [len(taken.taken), taken.passes] == [3, 2]
    *_, settling, first, second, third = [jobs[0].iterations // 10 for jobs in pinned.ran]
    assert (settling, first, second, third) == (8, 2, 2, 2)
