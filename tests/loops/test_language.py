"""What cannot be counted is refused by line, with the reason and a way out."""

from __future__ import annotations

import importlib.util
import itertools

import numpy as np
import pytest

import rooflab
from rooflab.errors import RooflabError

_NUMBERS = itertools.count()


@pytest.fixture
def written(tmp_path):
    """A function that puts source text in a file and returns the function `loop` in it."""

    def write(text):
        path = tmp_path / f"given_{next(_NUMBERS)}.py"
        path.write_text("import math\nimport numba\nimport numpy as np\nfrom numba import njit, prange\n" + text)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.loop

    return write


HEAD = "def loop(a, b):\n"  # line 5 of the file


@pytest.mark.parametrize(
    ("body", "line", "said"),
    [
        ("    b[0] = np.sum(a)\n", 6, "the accesses of sum cannot be seen; write its loop"),
        ("    for i in range(3):\n        b[i] = a[i:].sum()\n", 7, "the accesses of sum cannot be seen"),
        ("    for i in range(3):\n        b[:] = 1.0\n", 7, "b[:]: a slice is a loop that cannot be seen"),
        ("    return a * 2\n", 6, "a * 2: arithmetic on the whole array a is a loop that cannot be seen"),
        ("    return -a\n", 6, "-a: arithmetic on the whole array a is a loop that cannot be seen"),
        ("    def inner(x):\n        return x\n    b[0] = 1.0\n", 6, "a function inside the function"),
        (
            "    for x in a:\n        b[0] += x\n",
            6,
            "loop over range(…) and index, such as for i in range(len(a))",
        ),
        ("    for i, x in enumerate(a):\n        b[i] = x\n", 6, "for … in enumerate(a)"),
        ("    b[0] = helper(a[0])\n", 6, "helper is not known, so its accesses"),
        ("    b[0] = print(a[0])\n", 6, "print is not known, so its accesses and FLOP cannot be counted"),
        ("    c = [x for x in range(3)]\n", 6, "a list comprehension"),
        ("    c = np.zeros(3)\n    b[0] = c[0]\n", 6, "the accesses of zeros cannot be seen"),
        ("    try:\n        b[0] = 1.0\n    except ValueError:\n        pass\n", 6, "try: numba cannot follow"),
        ("    b[0] = a @ b\n", 6, "@, a product inside the loop"),
        ("    c = a\n    b[0] = c[0]\n", 6, "an array by another name; use a itself"),
        ("    a = b\n", 6, "an array by another name; use b itself"),
        ("    b[0.5] = 1.0\n", 6, "the index 0.5 is fp64, expected a whole number"),
        ("    b[a] = 1.0\n", 6, "an array as the index"),
        ("    b[0] = a[0, 1]\n", 6, "2 of 1 indices"),
        ("    b[0] = a.T[0]\n", 6, "of an array, shape, size and ndim are known"),
        ("    b[0] = np.sqrt(a)\n", 6, "a whole array in sqrt is a loop that cannot be seen"),
        ("    for i in range(2):\n        b[i] = 1.0\n    else:\n        b[0] = 2.0\n", 6, "for with else"),
        ("    while a[0] > 1:\n        b[0] = 1.0\n    else:\n        b[0] = 2.0\n", 6, "while with else"),
        ("    if (n := 3) > 2:\n        b[0] = n\n", 6, "(:=)"),
        ("    import os\n", 6, "an import inside the function"),
        ("    b[0] = f'{a[0]}'\n", 6, "text: loops compute numbers"),
        ("    _rlx = 1\n    b[0] = _rlx\n", 6, "names that begin with _rl are taken"),
    ],
)
def test_what_cannot_be_counted_is_refused_by_line(written, body, line, said):
    with pytest.raises(RooflabError) as caught:
        rooflab.loop(written(HEAD + body), np.ones(4), np.ones(4))
    message = str(caught.value)
    assert f".py:{line}: loop: " in message
    assert said in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("async def loop(a):\n    a[0] = 1.0\n", "is asynchronous"),
        ("def loop(a, *more):\n    a[0] = 1.0\n", "arguments that are starred"),
        ("TABLE = np.ones(3)\ndef loop(a):\n    a[0] = TABLE[0]\n", "TABLE is an array of the module"),
        ("loop = lambda a: a\n", "got a lambda"),
        ("loop = math.sqrt\n", "got a builtin_function_or_method, expected a plain Python function"),
    ],
)
def test_functions_that_are_no_plain_loops(written, text, said):
    with pytest.raises(RooflabError, match=said):
        rooflab.loop(written(text), np.ones(4))


def test_a_function_without_source_says_so():
    scope = {}
    exec("def loop(a):\n    a[0] = 1.0\n", scope)
    with pytest.raises(RooflabError, match=r"loop: its source cannot be read .*; write it in a file"):
        rooflab.loop(scope["loop"], np.ones(4))


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((np.array([1, "x"], object), 2.0), "argument a is an array of Python objects, expected one of numbers"),
        ((np.array(["x"]), 2.0), "argument a is an array of <U1, expected bool, int8 to int64"),
        ((np.zeros(0), 2.0), r"argument a has no element \(shape \(0,\)\)"),
        ((np.array(3.0), 2.0), "argument a is an array of no dimension"),
        ((np.ones(3, ">f8"), 2.0), "argument a has bytes in the other order"),
        (([1.0, 2.0], 2.0), "argument a is a list, expected a NumPy array or a number"),
        ((3.0, 2.0), "got no array among its arguments"),
        ((np.ones(3),), r"missing a required argument: 's'; expected loop\(a, s\)"),
    ],
)
def test_arguments_that_a_loop_cannot_take(written, args, said):
    with pytest.raises(RooflabError, match=said):
        rooflab.loop(written("def loop(a, s):\n    for i in range(len(a)):\n        a[i] *= s\n"), *args)


def test_what_numba_cannot_compile_names_the_line(written):
    # Two kinds of value in one name: numba types a name once.
    text = "def loop(a, b):\n    for i in range(3):\n        b[i] = int(a[i]) << a[i]\n"
    with pytest.raises(RooflabError) as caught:
        rooflab.loop(written(text), np.ones(4), np.ones(4))
    assert "loop: numba cannot compile it" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_access_out_of_bounds_names_array_index_and_loop_variables(kernels):
    with pytest.raises(RooflabError) as caught:
        rooflab.loop(kernels.past_the_end, np.zeros(10))
    assert "a[i + j] is out of bounds at i = 8, j = 2: index 10 of axis 0 of a, which has 10 elements" in str(
        caught.value
    )
    assert ".py:" in str(caught.value)


def test_a_loop_that_does_not_end_gives_partial_counts_marked(kernels, small):
    report = rooflab.loop(kernels.for_ever, np.ones(4), levels=small, limit_s=0.3)
    assert not report.complete
    assert report.accesses > 1000
    assert report.simulation.complete is False
    assert report.runs == ()
    assert "stopped after 0.3 s" in report.warnings[0]
    # each trip: the test reads and compares, the body reads, adds and writes
    assert report.accesses == pytest.approx(3 * report.loops[0].trips, abs=4)


def test_prange_aliases_and_compiled_functions_are_understood(written, small):
    text = (
        "from numpy import sqrt as root\n@njit\ndef loop(a, b):\n    for i in numba.prange(a.size):\n"
        "        b[i] = root(a[i]) + math.pi\n"
    )
    report = rooflab.loop(written(text), np.ones(4), np.zeros(4), levels=small)
    assert {each.engine: each.count for each in report.flop_by} == {"vector": 4, "special": 4}
    assert report.parallel == "prange as written"
