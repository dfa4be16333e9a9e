"""Functions of a file that also uses names which nobody brings: those that reach one are refused, by its name."""

import numpy as np
import pytest

import rooflab
from rooflab.errors import RooflabError
from rooflab.loops.c import absent

SOURCE = """
extern double elsewhere(double x);
extern void report(const char *text);
extern double table[];

void scale(long n, double *a) {
  for (long i = 0; i < n; i++) a[i] = 2.0 * a[i];
}
static double helped(double x) { return elsewhere(x) + 1.0; }
void through(long n, double *a) {
  for (long i = 0; i < n; i++)
    a[i] = helped(a[i]);
}
void guarded(long n, double *a) {
  for (long i = 0; i < n; i++) {
    if (a[i] < 0)
      report("negative");
    a[i] *= 2.0;
  }
}
void looked_up(long n, double *a) {
  for (long i = 0; i < n; i++) a[i] += table[i & 7];
}
"""
IN_SPACES = """
namespace far { double elsewhere(double x); }
extern "C" void scale(long n, double *a) { for (long i = 0; i < n; i++) a[i] *= 2.0; }
void through(long n, double *a) { for (long i = 0; i < n; i++) a[i] = far::elsewhere(a[i]); }
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "part.c"
    path.write_text(SOURCE)
    return path


def test_a_function_that_needs_nothing_from_elsewhere_is_counted_and_timed(file):
    report = rooflab.loop(f"{file}:scale", 1000, np.ones(1000))
    assert report.flop == 1000
    assert report.accesses == 2000
    assert report.run() is not None
    assert any("gives the counted run's results" in each for each in report.checks)


def test_what_calls_it_is_refused_by_its_name_and_line_through_a_helper_too(file):
    with pytest.raises(RooflabError, match=r"part\.c:9: through calls elsewhere, which is neither in its file"):
        rooflab.loop(f"{file}:through", 10, np.ones(10))


def test_a_call_that_is_not_come_by_refuses_nothing(file):
    # each element is looked at, then read and written
    assert rooflab.loop(f"{file}:guarded", 100, np.ones(100)).accesses == 300
    with pytest.raises(RooflabError, match=r"part\.c:17: guarded calls report, which is neither"):
        rooflab.loop(f"{file}:guarded", 100, -np.ones(100))


def test_data_that_is_nowhere_is_refused_by_its_name(file):
    with pytest.raises(RooflabError, match="looked_up needs table, which is neither in its file"):
        rooflab.loop(f"{file}:looked_up", 10, np.ones(10))


def test_what_was_compiled_with_stand_ins_is_found_again_with_them(file):
    first = rooflab.loop(f"{file}:scale", 1000, np.ones(1000), timed=False)
    assert rooflab.loop(f"{file}:scale", 1000, np.ones(1000), timed=False).flop == first.flop
    for _ in range(2):
        with pytest.raises(RooflabError, match="through calls elsewhere"):
            rooflab.loop(f"{file}:through", 10, np.ones(10))


def test_a_linker_that_allows_no_name_to_be_open_is_content_too(file):
    report = rooflab.loop(f"{file}:scale", 100, np.ones(100), cflags="-O2 -Wl,-z,defs")
    assert report.accesses == 200


def test_a_name_of_cpp_is_said_as_the_source_has_it(tmp_path):
    path = tmp_path / "part.cpp"
    path.write_text(IN_SPACES)
    assert rooflab.loop(f"{path}:scale", 100, np.ones(100)).accesses == 200
    with pytest.raises(RooflabError, match=r"part\.cpp:4: through calls far::elsewhere, which is neither"):
        rooflab.loop(f"{path}:through", 100, np.ones(100))


@pytest.mark.parametrize(
    ("errors", "names"),
    [
        ("./lib.so: undefined symbol: other", ["other"]),
        (
            "ld.lld: error: undefined symbol: one\n>>> referenced by x\nld.lld: error: undefined symbol: two",
            ["one", "two"],
        ),
        ("x.o: in function `f': undefined reference to `g'\nundefined reference to `g'", ["g"]),
        ("ld: cannot find -lnothing", []),
    ],
)
def test_names_are_read_from_what_linkers_and_loaders_say(errors, names):
    assert absent.named_in(errors) == names
