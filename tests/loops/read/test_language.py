"""What cannot be counted is refused by line, with the reason and a way out."""

from __future__ import annotations

import importlib.util
import itertools

import numpy as np
import pytest

import rooflab
from rooflab.errors import RooflabError
from rooflab.loops import examine, understanding
from rooflab.machines import cache_levels

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


def from_source(fn, *args):
    """What is counted from the source alone: where that fails, `rooflab.loop` takes what numba lowers it to."""
    return examine.report(understanding.understand(fn, args), cache_levels.choose(None, None))


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
        ("    b[:] = a\n", 6, "b[:]: a slice is a loop that cannot be seen"),
        (
            "    for i in range(len(a) / 2):\n        b[i] = 1.0\n",
            6,
            "len(a) / 2 is fp64, expected a whole number",
        ),
        ("    b[a[0] > 1.0] = 1.0\n", 6, "the index a[0] > 1.0 is bool, expected a whole number"),
        ("    n, m = a.shape\n    b[0] = n\n", 6, "(n, m) = a.shape: 2 names, and 1 in the shape of a"),
        ("    for x, y in zip(a, b):\n        b[0] = x\n", 6, "for … in zip(a, b): loop over range(…) and index"),
        ("    b[0] = a.item(0)\n", 6, "a.item is not known, so its accesses and FLOP cannot be counted"),
        ("    b[0] = a[0].shape\n", 6, "a[0] is neither an array nor math or numpy"),
        ("    b[0], b[1] = divmod(a[0], 2)\n", 6, "divmod is not known"),
        ("    for i in range(3):\n        yield a[i]\n", 7, "yield: return nothing"),
        ("    while True:\n        b[missing] = a[0]\n", 7, "missing is neither an argument, a local name nor"),
        ("    b[0] = ~a[0]\n", 6, "numba cannot compile it at 'b[0] = ~a[0]': it knows no invert of float64"),
        ("    b[0] = a[0] + 1j\n", 6, "a complex128 cannot be stored in an array of float64"),
        ("    for i in range(0, 3, 0):\n        b[i] = 1.0\n", 6, "range() arg 3 must not be zero"),
        ("    for i in range(4):\n        assert a[i] < 1\n", 7, "loop stops with AssertionError"),
        ("    _rlx = 1\n    b[0] = _rlx\n", 6, "names that begin with _rl are taken"),
    ],
)
def test_what_cannot_be_counted_is_refused_by_line(written, body, line, said):
    with pytest.raises(RooflabError) as caught:
        from_source(written(HEAD + body), np.ones(4), np.ones(4))
    message = str(caught.value)
    assert f".py:{line}: loop" in message
    assert said in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("async def loop(a):\n    a[0] = 1.0\n", "is asynchronous"),
        ("def loop(a, *more):\n    a[0] = 1.0\n", "arguments that are starred"),
        ("TABLE = np.ones(3)\ndef loop(a):\n    a[0] = TABLE[0]\n", "TABLE is an array of the module"),
        ("loop = lambda a: a\n", "got a lambda"),
        ("HALF = np.float16(0.5)\ndef loop(a):\n    a[0] = HALF\n", "loop: HALF is a float16, expected bool"),
        (
            "def outer():\n    def loop(a):\n        a[0] = late\n"
            "    if False:\n        late = 1\n    return loop\nloop = outer()\n",
            "late is neither an argument, a local name nor a number",
        ),
        ("loop = math.sqrt\n", "got a builtin_function_or_method, expected a plain Python function"),
    ],
)
def test_functions_that_are_no_plain_loops(written, text, said):
    with pytest.raises(RooflabError, match=said):
        from_source(written(text), np.ones(4))


def test_a_function_without_source_says_so():
    scope = {}
    exec("def loop(a):\n    a[0] = 1.0\n", scope)
    with pytest.raises(RooflabError, match=r"loop: its source cannot be read .*; write it in a file"):
        rooflab.loop(scope["loop"], np.ones(4))


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((np.array([1, "x"], object), 2.0), "argument a is an array of Python objects, expected one of numbers"),
        ((np.ones(3), 10**30), "argument s is a whole number beyond 64 bits, expected one within, or a float"),
        ((np.ones(3), np.float16(2)), "argument s is a float16, expected bool, int8 to int64"),
        ((np.ones(3), np.ones(3)), r"a\[i\] \*= s: the whole array s in place of a number"),
        ((np.ones(3), None), "argument s is a NoneType, expected a NumPy array or a number"),
        ((np.ones(3, np.float16), 2.0), "argument a is an array of float16, expected bool"),
        ((np.zeros(3, [("x", float), ("y", int)]), 2.0), r"argument a is an array of \[\('x', '<f8'\)"),
        ((np.ma.masked_array([1.0], [True]), 2.0), r"argument a is masked, expected a plain array: a.filled\(0\)"),
        ((np.broadcast_to(1.0, 3), 2.0), r":7: loop: a\[i\] = …: a is read-only, expected .*: a.copy\(\)"),
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


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"time_limit_s": 0}, "time_limit_s is 0, expected a positive number of seconds"),
        ({"time_limit_s": float("nan")}, "time_limit_s is nan, expected a positive number of seconds"),
        ({"time_limit_s": "x"}, "time_limit_s is 'x', expected a positive number of seconds"),
        ({"levels": []}, "levels is empty, expected at least one Cache"),
        ({"levels": [3]}, r"levels\[0\] is 3, expected such as Cache\(32 \* 1024, 8\)"),
        ({"machine": 3}, "machine is 3, expected a Machine, or a name or file of one"),
    ],
)
def test_options_that_make_no_sense(written, options, said):
    with pytest.raises(RooflabError, match=said):
        rooflab.loop(written("def loop(a):\n    a[0] = 1.0\n"), np.ones(3), **options)


