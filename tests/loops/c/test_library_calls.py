"""Calls of CBLAS and LAPACKE from C: counted by their formulas, derived by hand; what has none is named."""

from __future__ import annotations

import subprocess

import numpy as np
import pytest

import rooflab
from rooflab.errors import RooflabError
from rooflab.loops.c import blas, compilers
from rooflab.types.simulation import Cache

CACHES = (Cache(4096, 4, name="L1"), Cache(65536, 8, name="L2"))
# A library as a linker finds it: loops that nobody here can look into.
LIBRARY = """
void cblas_dgemm(int o, int ta, int tb, int m, int n, int k, double al, const double *a, int la, const double *b,
                 int lb, double be, double *c, int lc) {
  for (int i = 0; i < m; i++) for (int j = 0; j < n; j++) { double s = be ? be * c[i * lc + j] : 0;
    for (int l = 0; l < k; l++) s += al * a[i * la + l] * b[l * lb + j]; c[i * lc + j] = s; } }
double cblas_ddot(int n, const double *x, int ix, const double *y, int iy) {
  double s = 0; for (int i = 0; i < n; i++) s += x[i * ix] * y[i * iy]; return s; }
void cblas_daxpy(int n, double a, const double *x, int ix, double *y, int iy) {
  for (int i = 0; i < n; i++) y[i * iy] += a * x[i * ix]; }
void cblas_dgemv(int o, int t, int m, int n, double al, const double *a, int la, const double *x, int ix,
                 double be, double *y, int iy) {}
void cblas_dtbsv(int o, int u, int t, int d, int n, int k, const double *a, int la, double *x, int ix) {}
int LAPACKE_dpotrf(int o, char u, int n, double *a, int la) { return 0; }
"""
CALLER = """
void cblas_dgemm(int, int, int, int, int, int, double, const double *, int, const double *, int, double, double *,
                 int);
double cblas_ddot(int, const double *, int, const double *, int);
void cblas_daxpy(int, double, const double *, int, double *, int);
void cblas_dgemv(int, int, int, int, double, const double *, int, const double *, int, double, double *, int);
void cblas_dtbsv(int, int, int, int, int, int, const double *, int, double *, int);
int LAPACKE_dpotrf(int, char, int, double *, int);
void product(const double *a, const double *b, double *c, int m, int n, int k) {
  cblas_dgemm(101, 111, 111, m, n, k, 1.0, a, k, b, n, 0.0, c, n);
}
void added(const double *a, const double *b, double *c, int n) {
  cblas_dgemm(101, 111, 111, n, n, n, 1.0, a, n, b, n, 1.0, c, n);
}
void rows(const double *a, const double *x, double *y, int n, int m) {
  for (int i = 0; i < n; i++) y[i] = cblas_ddot(m, a + i * m, 1, x, 1);
}
void steps(double *y, const double *x, long n) { cblas_daxpy(n, 2.0, x, 1, y, 1); }
void turned(const double *a, const double *x, double *y, int m, int n, int how) {
  cblas_dgemv(101, 112, m, n, 1.0, a, n, x, 1, 0.0, y, 1);
}
void either(const double *a, const double *x, double *y, int m, int n, int how) {
  cblas_dgemv(101, how, m, n, 1.0, a, n, x, 1, 0.0, y, 1);
}
void banded(const double *a, double *x, int n) { cblas_dtbsv(101, 121, 111, 131, n, 0, a, 1, x, 1); }
void seldom(double *x, int n, int how) { if (how) cblas_dtbsv(101, 121, 111, 131, n, 0, x, 1, x, 1); }
int rooted(double *a, int n) { return LAPACKE_dpotrf(101, 'L', n, a, n); }
"""


@pytest.fixture(scope="module")
def count(tmp_path_factory):
    """The report of a function of CALLER, linked with LIBRARY."""
    try:
        compiler = compilers.find(False)
    except RooflabError as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("blas")
    (folder / "library.c").write_text(LIBRARY)
    (folder / "caller.c").write_text(CALLER)
    made = [*compiler.command, "-O2", "-shared", "-fPIC", "library.c", "-o", "libours.so"]
    subprocess.run(made, cwd=folder, check=True)
    flags = f"-O2 -L{folder} -lours -Wl,-rpath,{folder}"

    def counted(name, *args, timed=False):
        return rooflab.loop(f"{folder / 'caller.c'}:{name}", *args, levels=CACHES, cflags=flags, timed=timed)

    return counted


def test_a_product_is_counted_by_its_formula_and_says_so(count):
    m, n, k = 6, 10, 4
    report = count("product", np.ones(m * k), np.ones(k * n), np.zeros(m * n), m, n, k, timed=True)
    # a multiplication and an addition for each of m·n·k; A and B read, C written, and only that
    assert report.flop == 2 * m * n * k
    assert (report.accesses, report.stored_bytes) == (m * k + k * n + m * n, 8 * m * n)
    assert report.unseen == ()
    assert any("dgemm cannot be seen: its operands are taken as read" in each for each in report.warnings)
    assert report.runs
    # what is added to was read before
    assert count("added", np.ones(16), np.ones(16), np.zeros(16), 4).accesses == 4 * 16


