"""A function of C that needs further files: each is compiled by itself, and linked."""

import numpy as np
import pytest

import rooflab
from rooflab.errors import FileError, RooflabError

CALLER = """
double limited(double a, double b);
double mean(long n, const double *a);
static double twice(double x) { return 2.0 * x; }
void slopes(long n, const double *q, double *s) {
  for (long i = 1; i < n - 1; i++)
    s[i] = twice(limited(q[i] - q[i - 1], q[i + 1] - q[i]));
}
double centre(long n, const double *a) { return mean(n, a); }
"""
OTHER = """
static double twice(double x) { return x + x + x; }
double limited(double a, double b) { return a * b <= 0 ? 0.0 : (a < b ? a : b); }
double mean(long n, const double *a) {
  double s = 0;
  for (long i = 0; i < n; i++) s += a[i];
  return twice(s) / n;
}
"""
ALONE = """
__attribute__((noinline)) static double cubed(double x) { return x * x * x; }
void cubes(long n, const double *a, double *b) {
  for (long i = 0; i < n; i++) b[i] = cubed(a[i]);
}
"""
FLAGS = "-O2 other.c"


@pytest.fixture
def file(tmp_path):
    (tmp_path / "caller.c").write_text(CALLER)
    (tmp_path / "other.c").write_text(OTHER)
    return tmp_path / "caller.c"


def test_what_another_file_brings_is_counted_timed_and_profiled(file):
    q = np.arange(1000.0) ** 2
    report = rooflab.loop(f"{file}:slopes", 1000, q, np.zeros(1000), cflags=FLAGS)
    # 998 passes: four elements are read, one written; two differences, a product and what it is compared with,
    # a comparison, twice
    assert report.accesses == 998 * 5
    assert report.flop == 998 * (2 + 2 + 1 + 1)
    assert any("gives the counted run's results" in each for each in report.checks)
    assert any("call" in kind for each in report.core_loops for kind in each.operations)
    assert not any("could not be profiled" in each for each in report.warnings)


def test_static_functions_of_the_same_name_stay_those_of_their_files(file):
    report = rooflab.loop(f"{file}:centre", 8, np.ones(8), cflags=FLAGS)
    # eight additions, two of the other file's own helper, a division
    assert report.flop == 8 + 2 + 1
    assert any("gives the counted run's results" in each for each in report.checks)


def test_without_the_file_its_functions_are_missing_and_one_that_is_not_there_is_named(file):
    with pytest.raises(RooflabError, match="slopes calls limited, which is neither in its file"):
        rooflab.loop(f"{file}:slopes", 10, np.ones(10), np.zeros(10), cflags="-O2")
    with pytest.raises(FileError, match=r"elsewhere\.c: no such file, neither beside caller\.c nor here"):
        rooflab.loop(f"{file}:slopes", 10, np.ones(10), np.zeros(10), cflags="-O2 elsewhere.c")


def test_an_error_in_the_other_file_is_said_with_its_line(file):
    (file.parent / "wrong.c").write_text("int f(void) {\n  return;;\n  x\n}\n")
    with pytest.raises(RooflabError, match=r"wrong\.c:\d: clang .* cannot compile it"):
        rooflab.loop(f"{file}:centre", 8, np.ones(8), cflags="-O2 wrong.c")


def test_a_change_of_the_other_file_is_seen(file):
    before = rooflab.loop(f"{file}:centre", 8, np.ones(8), cflags=FLAGS, timed=False)
    (file.parent / "other.c").write_text(OTHER.replace("x + x + x", "x + x"))
    after = rooflab.loop(f"{file}:centre", 8, np.ones(8), cflags=FLAGS, timed=False)
    assert (before.flop, after.flop) == (11, 10)


def test_a_call_of_a_function_of_its_own_that_stays_one_is_profiled(tmp_path):
    path = tmp_path / "alone.c"
    path.write_text(ALONE)
    report = rooflab.loop(f"{path}:cubes", 1000, np.ones(1000), np.zeros(1000))
    assert report.core_loops
    assert not any("could not be profiled" in each for each in report.warnings)


NEWER = """
#include <algorithm>
void limited(long n, const double *a, double *b) {
  for (long i = 0; i < n; i++) b[i] = std::clamp(a[i], 0.0, 1.0);
}
"""


def test_without_flags_cpp_is_of_2017_whatever_the_compiler_takes_by_itself(tmp_path):
    (tmp_path / "newer.cpp").write_text(NEWER)
    target, args = f"{tmp_path / 'newer.cpp'}:limited", (64, np.linspace(-1, 2, 64), np.zeros(64))
    assert rooflab.loop(target, *args).flop == 2 * 64  # two comparisons a number
    with pytest.raises(RooflabError, match=r"newer.cpp:4: .*no member named 'clamp'"):
        rooflab.loop(target, *args, cflags="-O2 -std=c++14")
