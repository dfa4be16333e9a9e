"""Intervals of gains: what is off in both times together, and what is off in one alone."""

from __future__ import annotations

import math

import numpy as np
import pytest

import rooflab
from rooflab.model.program.error_bars import BAR_SIGMAS
from rooflab.model.program.forecast import forecast
from rooflab.remedies.gains import gain
from rooflab.types.setting import Setting


@pytest.fixture(scope="module")
def product():
    return rooflab.op("matmul", (4096, 4096), (4096, 4096), dtype="bf16")


def on(report, machine="h200-sxm", **setting):
    return forecast(report, rooflab.machine(machine), Setting(**{"mode": "graph", **setting}))


def test_nothing_changed_gains_nothing_for_sure(product):
    assert gain(on(product), on(product)) == (0.0, 0.0, 0.0)


def test_the_same_kernels_on_another_bandwidth_are_off_together(product):
    before, after = on(product), on(product, what_if={"compute": 2.0})
    one = gain(before, after)
    spread = float(before.parts.device_spreads[0])
    # One kernel, in both: both times off by the same factor e^±1.28σ, and so is their difference.
    up = math.exp(BAR_SIGMAS * spread)
    assert one.low_s == pytest.approx(one.best_s / up, rel=1e-9)
    assert one.high_s == pytest.approx(one.best_s * up, rel=1e-9)


def test_other_kernels_are_off_by_themselves(product):
    other = rooflab.op("matmul", (4096, 4096), (4096, 4095), dtype="bf16")
    before, after = on(product), on(other)
    one = gain(before, after)
    moves = []
    for each in (before, after):
        time_s, spread = each.report.time_s, float(each.parts.device_spreads[0])
        moves.append(time_s * np.expm1(np.array([-1, 1]) * BAR_SIGMAS * spread))
    # Before faster, after slower: both lessen the gain, as independent errors do.
    assert one.best_s - one.low_s == pytest.approx(math.hypot(moves[0][0], moves[1][1]), rel=1e-6)
    assert one.high_s - one.best_s == pytest.approx(math.hypot(moves[0][1], moves[1][0]), rel=1e-6)


def test_another_machine_is_off_by_itself(product):
    same = gain(on(product), on(product, what_if={"compute": 2.0}))
    other = gain(on(product), on(product, "b200"), other_machine=True)
    assert (other.high_s - other.low_s) / other.best_s > (same.high_s - same.low_s) / same.best_s
