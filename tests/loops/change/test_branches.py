"""Branches that become selects: the same results, and only where both ways may be computed."""

from __future__ import annotations

import ast

import numpy as np
import pytest

from rooflab.errors import RooflabError
from rooflab.loops import examine, understanding
from rooflab.loops.change import branches
from rooflab.machines import cache_levels
from rooflab.types.simulation import Cache


def picked(a, b, s):
    t = 0.0
    n = 0
    for i in range(a.size):
        if a[i] > 0.5:
            t += a[i] * b[i]
        if a[i] > 0.9:
            n += 1
        if b[i] > 0.5:
            s[i] = a[i]
        else:
            s[i] = 2.0 * b[i]
    s[0] = t + n


def guarded(a, b, s):
    for i in range(a.size):
        if i + 1 < a.size:
            s[0] = a[i + 1]
        else:
            s[0] = a[i]


def called(a, b, s):
    for i in range(a.size):
        if a[i] > 0.5:
            s[i] = np.exp(a[i])
        else:
            s[i] = 0.0


ANY = frozenset(range(1, 1000))


def arrays():
    rng = np.random.default_rng(1)
    return rng.random(50), rng.random(50), np.zeros(50)


def run(loop):
    scope = {"np": np}
    exec(compile(ast.Module([loop.source.tree], []), "changed", "exec"), scope)
    values = arrays()
    scope[loop.source.name](*values)
    return values


def test_results_stay_the_same():
    loop = understanding.understand(picked, arrays())
    changed, lines = branches.selected(loop, ANY)
    assert len(lines) == 3
    assert not any(isinstance(node, ast.If) for node in ast.walk(changed.source.tree))
    for got, wanted in zip(run(changed), run(loop), strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_only_the_branches_that_were_asked_for():
    loop = understanding.understand(picked, arrays())
    first = next(node.lineno for node in ast.walk(loop.source.tree) if isinstance(node, ast.If))
    _, lines = branches.selected(loop, frozenset({first}))
    assert lines == (first,)
    assert branches.selected(loop, frozenset()) is None


def test_calls_are_left_where_they_are():
    # exp is no single operation: both ways would cost more
    assert branches.selected(understanding.understand(called, arrays()), ANY) is None


def test_what_a_branch_guards_is_found_by_the_count():
    # a[50] would be read in the last trip
    changed, _ = branches.selected(understanding.understand(guarded, arrays()), ANY)
    caches = cache_levels.choose(None, (Cache(1024, 8, 64, name="L1"),))
    with pytest.raises(RooflabError, match=r"a\[50\]|out of bounds"):
        examine.report(changed, caches, time=False)
