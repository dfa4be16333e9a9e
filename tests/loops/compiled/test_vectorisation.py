"""Why loops are not vectorised: the compiler's remarks on loops of each kind, in plain words."""

from __future__ import annotations

import inspect
import math
import sys

import numpy as np
import pytest

import rooflab
from rooflab.loops.compiled import remarks
from rooflab.loops.compiled.remarks import Remark


def nine(a, b, place, count, t):
    """Nine loops that LLVM leaves as they are; the number in each comment is looked up below."""
    s = 0.0
    for i in range(a.shape[0]):  # 1
        s += a[i]
    for i in range(a.shape[0]):  # 2
        a[i] = b[place[i]]
    for i in range(place.shape[0]):  # 3
        count[place[i]] += 1
    for i in range(1, a.shape[0]):  # 4
        a[i] = a[i - 1] * 0.5 + a[i]
    low = a[0]
    for i in range(a.shape[0]):  # 5
        low = min(low, a[i])
    k = 0
    while k < a.shape[0] and a[k] > t:  # 6
        a[k] = a[k] * 0.5
        k += 1
    for i in range(a.shape[0]):  # 7
        if a[i] > 3.0:
            break
        b[i] = a[i]
    for i in range(place.shape[0]):  # 8
        count[i] = place[i] // 3
    for i in range(a.shape[0]):  # 9
        b[i] = math.erf(a[i])
    return s + low


REASONS = (
    (1, "the sum in s keeps its order"),
    (2, "b[place[i]]: data decide which element it loads (a gather)"),
    (3, "count[place[i]]: data decide where it stores"),
    (4, "an iteration needs the one before: iterations of the loop over i may meet in a"),
    (5, "an iteration needs the one before: low is carried"),
    (6, "how often it runs is decided while it runs"),
    (7, "how often it runs is decided while it runs"),
    (8, "the compiler could, and estimates that vectors would be no faster: line"),
    (9, "it calls a function which has no vector version"),
)


def branched(a, b):
    for i in range(a.shape[0]):
        if a[i] > 0.5:
            b[i] = a[i] * 2.0


def strided_store(a, b):
    for i in range(b.shape[0]):
        a[3 * i] = b[i] * 2.0


def blocks(a, b, t):
    for ii in range(0, a.shape[0], t):
        for i in range(ii, min(ii + t, a.shape[0])):
            b[i] = a[i] * 2.0


def column(a, b):
    for j in range(a.shape[1]):
        for i in range(a.shape[0]):
            b[i, j] = a[i, j] * 2.0


def made():
    place = np.random.default_rng(0).integers(0, 90, 90)
    return np.linspace(0, 1, 90), np.ones(90), place, np.zeros(90, int), 0.5


@pytest.fixture(scope="module")
def why_not(small):
    return rooflab.loop(nine, *made(), levels=small).code.why_not


@pytest.mark.slow
@pytest.mark.parametrize(("number", "said"), REASONS)
def test_each_loop_has_its_own_reason(why_not, number, said):
    lines, first = inspect.getsourcelines(nine)
    line = first + next(n for n, text in enumerate(lines) if text.rstrip().endswith(f"# {number}"))
    assert f"line {line}: {said}" in why_not


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fn", "args"),
    [(branched, (np.ones(99), np.ones(99))), (strided_store, (np.ones(300), np.ones(99)))],
    ids=["branch", "stride"],
)
def test_branches_and_strided_stores_can_be_vectorised(small, fn, args):
    code = rooflab.loop(fn, *args, levels=small).code
    assert code.vectorised == (code.why_not is None)
    # Whether scattered stores are worth it is the compiler's estimate for the CPU at hand.
    assert code.vectorised or (fn is strided_store and "a[3 * i] moves by more than one element" in code.why_not)


@pytest.mark.slow
def test_a_version_that_cannot_run_counts_as_none(small):
    code = rooflab.loop(column, np.ones((9, 9)), np.ones((9, 9)), levels=small).code
    assert not code.vectorised
    assert "b[i, j] moves by more than one element with i; swap the loops" in code.why_not
    assert "there is a vectorised version" in code.why_not


def binned(x, bins):
    for i in range(x.shape[0]):
        k = int(x[i] * 9.0)
        bins[k] += 1


@pytest.mark.slow
def test_a_place_that_data_decide_by_way_of_a_name(small):
    code = rooflab.loop(binned, np.linspace(0, 1, 50), np.zeros(10, int), levels=small).code
    assert "bins[k]: data decide where it stores" in code.why_not


@pytest.mark.slow
def test_without_a_python_to_ask_the_reason_is_a_likely_one(small, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    code = rooflab.loop(running, np.ones(50), levels=small).code
    assert "likely, as an iteration needs the one before: " in code.why_not


def running(a):
    for i in range(1, a.shape[0]):
        a[i] = a[i - 1] * 0.25 + a[i]


PRINTED = """\
remark: <unknown>:0:0: loop not vectorized: cannot identify array bounds
remark: other.py:3:1: loop not vectorized: call instruction cannot be vectorized
remark: loop.py:11:1: loop not vectorized: unsafe dependent memory operations in loop. Use #pragma clang loop …
Backward loop carried data dependence. Memory location is the same as accessed at loop.py:11:1
remark: loop.py:10:1: loop not vectorized
remark: loop.py:11:1: loop not vectorized: unsafe dependent memory operations in loop. Use #pragma clang loop …
remark: loop.py:14:1: the cost-model indicates that interleaving is not beneficial
remark: loop.py:15:1: the cost-model indicates that vectorization is not beneficial
"""


def test_remarks_on_the_file_are_read_once_with_lines_of_the_source():
    assert remarks.parse(PRINTED, "/somewhere/loop.py", {11: 4, 15: 8}) == [
        Remark(4, "unsafe dependent memory operations in loop"),
        Remark(8, "the cost-model indicates that vectorization is not beneficial"),
    ]
