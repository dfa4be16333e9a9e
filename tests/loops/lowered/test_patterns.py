"""Which accesses wait for what their loop has found: told from the IR that numba lowers."""

from __future__ import annotations

import numpy as np
import pytest

import rooflab
from rooflab.loops.lowered import count
from rooflab.loops.read.source import read_whole
from rooflab.machines import cache_levels


def in_order(a, b):
    for i in range(a.size):
        if a[i] > 0.5:
            b[i] = 1.0


def by_an_index(a, where, b):
    for i in range(where.size):
        if a[where[i]] > 0.5:
            b[i] = 1.0


def probed(keys, table):
    found = 0
    for key in keys:
        at = key % table.size
        while table[at] != key and table[at] != 0:
            at = (at + 1) % table.size
        found += at
    return found


def searched(a, b):
    low, high = 0, a.size
    while low < high:
        middle = (low + high) // 2
        if a[middle] < b[0]:
            low = middle + 1
        else:
            high = middle
    return low


def followed(a, start):
    at = start
    while a[at] != at:
        at = a[at]
    return at


def turned(a):
    at = 0
    total = 0.0
    while at < a.size // 2:
        total += a[at]
        if a[at] > 0.5:
            at = 2 * at + 2
        else:
            at = 2 * at + 1
    return total


_X = np.linspace(0.0, 1.0, 64)
_ORDER = np.arange(64)


@pytest.mark.parametrize(
    ("fn", "args", "text", "expected"),
    [
        (in_order, (_X, _X.copy()), "a[i]", False),
        (in_order, (_X, _X.copy()), "b[i]", False),
        (by_an_index, (_X, _ORDER, _X.copy()), "a[where[i]]", False),
        (probed, (_ORDER, np.arange(128)), "table[at]", False),
        (searched, (_X, _X), "a[middle]", True),
        (searched, (_X, _X), "b[0]", False),
        (followed, (np.minimum(_ORDER + 1, 63), 0), "a[at]", True),
        (turned, (_X,), "a[at]", True),
    ],
)
def test_a_place_is_decided_where_the_loop_must_have_loaded_something_first(fn, args, text, expected, small):
    source = read_whole(fn)
    values = dict(zip(source.parameters, args, strict=True))
    twin = count.make(fn, source, values, cache_levels.choose(None, small), None)
    found = [each.decided for each in twin.plan.refs if each.text == text]
    # the first test of a while stands before its loop
    assert found
    assert any(found) == expected


def ends(a, starts):
    found = 0
    for start in starts:
        at = start
        while a[at] != at:
            at = a[at]
        found += at
    return found


def test_the_first_step_of_a_chase_is_one_of_it(small):
    rng = np.random.default_rng(0)
    parents = np.minimum(rng.integers(0, 4096, 4096), np.arange(4096))
    report = rooflab.loop(ends, parents, rng.integers(0, 4096, 200), levels=small, timed=False)
    line = next(each for each in report.lines if each.text.startswith("while"))
    assert line.misses["L1"] > 0
    assert line.decided == line.misses
    in_order = next(each for each in report.lines if each.text.startswith("for start"))
    assert in_order.decided == {"L1": 0, "L2": 0, "L3": 0}
