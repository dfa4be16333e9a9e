"""Loops changed: what may be changed, that results stay, that what is not safe is left alone."""

from __future__ import annotations

import ast

import numpy as np
import pytest

from rooflab.loops import understanding
from rooflab.loops.change import arrays, order
from rooflab.loops.compiled import time


def column_sums(a, s):
    for j in range(a.shape[1]):
        for i in range(a.shape[0]):
            s[j] += a[i, j]


def matmul_by_sums(a, b, c):
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            s = 0.0
            for k in range(a.shape[1]):
                s += a[i, k] * b[k, j]
            c[i, j] = s


def moved(a, b):
    for i in range(1, a.shape[0] - 1):
        for j in range(a.shape[1]):
            b[j, i] = a[i, j] + 0.5


def seidel(a):
    for j in range(1, a.shape[1] - 1):
        for i in range(1, a.shape[0] - 1):
            a[i, j] = a[i - 1, j] + a[i, j - 1]


def below_the_diagonal(a, s):
    for j in range(a.shape[1]):
        for i in range(j, a.shape[0]):
            s[j] += a[i, j]


def kept_scalar(a, s):
    last = 0.0
    for j in range(a.shape[1]):
        for i in range(a.shape[0]):
            s[j] += a[i, j] * last
            last = a[i, j]


def two_passes(a, b, c):
    for i in range(a.size):
        b[i] = 2.0 * a[i]
    for i in range(a.size):
        c[i] = b[i] + a[i]


def needs_the_next(a, b, c):
    for i in range(a.size - 1):
        b[i] = 2.0 * a[i]
    for i in range(a.size - 1):
        c[i] = b[i + 1]


def square(*names):
    rng = np.random.default_rng(3)
    return tuple(rng.random((9, 9)) if name == "a" or name == "b" else np.zeros((9, 9)) for name in names)


CASES = {
    "column_sums": (column_sums, lambda: (*square("a"), np.zeros(9))),
    "matmul_by_sums": (matmul_by_sums, lambda: square("a", "b", "c")),
    "moved": (moved, lambda: square("a", "c")),
    "two_passes": (two_passes, lambda: (np.arange(9.0), np.zeros(9), np.zeros(9))),
}


def known(fn, args):
    return understanding.understand(fn, args)


def results(loop):
    """What Python itself makes of the loop."""
    return time.plain_python(loop.source, loop.arguments)


def same(changed, loop):
    return time.verify("changed", results(changed), results(loop)) is None


@pytest.mark.parametrize("name", CASES)
def test_a_changed_loop_gives_the_same_results(name):
    fn, args = CASES[name]
    loop = known(fn, args())
    changes = [one.loop for one in order.exchanged(loop)]
    # Sizes that do not divide the trips leave rests of tiles.
    changes += [one.loop for size in (2, 4, 100) if (one := order.tiled(loop, size)) is not None]
    joined = order.fused(loop)
    changes += [] if joined is None else [joined.loop]
    assert changes
    assert all(same(one, loop) for one in changes)
    assert all(ast.dump(one.source.tree) != ast.dump(loop.source.tree) for one in changes)


def test_the_comparison_of_results_can_fail():
    loop = known(column_sums, (*square("a"), np.zeros(9)))
    tree = ast.parse(ast.unparse(loop.source.tree).replace("+=", "-=")).body[0]
    assert not same(loop._replace(source=loop.source._replace(tree=tree)), loop)


def recurrence(a, s):
    for j in range(a.shape[1]):
        for i in range(a.shape[0]):
            s[0] = s[0] * a[i, j] + 1.0


@pytest.mark.parametrize("fn", [seidel, below_the_diagonal, kept_scalar, recurrence])
def test_a_nest_whose_order_matters_is_left_alone(fn):
    args = square("a") if fn is seidel else (*square("a"), np.zeros(9))
    loop = known(fn, args)
    assert order.exchanged(loop) == []
    assert order.tiled(loop, 4) is None


def test_loops_are_joined_only_where_no_iteration_sees_another():
    loop = known(needs_the_next, (np.arange(9.0), np.zeros(9), np.zeros(9)))
    assert order.fused(loop) is None


def test_arrays_that_share_memory_are_left_alone():
    a = np.zeros((9, 9))
    assert order.tiled(known(moved, (a, a)), 4) is None
    assert order.tiled(known(moved, (a, a.copy())), 4) is not None


def test_exchanged_loops_go_along_rows():
    loop = known(matmul_by_sums, square("a", "b", "c"))
    texts = [one.text for one in order.exchanged(loop)]
    assert texts == ["loops over k, j instead of j, k, outermost first"]
    # What is along rows already has no better order.
    assert order.exchanged(order.exchanged(loop)[0].loop) == []


def test_padded_rows_lie_a_line_further_apart():
    a = np.arange(64.0).reshape(8, 8)
    wider = arrays.padded(a, 64)
    assert wider.strides == (128, 8)  # 8 · 8 bytes of numbers, and 64 more
    assert np.array_equal(wider, a)


def test_in_fp32_all_numbers_are():
    loop = arrays.halved(known(moved, square("a", "c")))
    # a[i, j] + 0.5 would be fp64 if 0.5 stayed a Python number
    kinds = {each.dtype for node in ast.walk(loop.source.tree) for each in loop.value_types.flop(node)}
    assert kinds == {"fp32"}
    assert arrays.halved(loop) is None
