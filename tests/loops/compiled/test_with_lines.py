"""Functions compiled with the lines of their source: the code that runs is as it is without them."""

from __future__ import annotations

import re

import numba
import numpy as np
import pytest
from numba import types

from rooflab.loops.compiled import llvm_ir, with_lines

ARRAY = types.Array(types.float64, 1, "C")
OPTIONS = {"nogil": True, "error_model": "numpy"}


def scaled(a, b):
    for i in range(a.size):
        b[i] = 2.0 * a[i] + 1.0


@pytest.fixture
def lined():
    return with_lines.with_lines(numba.njit(**OPTIONS)(scaled))


def test_the_ir_of_what_runs_says_the_lines_of_the_loop(lined):
    lined(np.ones(4), np.zeros(4))
    found = with_lines.optimised(lined, (ARRAY, ARRAY))
    assert "scaled" in found.main
    said = {int(each) for each in re.findall(r"!DILocation\(line: (\d+)", found.ir)}
    begun = scaled.__code__.co_firstlineno
    assert {begun + 1, begun + 2} & said


def test_the_loop_has_the_instructions_that_it_has_without_lines(lined):
    lined.compile((ARRAY, ARRAY))
    plain = numba.njit(**OPTIONS)(scaled)
    plain.compile((ARRAY, ARRAY))
    ours = llvm_ir.inner_loops(with_lines.optimised(lined, (ARRAY, ARRAY)).ir, "scaled")
    theirs = llvm_ir.inner_loops(plain.inspect_llvm((ARRAY, ARRAY)), "scaled")
    assert [(each.lanes, each.loads, each.stores, each.instructions) for each in ours] == [
        (each.lanes, each.loads, each.stores, each.instructions) for each in theirs
    ]


def test_results_are_those_of_the_plain_function(lined):
    a, b = np.arange(37.0), np.zeros(37)
    lined(a, b)
    assert b.tolist() == (2.0 * a + 1.0).tolist()


def test_what_was_not_compiled_or_has_no_lines_has_no_ir_of_what_runs(lined):
    assert with_lines.optimised(lined, (ARRAY, ARRAY)) is None
    plain = numba.njit(**OPTIONS)(scaled)
    plain.compile((ARRAY, ARRAY))
    assert with_lines.optimised(plain, (ARRAY, ARRAY)) is None


def test_it_is_done_once(lined):
    flags = lined._compiler._customize_flags
    assert with_lines.with_lines(lined) is lined
    assert lined._compiler._customize_flags is flags
