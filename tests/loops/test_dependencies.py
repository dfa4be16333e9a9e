"""All that a function's answer follows from: the same where nothing changed, another wherever anything did."""

from __future__ import annotations

import importlib.util
import itertools
import sys

import numpy as np
import pytest

from rooflab.loops import dependencies

NUMBERS = itertools.count()
MODULE = """import math
import numpy as np
import numba
{imports}
SIZE = 3
TABLE = np.arange(4.0)

def helper(x):
    return x * 2.0

@numba.njit(fastmath=False)
def compiled(x):
    return helper(x) + SIZE

def made(by):
    def inner(a):
        return a * by
    return inner

within = made(5.0)

def total(a, s=1.0):
    acc = 0.0
    for x in a:
        acc += compiled(x) * TABLE[1] + math.sqrt(s)
    return acc

def other(a):
    return len(a)
"""


@pytest.fixture(autouse=True)
def a_program(monkeypatch):
    """What runs is a file, as for every user but one who types; a worker of a parallel test run has none."""
    monkeypatch.setattr(sys.modules["__main__"], "__file__", __file__, raising=False)


@pytest.fixture
def module(tmp_path):
    """Makes a module of text, with replacements, under the same path."""
    names = []

    def make(*pairs, imports="", name=None):
        text = MODULE.format(imports=imports)
        for old, new in pairs:
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / "user.py"
        path.write_text(text)
        return loaded(path, name or "user_module")

    def loaded(path, name):
        spec = importlib.util.spec_from_file_location(name, path)
        held = importlib.util.module_from_spec(spec)
        sys.modules[name] = held
        names.append(name)
        # not from a cached compilation, which goes by times
        exec(compile(path.read_text(), str(path), "exec"), vars(held))
        import linecache

        linecache.checkcache(str(path))
        linecache.cache.pop(str(path), None)
        return held

    yield make
    for each in names:
        sys.modules.pop(each, None)


def of(held, name="total"):
    said = dependencies.described(getattr(held, name))
    assert said is not None
    return repr(said)


def test_the_same_text_is_described_the_same(module):
    first, second = of(module()), of(module())
    assert first == second


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("SIZE = 3", "SIZE = 4"),
        ("SIZE = 3", "SIZE = 3.0"),
        ("np.arange(4.0)", "np.arange(5.0)"),
        ("x * 2.0", "x * 3.0"),
        ("fastmath=False", "fastmath=1    "),
        ("s=1.0", "s=2.0"),
        ("acc = 0.0", "acc = 1.0"),
        ("math.sqrt(s)", "math.fabs(s)"),
        ("import math", "from numpy import emath as math"),
        ("for x in a:", "for x in a:  # so"),
    ],
)
def test_whatever_changes_in_what_it_uses_changes_it(module, old, new):
    first = of(module())
    assert of(module((old, new))) != first


def test_what_a_closure_holds_is_part_of_it(module):
    assert of(module(), "within") != of(module(("made(5.0)", "made(6.0)")), "within")


def test_an_array_of_the_module_that_was_written_to_changes_it(module):
    held = module()
    first = of(held)
    held.TABLE[2] = 9.0
    assert of(held) != first


def test_another_module_counts_by_what_is_asked_of_it(module, tmp_path):
    (tmp_path / "beside.py").write_text("FACTOR = 2.0\nUNASKED = object()\n")
    sys.path.insert(0, str(tmp_path))
    try:
        use = ("acc += compiled(x)", "acc += beside.FACTOR * compiled(x)")
        held = module(use, imports="import beside")
        first = of(held)
        held.beside.FACTOR = 3.0
        assert of(held) != first
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop("beside", None)


def test_a_loaded_file_that_it_does_not_name_may_tell_numba_what_to_do(module, tmp_path):
    path = tmp_path / "overloads.py"
    path.write_text("X = 1\n")
    spec = importlib.util.spec_from_file_location("overloads", path)
    held = module()
    sys.modules["overloads"] = importlib.util.module_from_spec(spec)
    try:
        first = of(held)
        path.write_text("X = 12\n")
        assert of(held) != first
    finally:
        del sys.modules["overloads"]


@pytest.mark.parametrize("value", [[1, 2], {"a": 1}, object(), np.array([None]), len])
def test_what_has_no_description_leaves_none(module, value):
    held = module()
    held.TABLE = value
    assert (dependencies.described(held.total) is None) == (value is not len)


def test_functions_that_call_each_other_end(module):
    held = module(("return x * 2.0", "return other([x]) if x else 0.0"), ("return len(a)", "return helper(a[0])"))
    assert of(held)


def test_nothing_is_known_of_what_was_typed(module, monkeypatch):
    held = module()
    monkeypatch.delattr(sys.modules["__main__"], "__file__")
    assert dependencies.described(held.total) is None
