"""What a user reads where a loop cannot be compiled, or its file not imported."""

from __future__ import annotations

import inspect
import sys
import warnings

import numpy as np
import pytest

import rooflab
from rooflab.errors import RooflabError
from rooflab.loops.read import source


def complex_store(a, b):
    for i in range(a.shape[0]):
        b[i] = a[i] + 1j


def test_numbas_refusal_names_the_line_of_the_source(small):
    line = inspect.getsourcelines(complex_store)[1] + 2
    with pytest.raises(RooflabError) as caught:
        rooflab.loop(complex_store, np.ones(9), np.ones(9), levels=small)
    said = str(caught.value)
    assert f"test_refusals.py:{line}: complex_store: numba cannot compile it at 'b[i] = a[i] + 1j'" in said
    assert said.endswith("a complex128 cannot be stored in an array of float64")
    assert "\n" not in said


def named_str(a):
    for i in range(a.shape[0]):
        a[i] = len(str(i))


def test_names_of_python_are_not_asked_of_numpy(small):
    # np.str warns of its end when it is asked for
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert source.read(named_str).modules["str"] == "str"


@pytest.mark.parametrize(
    ("library", "said"),
    [
        ("jax", "needs jax: python -m pip install 'rooflab[jax]'"),
        ("nowhere_to_be_found", "No module named 'nowhere_to_be_found'"),
    ],
)
@pytest.mark.parametrize("words", [("loop", "--n", "5"), ("analyze",)], ids=lambda words: words[0])
def test_a_file_that_imports_what_is_not_installed(refused, tmp_path, monkeypatch, library, said, words):
    # None in sys.modules: as if it were not installed
    if library == "jax":
        monkeypatch.setitem(sys.modules, library, None)
    path = tmp_path / "asks.py"
    path.write_text(f"import {library}\n\ndef f(a):\n    a[0] = 1.0\n", "utf-8")
    line = refused(words[0], f"{path}:f", *words[1:])
    assert said in line
    assert f"{path}" in line


def halves(a, low, high):
    if high - low < 2:
        return a[low]
    middle = (low + high) // 2
    return halves(a, low, middle) + halves(a, middle, high)


def calls_halves(a):
    return halves(a, 0, a.size)


def even(n):
    return True if n == 0 else odd(n - 1)


def odd(n):
    return False if n == 0 else even(n - 1)


def calls_even(a):
    for i in range(a.size):
        a[i] = even(i)


def yields(a):
    for x in a:
        yield 2.0 * x


def starred(*arrays):
    for i in range(arrays[0].size):
        arrays[1][i] = arrays[0][i]


def opens(a):
    for i in range(a.size):
        with open("x") as file:
            a[i] = len(file.read())


def without_body(x):
    return x.nothing()


def calls_without_body(a):
    for i in range(a.size):
        a[i] = without_body(a[i])


@pytest.mark.parametrize(
    ("fn", "args", "said"),
    [
        (halves, (np.ones(4), 0, 4), "halves: calls itself: recursion is not counted; write it as a loop"),
        (calls_halves, (np.ones(4),), "halves: calls itself"),
        (calls_even, (np.ones(4),), "odd: calls even, which called it: recursion is not counted"),
        (yields, (np.ones(4),), "yields: it is a generator"),
        (starred, (np.ones(4), np.ones(4)), r"starred: \*arrays is starred, expected arguments by name"),
        (opens, (np.ones(4),), "opens: numba cannot compile it at .*construct is not supported "),
        (calls_without_body, (np.ones(4),), "Unknown attribute 'nothing' of type float64$"),
        (5, (np.ones(4),), 'got a int, expected a Python function, or one of C in a file: "kernel.c:triad"'),
    ],
)
def test_what_can_never_be_counted_is_refused_in_a_line(small, fn, args, said):
    with pytest.raises(RooflabError, match=said) as caught:
        rooflab.loop(fn, *args, levels=small)
    assert "\n" not in str(caught.value)


def picked(a, k):
    return a[k]


def picks(a):
    total = 0.0
    for i in range(a.size):
        total += picked(a, 2 * i)
    return total


def short_row(a, b):
    for i in range(a.shape[0]):
        b[i, 1:] = a[i, :]


class Column:
    """As a column of pandas or Polars: it says how it becomes an array."""

    def to_numpy(self):
        return np.ones(3)


def test_what_can_become_an_array_is_refused_with_how(small):
    with pytest.raises(RooflabError, match=r"argument a is a Column, .* tuples of them: a\.to_numpy\(\)$"):
        rooflab.loop(named_str, Column(), levels=small)


def test_an_access_out_of_bounds_in_a_helper_names_the_line_that_calls_it(small):
    line = inspect.getsourcelines(picks)[1] + 3
    said = r"total \+= picked\(a, 2 \* i\) at i = 2"
    with pytest.raises(RooflabError, match=rf":{line}: picks: out of bounds in what it calls: {said}"):
        rooflab.loop(picks, np.ones(4), levels=small)


def test_rows_that_do_not_fit_name_their_line_and_trip(small):
    line = inspect.getsourcelines(short_row)[1] + 2
    with pytest.raises(
        RooflabError, match=rf":{line}: short_row stops with ValueError: shapes differ: b\[i, 1:\] = "
    ):
        rooflab.loop(short_row, np.ones((4, 5)), np.ones((4, 5)), levels=small)


def two_results(a):
    total = 0.0
    for x in a:
        total += x
    return total, 2.0 * a


def test_results_of_different_shapes_are_compared_one_by_one(small):
    report = rooflab.loop(two_results, np.ones(4), levels=small)
    assert "the compiled function gives the counted run's results" in report.checks


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("    raise ValueError('no data')\n", "ValueError: no data"),
        ("    raise SystemExit(3)\n", "it ended the program by sys.exit(3)"),
        ("    return None\n", "f_args returned nothing, expected the arguments of f in order: a tuple"),
        ("    return {'a': 1.0}\n", "f_args returned a dict, expected the arguments of f in order: a tuple"),
        ("    yield 1.0\n", "f_args returned a generator, expected the arguments of f in order: a tuple"),
    ],
)
def test_a_function_that_makes_no_arguments_is_named(refused, tmp_path, body, said):
    path = tmp_path / "makes.py"
    path.write_text(f"def f(a):\n    a[0] = 1.0\n\ndef f_args(n=9):\n{body}", "utf-8")
    line = refused("loop", f"{path}:f")
    assert said in line
    assert f"{path}" in line
