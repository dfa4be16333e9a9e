"""Functions of C: counted as their Python forms are, checked before each access, refused in one line."""

from __future__ import annotations

import importlib.util
import platform
import shutil
import sys

import numpy as np
import pytest

import rooflab
from rooflab.errors import RooflabError
from rooflab.loops.c import compilers, flags, lower
from rooflab.loops.lowered import examine as lowered
from rooflab.machines import cache_levels
from rooflab.types.simulation import Cache

_NONE = "no compiler for C: neither clang nor ziglang (python -m pip install 'rooflab[c]')"
_HAS = any(shutil.which(each) for each in ("clang", "clang-14", "clang-19")) or importlib.util.find_spec("ziglang")
pytestmark = pytest.mark.skipif(not _HAS, reason=_NONE)
CACHES = (Cache(4096, 4, name="L1"), Cache(65536, 8, name="L2"))
SIZES = {
    "copy": 900, "scale": 900, "add": 900, "triad": 900, "stencil": 14, "spmv": 200, "matmul": 64, "search": 500,
    "horner": 300,
}  # fmt: skip


@pytest.fixture(scope="module")
def python_forms(root):
    spec = importlib.util.spec_from_file_location("c_loops", root / "examples" / "c_loops.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["c_loops"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def count(request):
    """The report of a function of kernels.c, not timed."""
    file = request.path.with_name("kernels.c")

    def counted(name, *args, **options):
        return rooflab.loop(f"{file}:{name}", *args, levels=CACHES, timed=False, **options)

    return counted


@pytest.mark.parametrize("name", SIZES)
def test_c_counts_as_its_python_form(root, python_forms, name):
    args = python_forms.args(SIZES[name], name)
    of_c = rooflab.loop(f"{root / 'examples' / 'c_loops.c'}:{name}", *args, levels=CACHES, timed=False)
    of_python = lowered.report(getattr(python_forms, name), args, cache_levels.choose(None, CACHES), time=False)
    for each in (of_c, of_python):
        assert each.complete
    assert of_c.flop_by == of_python.flop_by
    assert (of_c.accesses, of_c.accessed_bytes, of_c.stored_bytes) == (
        of_python.accesses,
        of_python.accessed_bytes,
        of_python.stored_bytes,
    )
    for run in ("simulation", "warm"):
        levels = [getattr(each, run).levels for each in (of_c, of_python)]
        ours, theirs = ([(n.hits, n.misses, n.read_bytes, n.write_bytes) for n in each] for each in levels)
        assert ours == theirs


def test_triad_by_hand(root, python_forms):
    args = python_forms.args(800, "triad")
    report = rooflab.loop(f"{root / 'examples' / 'c_loops.c'}:triad", *args, levels=CACHES, timed=False)
    # a multiply-add is 2 FLOP; 2 loads and a store; 3 arrays of 800 × 8 bytes are 100 lines each
    assert (report.flop, report.accesses, report.simulation.levels[0].misses) == (1600, 2400, 300)
    # three arrays of 6,400 bytes: read once, one written back
    assert report.memory_bytes == 4 * 6400
    assert [(line.line, line.flop, line.accesses) for line in report.lines] == [(23, 1600, 2400)]
    assert [(loop.line, loop.variable, loop.trips) for loop in report.loops] == [(22, "i", 800)]
    assert [each.name for each in report.simulation.levels[0].references] == ["23: b[i]", "23: c[i]", "23: a[i] ="]


def test_helpers_and_variables_of_the_file(count):
    report = count("helpers", np.ones(100), 100)
    # x² + table + sum: 3 FLOP; loads of x and of the table; the helper's product stands in its own line
    assert (report.flop, report.accesses) == (300, 200)
    assert {each.line: each.flop for each in report.lines} == {8: 100, 13: 200}
    assert {each.name for each in report.simulation.levels[0].arrays} == {"x", "table"}
    # 800 bytes of x are 13 lines, the table 2
    assert report.simulation.levels[0].misses == 15


def test_local_arrays_and_the_heap(count):
    report = count("local", np.ones(80), 80)
    # 8 stores, then a load of x, a load and a store of seen for each, one load at the end
    assert report.accesses == 8 + 3 * 80 + 1
    report = count("heap", 64)
    # 64 stores and a load; 512 bytes are 8 lines
    assert (report.accesses, report.simulation.levels[0].misses) == (65, 8)
    assert report.simulation.levels[0].arrays[0].name == "made"
    # t of 1, 2, … 10 numbers, each written once and its last one read
    assert count("vla", 10).accesses == 55 + 10


def test_structures_rows_and_small_types(count):
    kind = np.dtype([("x", "f8"), ("y", "f8"), ("tag", "i4")], align=True)
    report = count("points", np.zeros(20, kind), 20)
    assert (report.accesses, report.accessed_bytes) == (60, 20 * (8 + 8 + 4))
    assert {each.name for each in report.simulation.levels[0].references} == {
        "33: p[i].y", "33: p[i].x =", "33: p[i].tag =",
    }  # fmt: skip
    rows = tuple(np.ones(7) for _ in range(3))
    # the row's pointer and the number for each
    assert count("rows", rows, 3, 7).accesses == 42
    assert count("rows", np.ones((3, 7)), 3, 7).accesses == 42
    report = count("small", np.array([0.25, 0.75, 1.0], np.float32), np.zeros(3, np.uint8), True, 7, 3)
    # 3 comparisons and loads, of two the root, the sum, a load more and a store
    assert {(each.engine, each.dtype): each.count for each in report.flop_by} == {
        ("vector", "fp32"): 5,
        ("special", "fp32"): 2,
    }
    assert report.accesses == 3 + 2 + 2
    # 8 n bytes moved in words of 8
    assert count("copied", np.zeros(10), np.ones(10), 10).accesses == 20


def test_the_compiled_function_gives_the_same(request, python_forms, root):
    file = request.path.with_name("kernels.c")
    report = rooflab.loop(f"{file}:helpers", np.ones(1000), 1000, levels=CACHES)
    assert report.checks == ("the compiled function gives the counted run's results",)
    assert report.time_s is not None
    assert report.time_s > 0
    assert report.core_loops, report.warnings
    assert report.core_loops[0].chain_lines == (13,)
    # x², its sum with the table's number, and the sum of all: 3 operations for each of 1000 numbers
    counted = report.core_loops[0].operations
    assert sum(counted.get(each, 0) for each in ("fp add", "fp multiply", "fp multiply-add")) > 0
    args = python_forms.args(200, "spmv")
    report = rooflab.loop(f"{root / 'examples' / 'c_loops.c'}:spmv", *args, levels=CACHES, cflags="-O1")
    assert report.gathered["L1"] > 0
    assert report.scattered_bytes == 1600
    assert "flags as given: -O1" in report.conventions[0]


@pytest.mark.parametrize(
    ("name", "args", "said"),
    [
        ("over", (np.ones(9), 9), "over: x[i] is out of bounds: element 9 of x is read, which has 9 (0 to 8)"),
        ("heap_over", (8,), "m[i] is out of bounds: written beyond the end of m, or after it was freed"),
        ("local_under", (2,), "element -3 of t is read, which has 4 (0 to 3)"),
        ("after", (8,), "read beyond the end of m, or after it was freed"),
        ("twice", (8,), "twice: frees what malloc did not hand out, or what was freed already"),
        ("null", (None,), "null: x[0] is out of bounds"),
        ("copied", (np.zeros(9), np.ones(10), 10), "copied: a is out of bounds: elements 0 to 9 of a are written"),
        ("rows_over", ((np.ones(512), np.ones(3)), 3), "rows_over: a[1][n] is out of bounds"),
        ("asserts", (2,), "asserts stops, as an assertion fails: void asserts(int n) { assert(n > 3); }"),
        ("divided", (5, 0), "divided divides a whole number by 0, or the least one by -1: int divided"),
        ("divided", (-(2**31), -1), "divided divides a whole number by 0, or the least one by -1: int divided"),
        ("astray", (1.0,), "astray calls through a pointer that leads to no function: double astray(double x)"),
        ("pointed", (None, 1.0), "argument f is a pointer to a function, expected numbers and arrays"),
        ("fib", (5,), "fib calls itself, and recursion is not counted"),
        ("by_value", (1.0,), "argument p is of type struct point, passed by value"),
        ("helpers", (np.ones(3),), "got 1 argument, expected 2: double helpers(const double *x, int n)"),
        ("helpers", (np.ones(3, np.float32), 3), "is an array of float32, expected an array of float64 for const"),
        ("helpers", (np.ones(3), 3.0), "argument n is 3.0 (float), expected a whole number for int n"),
        ("helpers", (np.ones(3), 2**40), "argument n is 1,099,511,627,776, expected what int holds"),
        ("helpers", (np.ones((4, 4))[:, :2], 3), "is a view with gaps"),
        (
            "points",
            (np.ones(3), 3),
            "expected a structured array of 24 bytes an element (x at byte 0, y at byte 8",
        ),
        ("rows", (np.ones(3), 1, 3), "expected rows for double **: a tuple of arrays"),
        ("helper", (np.ones(3), 3), "unknown function 'helper'; did you mean helpers"),
    ],
)
def test_what_is_refused(count, name, args, said):
    with pytest.raises(RooflabError) as raised:
        count(name, *args)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_endless_loops_are_stopped(count):
    report = count("endless", np.zeros(1, np.int32), time_limit_s=0.05)
    assert not report.complete
    assert "line 79" in report.stopped_at
    assert report.accesses > 1000
    assert "the count was stopped after 0.05 s" in report.warnings[0]
    assert not count("silent", 1, time_limit_s=0.05).complete


def test_what_is_not_seen_is_named(count):
    report = count("threads", np.ones(50), 50, cflags="-O2")
    assert report.accesses == 50
    assert "OpenMP pragmas (line 65) are not followed" in report.warnings[0]
    report = count("unseen", np.ones(5), 1)
    assert "what qsort accesses and computes cannot be seen and is not counted" in report.warnings
    report = count("wide", np.ones(5), 5)
    assert report.flop == 0
    assert "what is computed in long double is not counted as FLOP" in report.warnings[0]


def test_calls_through_a_pointer(count):
    report = count("through", np.ones(6), 6)
    # two FLOP each; a load of x and one of the pointer each, which are stored before
    assert (report.flop, report.accesses) == (12, 6 + 6 + 2)
    assert "line 90: a call through a pointer" in report.warnings[0]


def test_virtual_functions_are_counted_and_said(tmp_path):
    file = tmp_path / "v.cpp"
    file.write_text(
        "struct Shape { virtual double area(double x) const = 0; };\n"
        "struct Square : Shape { double area(double x) const override { return x * x; } };\n"
        "struct Circle : Shape { double area(double x) const override { return 3.14 * x * x; } };\n"
        'extern "C" void areas(double *a, int n) {\n'
        "  Shape *kinds[2] = {new Square, new Circle};\n"
        "  for (int i = 0; i < n; i++)\n"
        "    a[i] = kinds[i % 2]->area(a[i]);\n"
        "  delete (Square *)kinds[0];\n"
        "  delete (Circle *)kinds[1];\n"
        "}\n"
    )
    report = rooflab.loop(f"{file}:areas", np.ones(100), 100, advise=False)
    # a square is one product, a circle two
    assert report.flop == 50 * 1 + 50 * 2
    assert any(
        each.startswith("line 7: a call through a pointer, as one of a virtual") for each in report.warnings
    )
    # the core's part has what the pointer leads to
    assert sum(each.operations.get("fp multiply", 0) for each in report.core_loops) == 150


def test_variables_begin_anew(count):
    # what the first run left in a variable of the file is no part of the second
    report = count("counter", np.zeros(1, np.int32))
    assert report.warm.accesses == report.accesses == 5


def test_what_does_not_compile(tmp_path):
    file = tmp_path / "wrong.c"
    file.write_text("void f(int n) {\n  int x = ;\n}\n")
    with pytest.raises(RooflabError, match=r"wrong\.c:2: clang .* cannot compile it: expected expression"):
        rooflab.loop(f"{file}:f", 1)
    file.write_text("void g(double *x);\nvoid f(double *x) { g(x); }\n")
    with pytest.raises(RooflabError, match=r"wrong\.c:2: f calls g, which is neither in its file nor in"):
        rooflab.loop(f"{file}:f", np.ones(1))


def test_flags_of_a_database(tmp_path):
    (tmp_path / "src").mkdir()
    file = tmp_path / "src" / "f.c"
    file.write_text("double f(double *x) { return x[SHIFT]; }\n")
    given = flags.of(file, None)
    assert given.given == flags.DEFAULT
    (tmp_path / "compile_commands.json").write_text(
        '[{"directory": "src", "file": "f.c", "command": "/usr/bin/cc -DSHIFT=2 -O2 -fopenmp -c f.c -o f.o"}]'
    )
    given = flags.of(file, None)
    # vectors of OpenMP are kept, threads are a matter of their own
    assert given.given == ("-DSHIFT=2", "-O2", "-fopenmp-simd")
    assert given.openmp
    assert given.counted == ("-DSHIFT=2",)
    report = rooflab.loop(f"{file}:f", np.ones(3), timed=False, levels=CACHES)
    assert report.accesses == 1
    (tmp_path / "compile_commands.json").write_text("{")
    with pytest.raises(RooflabError, match="cannot be read as a compilation database"):
        flags.of(file, None)


def test_cpp_and_ir(tmp_path):
    file = tmp_path / "f.cpp"
    file.write_text(
        "template <class T> static T twice(T x) { return x + x; }\n"
        "double f(const double *x, int n) {\n"
        "  double s = 0;\n"
        "  double *t = new double[n];\n"
        "  for (int i = 0; i < n; i++) t[i] = twice(x[i]);\n"
        "  for (int i = 0; i < n; i++) s += t[i];\n"
        "  delete[] t;\n"
        "  return s;\n"
        "}\n"
        "#include <vector>\n"
        "double g(const double *x, int n) {\n"
        "  std::vector<double> t(x, x + n);\n"
        "  return t.at(n - 1);\n"
        "}\n"
    )
    report = rooflab.loop(f"{file}:f", np.ones(40), 40, levels=CACHES)
    assert (report.flop, report.accesses) == (80, 120)
    assert report.checks
    # n words read and written, one read
    assert rooflab.loop(f"{file}:g", np.ones(40), 40, levels=CACHES).accesses == 81
    with pytest.raises(RooflabError, match=r"f\.cpp:13: g throws std::out_of_range"):
        rooflab.loop(f"{file}:g", np.ones(40), 0, levels=CACHES)
    ir = tmp_path / "g.ll"
    ir.write_text(
        "define double @g(ptr %x, i64 %n) {\n  %p = getelementptr double, ptr %x, i64 %n\n"
        "  %v = load double, ptr %p, align 8\n  %w = fadd double %v, 1.0\n  ret double %w\n}\n"
    )
    report = rooflab.loop(f"{ir}:g", np.ones(3), 2, levels=CACHES)
    assert (report.flop, report.accesses) == (1, 1)
    assert report.checks
    with pytest.raises(RooflabError, match="out of bounds: element 3 of arg1 is read, which has 3"):
        rooflab.loop(f"{ir}:g", np.ones(3), 3, levels=CACHES)
    ir.write_text('target triple = "aarch64-unknown-linux-gnu"\ndefine void @g() {\n  ret void\n}\n')
    with pytest.raises(RooflabError, match="it is for aarch64-unknown-linux-gnu, and this machine is"):
        rooflab.loop(f"{ir}:g")
    ir.write_text("nonsense")
    with pytest.raises(RooflabError, match="cannot read it"):
        rooflab.loop(f"{ir}:g")


def test_no_compiler(monkeypatch):
    monkeypatch.setattr(compilers, "_candidates", lambda cxx, wanted: [])
    with pytest.raises(RooflabError, match=r"no compiler for C: found neither clang nor ziglang: .*rooflab\[c\]"):
        compilers.find(False)
    newer = compilers.Compiler(("clang",), "clang 99.0.0", 99)
    monkeypatch.setattr(compilers, "_candidates", lambda cxx, wanted: [("clang",)])
    monkeypatch.setattr(compilers, "_clang", lambda command: newer)
    with pytest.raises(RooflabError, match=r"clang 99\.0\.0 is newer than LLVM"):
        compilers.find(False)


def test_signatures(count):
    with pytest.raises(RooflabError) as raised:
        count("small")
    expected = "float small(const float *x, unsigned char *flag, _Bool on, short by, int n)"
    assert expected in str(raised.value)


def test_operations_are_those_of_the_users_own_build(root):
    # the widest registers of SSE2 hold two numbers, and it has no multiply-add
    args = np.zeros(4096), np.ones(4096), np.ones(4096), 3.0, 4096
    plain, wide = (
        rooflab.loop(f"{root / 'examples' / 'c_loops.c'}:triad", *args, levels=CACHES, cflags=each)
        for each in ("-O2 -ftree-vectorize -march=x86-64", "-O3 -march=x86-64-v3")
    )
    done = [
        {kind for loop in each.core_loops for kind, count in loop.operations.items() if count > 100}
        for each in (plain, wide)
    ]
    assert not any("multiply-add" in kind for kind in done[0])
    assert "fp multiply-add vector" in done[1]
    assert plain.flop_by == wide.flop_by


def test_constructors_have_run_before(tmp_path):
    file = tmp_path / "f.cpp"
    file.write_text(
        "#include <vector>\n"
        "static double table[8];\n"
        "static struct Fill { Fill() { for (int i = 0; i < 8; i++) table[i] = i; } } fill;\n"
        "static std::vector<double> weights(8, 3.0);\n"
        "double f(const double *x, int n) {\n"
        "  double s = 0;\n"
        "  for (int i = 0; i < n; i++) s += table[i] * x[i];\n"
        "  return s;\n"
        "}\n"
        "double g(const double *x, int n) {\n"
        "  double s = 0;\n"
        "  for (int i = 0; i < n; i++) s += weights[i] * x[i];\n"
        "  return s;\n"
        "}\n"
    )
    report = rooflab.loop(f"{file}:f", np.ones(8), 8, levels=CACHES)
    assert (report.flop, report.accesses) == (16, 16)
    # the table is full in the counted run too: 0 + 1 + … + 7
    assert report.checks
    assert not report.warnings
    with pytest.raises(RooflabError, match=r"f\.cpp:7: f: table\[i\] is out of bounds: element 8 of table"):
        rooflab.loop(f"{file}:f", np.ones(9), 9, levels=CACHES)
    # what the vector's memory holds is right, and said not to be counted
    report = rooflab.loop(f"{file}:g", np.ones(8), 8, levels=CACHES)
    assert report.checks
    assert any(
        "line 12: 8 accesses to memory of a library's or a constructor's" in each for each in report.warnings
    )


def test_structures_with_pointers(tmp_path):
    file = tmp_path / "s.c"
    file.write_text(
        "struct pair { double *a; long n; };\n"
        "long f(const struct pair *p, long n) { return p->n + n; }\n"
        "double g(struct pair p) { return p.a[0]; }\n"
    )
    pair = np.dtype([("a", "u8"), ("n", "i8")])
    assert rooflab.loop(f"{file}:f", np.zeros(1, pair), 3, levels=CACHES, timed=False).accesses == 1
    for given in ({"a": np.ones(3), "n": 3}, np.array([(1, 3)], pair)):
        with pytest.raises(RooflabError, match=r"holds pointers \(double \*a\) .* struct pair s = \{a, n\};"):
            rooflab.loop(f"{file}:f", given, 3, levels=CACHES)
    with pytest.raises(RooflabError, match="passed by value: expected numbers and pointers"):
        rooflab.loop(f"{file}:g", np.zeros(1, pair), levels=CACHES)


def test_addresses_that_are_written_out(tmp_path):
    file = tmp_path / "a.c"
    file.write_text(
        "#include <stdlib.h>\n"
        "static double t[9];\n"
        "double fixed(const double *a) { t[3] = 2; return t[3] + a[0]; }\n"
        "void wild(double x) { *(double *)0x1234 = x; }\n"
        "double null(void) { return *(double *)0; }\n"
        "void over(void) { abort(); }\n"
        'void assembly(double *a) { __asm__ volatile("nop"); a[0] = 1; }\n'
    )
    # a place in a variable of the file is an access as any other
    assert rooflab.loop(f"{file}:fixed", np.ones(1), levels=CACHES, timed=False).accesses == 3
    for name, args, said in (
        ("wild", (1.0,), "a.c:4: wild: .* is out of bounds: written through address 0x1234"),
        ("null", (), "a.c:5: null: .* is out of bounds: read through a null pointer"),
        ("over", (), "a.c:6: over calls abort"),
    ):
        with pytest.raises(RooflabError, match=said):
            rooflab.loop(f"{file}:{name}", *args, levels=CACHES)
    report = rooflab.loop(f"{file}:assembly", np.zeros(1), levels=CACHES, timed=False)
    assert any("assembly in line 7" in each for each in report.warnings)


def test_long_jumps_and_missing_libraries(tmp_path):
    file = tmp_path / "j.c"
    file.write_text(
        "#include <setjmp.h>\nvoid f(double *a) { jmp_buf b; if (!setjmp(b)) longjmp(b, 1); a[0] = 1; }\n"
        "void g(double *a) { a[0] = 1; }\n"
    )
    with pytest.raises(RooflabError, match=r"j\.c:2: f: .*jumps from function to function are not followed"):
        rooflab.loop(f"{file}:f", np.ones(1), levels=CACHES)
    with pytest.raises(RooflabError, match=r"find.*nope_at_all"):
        rooflab.loop(f"{file}:g", np.ones(1), levels=CACHES, cflags="-O2 -lnope_at_all")


def test_products_are_joined_with_sums_only_where_the_target_has_it():
    call = "  %3 = tail call double @llvm.fmuladd.f64(double %1, double %2, double 1.000000e+00) #4, !dbg !7"
    target = 'target triple = "x86_64-pc-linux-gnu"\n'
    plain = f'{target}{call}\nattributes #0 = {{ "target-features"="+cx8,+sse2" }}'
    assert lower.as_instructions(plain).splitlines()[1:3] == [
        "  %rl.product1 = fmul double %1, %2, !dbg !7",
        "  %3 = fadd double %rl.product1, 1.000000e+00, !dbg !7",
    ]
    joined = plain.replace("+sse2", "+sse2,+fma")
    assert lower.as_instructions(joined) == joined


def test_a_build_without_fma_has_no_chain_of_multiply_adds(root):
    if platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("of x86: others join everywhere")
    source = root / "benchmarks" / "c_kernels.c"
    args = np.ones(2000), np.ones(2000), 2000
    chains = {
        flags: [each.chain for each in rooflab.loop(f"{source}:dot", *args, cflags=flags).core_loops]
        for flags in ("-O2", "-O2 -mfma")
    }
    assert any("fp add" in each for each in chains["-O2"])
    assert not any("fp multiply-add" in each for each in chains["-O2"])
    assert any("fp multiply-add" in each for each in chains["-O2 -mfma"])


def test_constants_whose_bytes_are_no_text(tmp_path):
    source = tmp_path / "least.c"
    # 1e30f is ca f2 49 71: clang writes such bytes as they are into comments of its assembly
    source.write_text(
        "float least(const float *x, int n) {\n"
        "  float best = 1e30f;\n"
        "  for (int i = 0; i < n; i++)\n"
        "    if (x[i] < best)\n"
        "      best = x[i];\n"
        "  return best;\n"
        "}\n"
    )
    x = np.linspace(2.0, 1.0, 100, dtype=np.float32)
    report = rooflab.loop(f"{source}:least", x, 100, levels=CACHES)
    assert report.flop == 100
    assert report.core_loops


def test_each_comparison_of_a_switch_in_c_is_foretold(tmp_path, root):
    if platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("only the assembly of x86 is traced")
    source = tmp_path / "words.c"
    source.write_text(
        "long words(const unsigned char *text, long n) {\n"
        "  long found = 0, lines = 0, inside = 0;\n"
        "  for (long i = 0; i < n; i++) {\n"
        "    unsigned char c = text[i];\n"
        "    if (c == 10) lines++;\n"
        "    if (c == 32 || c == 10 || c == 9) inside = 0;\n"
        "    else if (!inside) { inside = 1; found++; }\n"
        "  }\n"
        "  return found * 1000 + lines;\n"
        "}\n"
    )
    many = 1 << 20  # more than are learnt by heart
    text = np.random.default_rng(0).choice(np.array([32, 101], np.uint8), many)
    report = rooflab.loop(f"{source}:words", text, many, levels=CACHES, advise=False)
    # a coin for each letter, which may be tossed again for the word that begins there
    assert 0.45 * many < sum(each.missed for each in report.core_loops) < many
    ordered = rooflab.loop(f"{source}:words", np.sort(text), many, levels=CACHES, advise=False)
    assert sum(each.missed for each in ordered.core_loops) < 100
