"""Arguments of mathematical functions kept as a run gives them, and what longer they take than usual ones."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rooflab.loops.lowered import arguments, core_loops, profile
from rooflab.loops.lowered.ir_text import Instruction
from rooflab.machines.bench.experiments import core_operations


def sines(x, y):
    for i in range(len(x)):
        y[i] = math.sin(x[i])


def powers(x, y):
    for i in range(len(x)):
        y[i] = x[i] ** 2.5


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (
            "%3 = tail call fast double @llvm.pow.f64(double %2, double 1.5), !dbg !3",
            (1, ["double %2", "double 1.5"]),
        ),
        ("%3 = call double @log1p(double noundef %x) #3", (1, ["double %x"])),
        ("%3 = call <8 x double> @llvm.log.v8f64(<8 x double> %2)", (8, ["<8 x double> %2"])),
        (
            "%3 = call <2 x double> @llvm.pow.v2f64(<2 x double> %a, <2 x double> <double 1.0, double 2.0>)",
            (2, ["<2 x double> %a", "<2 x double> <double 1.0, double 2.0>"]),
        ),
        ("%3 = call float @expf(float %x), !dbg !3", (1, ["float %x"])),
    ],
)
def test_a_call_is_taken_apart(text, parts):
    _, lanes, _, given = arguments._parts(Instruction(text, "%3", "call", 0))
    assert (lanes, given) == parts


@pytest.mark.parametrize(
    "text",
    [
        "%3 = call double @llvm.fma.f64(double %a, double %b, double %c)",
        "%3 = call double @llvm.powi.f64.i32(double %a, i32 %b)",
        "%3 = fadd double %a, %b",
    ],
)
def test_what_is_no_such_call_has_no_arguments(text):
    assert arguments._parts(Instruction(text, "%3", text.split()[2], 0)) is None


def test_a_ring_holds_what_a_function_was_called_with_in_order(monkeypatch):
    seen = {}
    monkeypatch.setattr(arguments, "dearer", lambda rings, _: seen.update(rings) or {})
    x = np.random.default_rng(0).random(1000)
    profile.take(sines, (x, np.zeros(1000)))
    ring = seen["call sin fp64"]
    assert ring.counted[0] == 1000
    assert np.array_equal(ring.values[0][:1000], x)


def test_a_ring_holds_the_second_argument_too(monkeypatch):
    seen = {}
    monkeypatch.setattr(arguments, "dearer", lambda rings, _: seen.update(rings) or {})
    profile.take(powers, (np.random.default_rng(0).random(1000), np.zeros(1000)))
    assert seen["call pow fp64"].values[1][:1000].tolist() == [2.5] * 1000


def test_few_arguments_are_repeated_and_fewer_are_not_timed(monkeypatch):
    given = {}
    monkeypatch.setattr(arguments.core_operations, "dearer", lambda each: given.update(each) or {})
    rings = {
        kind: arguments.Ring(np.arange(arguments.KEPT + 64.0)[None], np.array([count]))
        for kind, count in (("call sin fp64", 100), ("call cos fp64", 5), ("call log fp64", 3 * arguments.KEPT))
    }
    arguments.dearer(rings)
    assert sorted(given) == ["call log fp64", "call sin fp64"]
    assert given["call sin fp64"][0].tolist() == [*range(100), *range(28)]
    assert given["call log fp64"][0].tolist() == list(range(arguments.KEPT))
    # of two threads each has half of them
    given.clear()
    arguments.dearer({"call tan fp64": rings["call sin fp64"]._replace(counted=np.array([200]))}, threads=2)
    assert given["call tan fp64"][0].tolist() == [*range(100), *range(28)]


@pytest.mark.parametrize("count", [128, 1 << 14, 1 << 16])
def test_a_turn_of_timing_goes_through_all_arguments(count):
    # four calls a pass
    item = core_operations._called("erf", "fp64", (np.linspace(0.0, 3.0, count),))
    assert item.least * item.operations == count


def test_a_loop_has_what_its_functions_take_of_their_arguments(monkeypatch):
    monkeypatch.setattr(arguments, "dearer", lambda *_: {"call sin fp64": 1.6, "latency call sin fp64": 1.2})
    loops = core_loops.found_in(sines, (np.random.default_rng(0).random(1000), np.zeros(1000)))
    (one,) = [each for each in loops if "call sin fp64" in each.operations]
    assert one.dearer == {"call sin fp64": 1.6, "latency call sin fp64": 1.2}
