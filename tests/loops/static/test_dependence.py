"""Which loops may run their iterations at once."""

from __future__ import annotations

import ast
import math

import numba
import numpy as np
import pytest

from rooflab.loops import understanding
from rooflab.loops.compiled import time
from rooflab.loops.static import dependence


def verdict(kernels, name, args=None):
    known = understanding.understand(getattr(kernels, name), kernels.made(name) if args is None else args)
    return dependence.parallel(known)


@pytest.mark.parametrize(
    ("name", "over"),
    [
        ("triad", "i"),
        ("stencil", "i"),
        ("matmul", "i"),
        ("transpose", "i"),
        ("spmv", "i"),
        ("triangle", "i"),
        ("roots", "i"),
        ("blocked", "ii"),  # i stays in the block of ii
        ("change_places", "i"),  # within each time step
    ],
)
def test_independent_iterations_go_over_prange(kernels, name, over):
    args = (np.ones(9), np.ones(9)) if name == "roots" else None
    made = verdict(kernels, name, args)
    assert made.reason == f"over {over}"
    assert "prange(" in ast.unparse(made.tree)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("smoothed", "iterations of the loop over i may meet in y"),  # y[i] of y[i − 1]
        ("histogram", "iterations of the loop over i may meet in count"),
        ("exchanged", "iterations of the loop over i may meet in x"),
        ("cube", "iterations of the loop over i may meet in total"),
        ("chased", "i is carried from one iteration to the next"),
        ("leaves_early", "return in the loop over i ends it"),
        ("decided_by_data", "it has no loop over range"),
    ],
)
def test_dependent_iterations_stay_in_order(kernels, name, said):
    made = verdict(kernels, name)
    assert made.tree is None
    assert said in made.reason


def test_arrays_that_share_memory_stay_in_order(kernels):
    whole = np.arange(40.0)
    made = verdict(kernels, "triad", (whole[:20], whole[10:30], np.ones(20), 2.0))
    assert made.tree is None
    assert "share memory" in made.reason


@pytest.mark.slow
@pytest.mark.parametrize("name", ["matmul", "blocked", "spmv", "change_places"])
def test_prange_gives_the_same_results(kernels, name):
    known = understanding.understand(getattr(kernels, name), kernels.made(name))
    compiled = time.build(known)
    serial = time.run_once(compiled.serial, known.arguments)
    spread = time.run_once(compiled.parallel, known.arguments)
    assert time.verify("prange", spread, serial) is None


@pytest.mark.parametrize(
    ("name", "steered"),
    [("triad", False), ("spmv", False), ("decided_by_data", True), ("chased", False), ("leaves_early", True)],
)
def test_runs_that_steer_themselves_get_fresh_inputs(kernels, name, steered):
    known = understanding.understand(getattr(kernels, name), kernels.made(name))
    assert time.steered_by_data(known.source, known.value_types) is steered


def test_a_wrong_result_is_said():
    wanted = (None, (np.array([1.0, 2.0]),))
    assert time.verify("prange", (None, (np.array([1.0, 2.5]),)), wanted) == (
        "prange: argument 1 differs from the counted run"
    )
    assert time.verify("prange", (None, (np.array([1.0, 2.0 + 1e-12]),)), wanted) is None
    sums = (np.float32(523934.0), ()), (np.float32(524166.5), ())  # of two million numbers, and of halves of them
    assert time.verify("prange", *sums) is not None
    assert time.verify("prange", *sums, summed=1 << 21) is None
    assert time.verify("prange", (3, wanted[1]), (4, wanted[1])) == (
        "prange: its result differs from the counted run"
    )


def test_a_whole_number_that_wrapped_is_said_with_what_it_would_be():
    said = time.verify(time.PLAIN, (math.factorial(30), ()), (math.factorial(30) % 2**64 - 2**64, ()))
    assert said == (
        "plain Python: its result differs from the counted run: a number of 33 digits, -8764578968847253504"
        " counted; compiled whole numbers have 64 bits, Python's as many as they need, NumPy's those of their type"
    )
    assert "-96, 160 counted" in str(time.verify(time.PLAIN, (np.int8(-96), ()), (160, ())))


def test_a_sum_of_fp32_is_compared_as_one():
    def both(x):
        return x[0] * x[1], x[0] > x[1], 2.0 * x.size

    class Given:
        def copied(self):
            return (np.array([0.1, 3.0], np.float32),)

    (first, *others), _ = time.run_once(numba.njit(both), Given())
    assert isinstance(first, np.float32)
    assert others == [False, 4.0]
    assert not isinstance(others[1], np.float32)


@pytest.mark.parametrize(
    ("text", "steered"),
    [
        ("for i in range(len(a)): a[i] += 1.0", False),
        ("n = len(a)\nfor i in range(n // 2): a[i] = a[n - 1 - i]", False),
        ("for i in range(a.size): a[i] += 1.0", False),
        ("for i in range(int(a[0])): a[i] += 1.0", True),
        ("while a[0] > 0: a[0] -= 1.0", True),
    ],
)
def test_how_long_an_array_is_does_not_steer(text, steered):
    body = "\n".join("    " + line for line in text.splitlines())
    tree = ast.parse(f"def f(a):\n{body}").body[0]
    assert time.steered(tree, lambda node: isinstance(node, (ast.Name, ast.Subscript))) is steered
