"""Structures given as plain arrays: rows of as many numbers, complex numbers, arrays of std::complex."""

import numpy as np
import pytest

import rooflab
from rooflab.errors import RooflabError

SOURCE = """
typedef struct { double x, y, z; } point;
typedef struct { float p[2], q[2]; } pair;
typedef struct { double re, im; } number;
typedef struct { double x; int n; } mixed;

void shift(long n, point *v, const point *by) {
  for (long i = 0; i < n; i++) { v[i].x += by->x; v[i].y += by->y; v[i].z += by->z; }
}
float work(long n, const pair *v) {
  float s = 0;
  for (long i = 0; i < n; i++) for (int k = 0; k < 2; k++) s += v[i].p[k] * v[i].q[k];
  return s;
}
void conjugate(long n, number *z) { for (long i = 0; i < n; i++) z[i].im = -z[i].im; }
double first(const mixed *m) { return m->x; }
"""
OF_CPP = """
#include <complex>
extern "C" void scale(long n, std::complex<float> *z, float by) {
  for (long i = 0; i < n; ++i) z[i] *= std::complex<float>(by, by);
}
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "rows.c"
    path.write_text(SOURCE)
    return path


def test_rows_of_as_many_numbers_are_structures(file):
    v, by = np.zeros((100, 3)), np.ones(3)
    report = rooflab.loop(f"{file}:shift", 100, v, by, timed=False)
    # of each of three: both are read, one written
    assert (report.flop, report.accesses) == (300, 900)
    # one behind the other in a row too
    assert rooflab.loop(f"{file}:shift", 100, v.reshape(-1), by, timed=False).accesses == 900
    assert rooflab.loop(f"{file}:work", 50, np.ones((50, 4), np.float32), timed=False).flop == 50 * 2 * 2


def test_complex_numbers_are_structures_of_two(file):
    for z in (np.ones(80, complex), np.ones((80, 2))):
        assert rooflab.loop(f"{file}:conjugate", 80, z, timed=False).accesses == 160


def test_rows_of_another_length_or_structures_of_several_kinds_are_refused(file):
    for rows in (np.zeros((100, 4)), np.zeros(301), np.zeros((100, 3), np.float32)):
        with pytest.raises(RooflabError, match=r"argument v is an array of float.*, expected a structured array"):
            rooflab.loop(f"{file}:shift", 100, rows, np.ones(3), timed=False)
    with pytest.raises(RooflabError, match="argument m is an array of float64, expected a structured array"):
        rooflab.loop(f"{file}:first", np.zeros((1, 2)), timed=False)
    with pytest.raises(RooflabError, match=r"of v is (written|read)"):
        rooflab.loop(f"{file}:shift", 101, np.zeros((100, 3)), np.ones(3), timed=False)


def test_complex_numbers_of_cpp_are_those_of_numpy_to_the_last(tmp_path):
    path = tmp_path / "rows.cpp"
    path.write_text(OF_CPP)
    report = rooflab.loop(f"{path}:scale", 64, np.ones(64, np.complex64), 2.0)
    # both halves are read and written, each of 4 bytes
    assert report.accessed_bytes == 64 * 16
    assert any("gives the counted run's results" in each for each in report.checks)
