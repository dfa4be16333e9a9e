"""A function with its sums in any order, of the IR it was lowered to: as numba's `fastmath` makes it."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from numba import types

from rooflab.loops.compiled import any_order, llvm_ir
from rooflab.loops.lowered import lower

IR = """
define i32 @_ZN6serialE(double %a, double %b, <2 x double> %v) {
  %s = fadd double %a, %b
  %f = fmul fast double %a, %b
  %c = fcmp olt double %s, %f
  %e = call double @exp(double %s)
  %n = call i64 @count(double %s)
  ret i32 0
}

define double @helper(double %a) {
  %s = fadd double %a, %a
  ret double %s
}
"""
ARRAY, NUMBER = types.Array(types.float64, 1, "C"), types.float64


def serial(a, b):
    acc = 0.0
    for i in range(a.size):
        acc += a[i] * b[i]
    return acc


def recurrence(a, b):
    for i in range(1, a.size):
        a[i] = a[i - 1] * b[i]


def noted(function):
    """What was noted while numba compiled `function` for two arrays."""
    with any_order.Noted(function.__name__) as found:
        numba.njit(nogil=True, error_model="numpy")(function).compile((ARRAY, ARRAY))
    return found


def lanes(ir, name):
    return llvm_ir.main_loop(llvm_ir.inner_loops(ir, name)).lanes


def test_arithmetic_of_that_function_alone_is_flagged_and_once():
    own, helper = any_order.in_any_order(IR, "serial").split("define double @helper")
    assert "%s = fadd fast double %a, %b" in own
    assert "%f = fmul fast double %a, %b" in own
    assert "%c = fcmp fast olt double %s, %f" in own
    assert "%e = call fast double @exp(double %s)" in own
    assert "%n = call i64 @count(double %s)" in own
    assert "%s = fadd double %a, %a" in helper


def test_a_sum_is_in_as_many_lanes_as_with_fastmath_of_numba():
    options = {"nogil": True, "error_model": "numpy", "fastmath": True}
    of_numba = lower.compiled_to_ir(serial, (ARRAY, ARRAY), options).library.get_llvm_str()
    found = lanes(noted(serial).optimised(), "serial")
    assert found == lanes(of_numba, "serial") > 1


def test_what_depends_on_the_pass_before_stays_in_one_lane():
    assert lanes(noted(recurrence).optimised(), "recurrence") == 1


def test_only_the_named_function_is_noted_and_numba_compiles_as_before_afterwards():
    with any_order.Noted("another") as found:
        numba.njit(serial).compile((ARRAY, ARRAY))
    assert (found.ir, found.optimised()) == ("", "")
    later = numba.njit(serial)
    assert later(np.ones(5), np.full(5, 2.0)) == 10.0
    assert lanes(later.inspect_llvm((ARRAY, ARRAY)), "serial") == 1


@pytest.mark.parametrize("others", [(ARRAY,), (ARRAY, NUMBER), (types.Array(types.float32, 1, "C"), ARRAY)])
def test_each_choice_of_types_has_a_file_of_its_own_beside_the_module(others):
    first, second = (any_order.place("/tmp/loop_sum_1.py", each) for each in ((ARRAY, ARRAY), others))
    assert first.parent == second.parent
    assert first.name.startswith("loop_sum_1_")
    assert first != second
