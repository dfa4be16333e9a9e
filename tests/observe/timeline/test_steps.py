"""Steps: marked ones, and those found by a sequence of kernels that comes again."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from rooflab.observe.importers.traces import kineto
from rooflab.observe.timeline import timeline
from rooflab.observe.timeline.steps import period_of
from support.observe.kineto_files import call, file, kernel

LAYER = [1, 2, 3, 4, 5]
STEP = [0, *LAYER * 6, 6, 7]


@given(st.integers(3, 8), st.integers(0, 3))
def test_steps_are_found_though_their_layers_repeat_too(repeats, before):
    found = period_of(np.array([9] * before + STEP * repeats, np.int32))
    assert found == (before, len(STEP), repeats)


def test_layers_of_one_step_are_what_repeats_there():
    assert period_of(np.array(STEP, np.int32)) == (1, len(LAYER), 6)


@pytest.mark.parametrize("seed", range(5))
def test_a_kernel_out_of_turn_does_not_hide_the_period(seed):
    names = np.array(STEP * 10, np.int32)
    at = np.random.default_rng(seed).integers(0, len(names), 3)
    names[at] = 99
    found = period_of(names)
    assert found is not None
    assert found[1] == len(STEP)


def test_two_streams_that_change_places_do_not_hide_it():
    swapped = [*STEP[:10], STEP[11], STEP[10], *STEP[12:]]
    found = period_of(np.array([*STEP, *swapped] * 4, np.int32))
    assert found is not None
    assert found[1] % len(STEP) == 0


@pytest.mark.parametrize("names", [[], [1], [1, 1, 1, 1], [1, 2] * 20, list(range(30)), STEP + STEP])
def test_what_does_not_repeat_often_enough_has_no_period(names):
    found = period_of(np.array(names, np.int32))
    assert found is None


def test_random_kernels_have_no_period():
    names = np.random.default_rng(1).integers(0, 20, 2000).astype(np.int32)
    assert period_of(names) is None


def test_repeats_last_from_their_first_kernel_to_the_next(tmp_path):
    # The first takes 50 µs, the others 30: k0, k1, k2, each 5 µs long.
    begins = [0, 50, 80, 110]
    events = [kernel(begin + 10 * n, 5, name=f"k{n}") for begin in begins for n in range(3)]
    found = timeline(kineto.load(file(tmp_path, *events)))
    assert (found.period.kernels, found.period.repeats, found.period.share) == (3, 4, 1.0)
    # The last ends with its last kernel, 25 µs after it began.
    assert [step.duration_s for step in found.steps] == pytest.approx([50e-6, 30e-6, 30e-6, 25e-6])
    assert [step.busy_s for step in found.steps] == pytest.approx([15e-6] * 4)
    assert found.usual_step_s == pytest.approx(30e-6)
    assert found.warm_up_s == pytest.approx(20e-6)


def test_marked_steps_come_first_and_have_no_period(tmp_path):
    steps = [call(50 * n, 50, f"ProfilerStep#{n + 3}", cat="user_annotation") for n in range(2)]
    events = [kernel(10 * n, 5, name=f"k{n % 3}") for n in range(12)]
    found = timeline(kineto.load(file(tmp_path, *steps, *events)))
    assert [step.name for step in found.steps] == ["ProfilerStep#3", "ProfilerStep#4"]
    assert found.period is None
    assert found.warm_up_s is None  # two steps say nothing of a usual one


def test_an_ordinary_first_step_is_no_warm_up(tmp_path):
    steps = [call(50 * n, 50 - n, f"ProfilerStep#{n}", cat="user_annotation") for n in range(4)]
    assert timeline(kineto.load(file(tmp_path, *steps))).warm_up_s is None
