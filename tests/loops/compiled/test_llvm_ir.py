"""What the compiler left, read from LLVM IR; and why a loop is not vectorised."""

from __future__ import annotations

import numpy as np
import pytest

import rooflab
from rooflab.loops.compiled import llvm_ir

IR = """
define i32 @_ZN6serialE(ptr %a, i64 %n) {
entry:
  %guard = icmp sgt i64 %n, 0
  br i1 %guard, label %outer, label %done

outer:                                            ; preds = %entry, %latch
  %i = phi i64 [ 0, %entry ], [ %i1, %latch ]
  %seen = load i64, ptr %a, align 8
  br label %vector.body

vector.body:                                      ; preds = %outer, %vector.body
  %k = phi i64 [ 0, %outer ], [ %k1, %vector.body ]
  %p = getelementptr double, ptr %a, i64 %k
  %v = load <4 x double>, ptr %p, align 8
  %w = load <4 x double>, ptr %a, align 8
  %x = fmul <4 x double> %v, %w
  %y = fadd <4 x double> %x, %w
  store <4 x double> %y, ptr %p, align 8
  %k1 = add i64 %k, 4
  %stop = icmp eq i64 %k1, %n
  br i1 %stop, label %scalar, label %vector.body, !llvm.loop !1

scalar:                                           ; preds = %vector.body, %scalar
  %s = load double, ptr %a, align 8
  %t = call double @exp(double %s)
  store double %t, ptr %a, align 8
  br i1 %guard, label %latch, label %scalar

latch:                                            ; preds = %scalar
  %i1 = add i64 %i, 1
  br i1 %guard, label %outer, label %done

done:                                             ; preds = %entry, %latch
  ret i32 0
}
"""


def test_innermost_loops_are_found_and_counted():
    vector, scalar = llvm_ir.inner_loops(IR, "serial")
    assert (vector.lanes, vector.loads, vector.stores) == (4, 2, 1)
    assert (vector.load_bytes, vector.store_bytes, vector.flop) == (64, 32, 8)
    assert (scalar.lanes, scalar.loads, scalar.stores, scalar.calls) == (1, 1, 1, ("exp",))
    assert llvm_ir.main_loop((vector, scalar)) is vector


def test_no_loop_is_none():
    assert llvm_ir.inner_loops("define void @serial() {\n  ret void\n}\n", "serial") == ()
    assert llvm_ir.main_loop(()) is None


def test_a_vectorised_loop(kernels, small):
    report = rooflab.loop(kernels.triad, np.zeros(999), np.ones(999), np.ones(999), 2.0, levels=small)
    code = report.code
    assert code.vectorised
    assert code.why_not is None
    # whatever the width: two loads for each store, two FLOP an element
    assert code.loads == 2 * code.stores
    assert (code.read_bytes, code.write_bytes) == (2 * 8 * 999, 8 * 999)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("matmul", "the sum in acc keeps its order, as rounding depends on it; njit(fastmath=True)"),
        ("smoothed", "an iteration needs the one before: iterations of the loop over i may meet in y"),
        ("decided_by_data", "how often it runs is decided while it runs"),
    ],
)
def test_why_a_loop_is_not_vectorised(kernels, small, name, said):
    report = rooflab.loop(getattr(kernels, name), *kernels.made(name), levels=small)
    assert not report.code.vectorised
    assert said in report.code.why_not


@pytest.mark.slow
def test_functions_without_an_instruction_are_calls(kernels, small):
    code = rooflab.loop(kernels.roots, np.ones(9), np.ones(9), levels=small).code
    assert "exp" in code.calls


@pytest.mark.slow
def test_a_sum_in_a_register_leaves_the_loads_alone(kernels, small):
    report = rooflab.loop(kernels.matmul_in_memory, *kernels.made("matmul_in_memory"), levels=small)
    n, m = 9, 13
    # c[i][j] is read and written in the source's innermost loop; the compiler keeps it in a register or not,
    # and a and b are read every time.
    assert report.accessed_bytes == 4 * 8 * n * n * m
    assert report.code.read_bytes >= 2 * 8 * n * n * m
    assert report.code.chain == n * n * m
