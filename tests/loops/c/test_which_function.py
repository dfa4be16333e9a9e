"""Which function of a file of C is meant: static and inline ones, those in a namespace, of IR of an older LLVM."""

from __future__ import annotations

import platform

import numpy as np
import pytest

import rooflab
from rooflab.errors import FileError, RooflabError
from rooflab.loops.c import compilers, flags
from rooflab.types.simulation import Cache

CACHES = (Cache(4096, 4, name="L1"), Cache(65536, 8, name="L2"))
DOUBLED = "(double *a, int n) { for (int i = 0; i < n; i++) a[i] *= 2; }\n"
SPACES = f"""
namespace one {{ void doubled{DOUBLED} }}
namespace two {{ void doubled{DOUBLED.replace("*=", "+=")} }}
struct Box {{ void filled(double *a, int n) {{ a[0] = n; }} }};
void boxed(double *a, int n) {{ Box b; b.filled(a, n); }}
#include <vector>
void grown(std::vector<double> &v) {{ v[0] += 1; }}
"""


@pytest.fixture
def flop(tmp_path):
    """The FLOP of a function of a file, of 10 numbers; the file's text is written first."""
    try:
        compilers.find(False)
    except RooflabError as error:
        pytest.skip(str(error))

    def counted(file, text, name, timed=False):
        path = tmp_path / file
        path.write_text(text)
        return rooflab.loop(f"{path}:{name}", np.ones(10), 10, levels=CACHES, timed=timed).flop

    return counted


@pytest.mark.parametrize("how", ["static", "inline", "static inline", "extern inline"])
def test_a_function_is_counted_and_timed_whoever_may_call_it(flop, how):
    # one product for each number, though nothing in the file calls it
    assert flop("f.c", f"{how} void f{DOUBLED}", "f", timed=True) == 10


def test_a_function_of_a_namespace_is_named_with_it(flop):
    # a product by 2, and a sum with 2: one each
    assert flop("f.cpp", SPACES, "one::doubled") == 10
    assert flop("f.cpp", SPACES, "two::doubled") == 10
    with pytest.raises(RooflabError, match=r"f\.cpp: doubled: .*none is meant alone") as caught:
        flop("f.cpp", SPACES, "doubled")
    assert "\n" not in str(caught.value)


def test_what_has_no_address_is_one_line(flop):
    for name, said in (
        ("Box::filled", "or of an object, none is meant alone: add one that calls it"),
        ("one::nothing", r"unknown function 'one::nothing'.*known|did you mean"),
    ):
        with pytest.raises(RooflabError, match=said) as caught:
            flop("f.cpp", SPACES, name)
        assert "\n" not in str(caught.value)


def test_a_vector_is_no_argument(tmp_path, flop):
    with pytest.raises(RooflabError, match="expected 1"):
        flop("f.cpp", SPACES, "grown")
    with pytest.raises(RooflabError, match=r"argument v is an array.*expected a function of numbers and pointers"):
        rooflab.loop(f"{tmp_path / 'f.cpp'}:grown", np.ones(3), levels=CACHES, timed=False)


def test_a_target_is_split_behind_the_file():
    assert flags.named("a/b.cpp:one::two") == ("a/b.cpp", "one::two")
    assert flags.named("b.c:f") == ("b.c", "f")
    assert flags.named("x.py:f") == ("x.py", "f")
    assert flags.named("b.c") == ("", "b.c")


def test_ir_with_the_layout_of_an_older_llvm(tmp_path, flop):
    # without i128:128, which LLVM 18 added: MCJIT ended Python with an assertion
    older = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-f80:128-n8:16:32:64-S128"
    text = (
        'target datalayout = "LAYOUT"\ntarget triple = "x86_64-pc-linux-gnu"\n'
        "define void @f(ptr %a, i32 %n) {\n  %v = load double, ptr %a, align 8\n  %w = fadd double %v, 1.0\n"
        "  store double %w, ptr %a, align 8\n  ret void\n}\n"
    )
    if platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("IR of x86")
    assert flop("f.ll", text.replace("LAYOUT", older), "f", timed=True) == 1
    with pytest.raises(FileError, match="its pointers have 32 bits, and those of this machine 64"):
        flop("f.ll", text.replace("LAYOUT", older.replace("m:e-", "m:e-p:32:32-")), "f")