def test_products_within_a_loop(count):
    n, m = 5, 12
    report = count("rows", np.ones(n * m), np.ones(m), np.zeros(n), n, m)
    # 12 pairs a row, and a store of its sum
    assert (report.flop, report.accesses) == (2 * n * m, n * (2 * m + 1))
    assert {each.line: each.flop for each in report.lines} == {16: 2 * n * m}
    # a number of elements that the call narrows; of 5, 5 of x and y read, y written over
    report = count("steps", np.ones(5), np.ones(5), 5)
    assert (report.flop, report.accesses) == (10, 15)
    # and none, or fewer, do nothing
    assert count("steps", np.ones(5), np.ones(5), -3).flop == 0


def test_which_vector_is_long_follows_from_the_flag(count):
    # Aᵀ·x of 3 × 8: x has 3 numbers, y 8
    given = np.ones(24), np.ones(3), np.zeros(8), 3, 8, 112
    report = count("turned", *given)
    assert (report.flop, report.accesses, report.unseen) == (48, 24 + 3 + 8, ())
    # what only the run says is not guessed
    report = count("either", *given)
    assert (report.flop, report.unseen) == (0, ("cblas_dgemv",))
    assert count("banded", np.ones(4), np.ones(4), 4).unseen == ("cblas_dtbsv",)


def test_a_call_that_never_ran_hides_nothing(count):
    assert count("seldom", np.ones(4), 4, 0).unseen == ()
    assert count("seldom", np.ones(4), 4, 1).unseen == ("cblas_dtbsv",)


def test_a_factorisation_has_lapacks_operations(count):
    n = 7
    # L·Lᵀ: n³/6 + n²/2 + n/3 multiplications (84), n³/6 − n/6 additions (56); read and written over
    report = count("rooted", np.eye(n).ravel(), n)
    assert (report.flop, report.accesses) == (84 + 56, 2 * n * n)


def test_an_operand_that_is_too_short_is_out_of_bounds(count):
    with pytest.raises(
        RooflabError, match=r"caller\.c:10: product: .*elements 0 to 39 of b are read, which has 39"
    ):
        count("product", np.ones(24), np.ones(39), np.zeros(60), 6, 10, 4)


@pytest.mark.parametrize(
    ("call", "flop", "moved"),
    [
        # order, side, triangle, flags; 6 × 5: a triangle of 6 for each of 5 right sides, 6² each
        ("dtrsm(i32 101, i32 141, i32 121, i32 111, i32 0, i32 6, i32 5, double 1, ptr %a, i32 6, ptr %b, i32 5)",
         180, 36 + 60),
        ("dtrsm(i32 101, i32 142, i32 121, i32 111, i32 0, i32 6, i32 5, double 1, ptr %a, i32 6, ptr %b, i32 5)",
         150, 25 + 60),
        # 4·5/2 sums of 3 products
        ("dsyrk(i32 101, i32 121, i32 111, i32 4, i32 3, double 1.0, ptr %a, i32 3, double 0.0, ptr %c, i32 4)",
         60, 12 + 16),
        # of complex numbers a product is 6 and a sum 2
        ("zdotc_sub(i32 9, ptr %x, i32 1, ptr %y, i32 1, ptr %r)", 72, 18),
        ("dznrm2(i32 9, ptr %x, i32 1)", 36, 9),
        ("dcopy(i32 9, ptr %x, i32 1, ptr %y, i32 1)", 0, 18),
        ("drot(i32 9, ptr %x, i32 1, ptr %y, i32 1, double %c, double %s)", 54, 36),
        ("dger(i32 101, i32 3, i32 4, double 1.0, ptr %x, i32 1, ptr %y, i32 1, ptr %a, i32 4)", 24, 3 + 4 + 24),
    ],
)  # fmt: skip
def test_formulas(call, flop, moved):
    name = f"cblas_{call.partition('(')[0]}"
    made = blas.product(name, f"  call void @cblas_{call}, !dbg !1")
    size = lambda factors: int(np.prod([int(each) for each in factors]))  # noqa: E731
    assert sum(each * size(factors) for factors, _, each in made.work) == flop
    assert sum(size(factors) for _, _, factors in made.moved) == moved
    # nothing is made of a call with fewer arguments, nor of a place that is written out
    assert blas.product(name, f"  call void @{name}(i32 3)") is None
    assert blas.product("cblas_ddot", "call double @cblas_ddot(i32 3, ptr null, i32 1, ptr %y, i32 1)") is None