def test_arguments_beyond_the_memory_are_refused_before_they_are_copied(written):
    fn = written("def loop(a):\n    a[0] = 1.0\n")
    with pytest.raises(RooflabError, match="its arrays and two copies take 72 B, and 40 B of memory are granted"):
        understanding.understand(fn, (np.ones(3),), granted_bytes=40)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("    b[0] = 1 // (len(a) - 4)\n", "plain Python stops with ZeroDivisionError in line 6"),
        (
            "    for i in range(4):\n        b[i] = math.sqrt(-a[i])\n",
            "plain Python stops with ValueError in line 7",
        ),
        (
            "    if a[0] > 9:\n        q = 1.0\n    b[0] = q\n",
            "plain Python stops with UnboundLocalError in line 8",
        ),
    ],
)
def test_what_only_plain_python_stops_at_is_a_warning(written, small, body, said):
    report = rooflab.loop(written(HEAD + body), np.ones(4), np.ones(4), levels=small)
    assert [said in each and "where the compiled loop goes on" in each for each in report.warnings] == [True]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "why"),
    [
        # numba's prange has no steps, and none of its variables may change
        ("    for i in range(0, 4, 2):\n        b[i] = a[i]\n", "left out: Only constant step size of 1"),
        (
            "    for i in range(4):\n        b[i] = a[i]\n        i += 5\n",
            "left out: Overwrite of parallel loop index",
        ),
        ("    for i in range(4):\n        b[i] = a[i]\n    b[0] = i\n", "i is read after the loop"),
        ("    for i in range(4):\n        x = a[i]\n        b[i] = x\n    return x\n", "x is read after the loop"),
    ],
)
def test_a_loop_that_prange_cannot_take_is_run_on_one_core(written, small, body, why):
    report = rooflab.loop(written(HEAD + body), np.arange(4.0), np.ones(4), levels=small)
    assert why in report.parallel
    assert report.warnings == ()
    assert [run.threads for run in report.runs] == [1, 1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "formats"),
    [
        ("    n, = a.shape\n    for i in range(n):\n        b[i] = a[i] * 2.0\n", {"fp64": 4}),
        ("    for i in range(4):\n        b[i] = (a[i] * 1j).imag\n", {"fp64": 12}),
        ("    for i in range(4):\n        b[i] = a[i] * 2.0 if i % 2 else a[i]\n", {"fp64": 2}),
    ],
)
def test_less_common_python_is_counted(written, small, body, formats):
    # of complex times complex only the imaginary part is asked for: 2 products and a sum
    report = rooflab.loop(written(HEAD + body), np.ones(4), np.ones(4), levels=small)
    assert {each.dtype: each.count for each in report.flop_by} == formats
    assert report.warnings == ()


@pytest.mark.slow
def test_a_number_of_the_module_keeps_its_format(written, small):
    text = "TENTH = np.float32(0.1)\nWIDE = np.float32('inf')\ndef loop(a):\n    for i in range(3):\n"
    report = rooflab.loop(
        written(text + "        a[i] = min(a[i] * TENTH, WIDE)\n"), np.ones(3, "f4"), levels=small
    )
    assert {each.dtype: each.count for each in report.flop_by} == {"fp32": 6}
    assert report.warnings == ()


@pytest.mark.slow
def test_only_the_loops_around_an_access_are_named(written):
    text = "    for j in range(4):\n        b[j] = 1.0\n    for i in range(9):\n        b[i] = a[i]\n"
    with pytest.raises(RooflabError, match=r"a\[i\] is out of bounds at i = 4: index 4 of axis 0 of a"):
        rooflab.loop(written(HEAD + text), np.ones(4), np.ones(4))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        # the body of trip 5, and the test of trip 5, ask for the fifth of four elements
        ("    while True:\n        b[i] = 1.0\n        i += 1\n", r"b\[i\] is out of bounds at trip 5 of while"),
        ("    while a[i] > 0:\n        i += 1\n", r"a\[i\] is out of bounds at trip 5 of while \(line 7\)"),
    ],
)
def test_a_while_says_in_which_trip(written, body, said):
    with pytest.raises(RooflabError, match=said):
        rooflab.loop(written(HEAD + "    i = 0\n" + body), np.ones(4), np.ones(4))


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
    report = rooflab.loop(kernels.for_ever, np.ones(4), levels=small, time_limit_s=0.3)
    assert not report.complete
    assert report.accesses > 1000
    assert report.simulation.complete is False
    assert report.runs == ()
    assert f"stopped after 0.3 s, at trip {report.loops[0].trips:,} of while" in report.warnings[0]
    # each trip: the test reads and compares, the body reads, adds and writes
    assert report.accesses == pytest.approx(3 * report.loops[0].trips, abs=4)


@pytest.mark.slow
def test_prange_aliases_and_compiled_functions_are_understood(written, small):
    text = (
        "from numpy import sqrt as root\n@njit\ndef loop(a, b):\n    for i in numba.prange(a.size):\n"
        "        b[i] = root(a[i]) + math.pi\n"
    )
    report = rooflab.loop(written(text), np.ones(4), np.zeros(4), levels=small)
    assert {each.engine: each.count for each in report.flop_by} == {"vector": 4, "special": 4}
    assert report.parallel == "prange as written"
