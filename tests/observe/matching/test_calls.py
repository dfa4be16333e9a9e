"""Calls as a tree, found for all at once, against a stack that walks through them one by one."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
from hypothesis import given

from rooflab.observe.matching.calls import around, open_at, parents_of
from rooflab.types.trace import NONE, OPERATOR, Calls, Kernels, Launches, Trace

CALLS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(0, 20), st.booleans()), max_size=25)


def trace(rows):
    """Calls of (thread, start, long, operator?), in microseconds, in the order that a trace has."""
    rows = sorted(rows, key=lambda row: (row[0], row[1], -row[2]))
    thread, start, long, operator = (np.array([row[n] for row in rows]) for n in range(4))
    empty = np.empty(0)
    return Trace(
        source="test",
        kernels=Kernels(**dict.fromkeys(Kernels.__struct_fields__, empty)),
        launches=Launches(**dict.fromkeys(Launches.__struct_fields__, empty)),
        calls=Calls(
            name=np.zeros(len(rows), np.int32),
            kind=np.where(operator.astype(bool), OPERATOR, 1).astype(np.int8),
            start_s=start * 1e-6,
            duration_s=long * 1e-6,
            thread=thread.astype(np.int32),
            external=np.zeros(len(rows), np.int64),
            sequence=np.zeros(len(rows), np.int64),
            signature=np.zeros(len(rows), np.int32),
        ),
        names=("x",),
    )


def stack(one):
    """Parents by a stack of open calls."""
    calls, parents, opened = one.calls, [], []
    ends = calls.start_s + calls.duration_s
    for number in range(len(calls)):
        if number and calls.thread[number] != calls.thread[number - 1]:
            opened = []
        while opened and (ends[opened[-1]] <= calls.start_s[number] or ends[opened[-1]] + 1e-9 < ends[number]):
            opened.pop()
        parents.append(opened[-1] if opened else NONE)
        opened.append(number)
    return parents


@given(CALLS)
def test_parents_are_those_of_a_stack(rows):
    one = trace(rows)
    assert parents_of(one).tolist() == stack(one)


@given(CALLS, st.lists(st.tuples(st.integers(0, 3), st.integers(0, 55)), max_size=6))
def test_the_operator_open_at_a_moment_is_an_open_one_around_what_began_last(rows, asked):
    one = trace(rows)
    parents = parents_of(one)
    threads = np.array([thread for thread, _ in asked], np.int32)
    moments = np.array([moment for _, moment in asked], float) * 1e-6
    calls, ends = one.calls, one.calls.start_s + one.calls.duration_s
    for thread, moment, found in zip(threads, moments, open_at(one, threads, moments, parents), strict=True):
        began = [n for n in range(len(calls)) if calls.thread[n] == thread and calls.start_s[n] <= moment]
        at = began[-1] if began else NONE
        while at != NONE and not (calls.kind[at] == OPERATOR and ends[at] >= moment):
            at = stack(one)[at]
        assert found == at


@given(CALLS, st.randoms(use_true_random=False))
def test_the_nearest_wanted_call_around(rows, random):
    one = trace(rows)
    parents = parents_of(one)
    wanted = np.array([random.random() < 0.3 for _ in rows], bool)
    for number, found in enumerate(around(np.arange(len(rows)), parents, wanted)):
        at = number
        while at != NONE and not wanted[at]:
            at = int(parents[at])
        assert found == at
