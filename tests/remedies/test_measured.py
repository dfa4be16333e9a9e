"""Predicted gains against measured ones: models that ran eager, as a CUDA graph and compiled on one H200."""

from __future__ import annotations

import statistics

import pytest
import torch

import rooflab
from support.model.measured import measured
from support.model.torch_models import build

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def pairs():
    """(rule, predicted gain, measured gain), as shares of the eager time."""
    records = {}
    for each in measured("models"):
        one = records.setdefault(each["name"], {})
        if each["mode"] == "forward":
            one |= {"eager": each["eager_ms"], "cuda-graph": each["graph_ms"]}
        elif each["mode"] == "compiled forward":
            # Kernels alone: what `mode="reduce-overhead"` replays.
            one["compile"] = each["kernel_sum_ms"]
    found = []
    for name, times in records.items():
        if "eager" not in times:
            continue
        module, inputs = build(name)
        with torch.no_grad():
            report = rooflab.analyze(module, *inputs, machine="h200-sxm", name=name)
        advice = {one.rule: one for one in report.advice.each}
        for rule in ("cuda-graph", "compile"):
            if rule in times:
                predicted = advice[rule].gain_share if rule in advice else 0.0
                found.append((rule, predicted, 1 - times[rule] / times["eager"]))
    return found


def test_the_sign_is_right(pairs):
    # Below the 2 % that are worth a word nothing is said, and less than a tenth may have been measured.
    assert all(measured_gain > 0 for rule, predicted, measured_gain in pairs if predicted > 0)
    assert all(measured_gain < 0.1 for rule, predicted, measured_gain in pairs if predicted == 0)


@pytest.mark.parametrize("rule", ["cuda-graph", "compile"])
def test_the_size_is_right_within_a_quarter_in_the_median(pairs, rule):
    off = [abs(predicted / gained - 1) for each, predicted, gained in pairs if each == rule and predicted]
    assert len(off) >= 3
    assert statistics.median(off) < 0.25
