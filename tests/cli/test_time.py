"""`rooflab time`: where the arguments come from, what is printed and written, errors of one line."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from rooflab.cli import time_target
from rooflab.errors import RooflabError

PROGRAM = """
import time
import numpy as np

def add(a, b):
    return a + b

def add_args(n=10, seed=1):
    return np.ones(n), np.ones(n) * seed

def args(n=5):
    return {"a": 1, "b": n}

def other(a, b):
    return a

def alone():
    return sum(range(1000))

def pair():
    return np.exp, np.ones(100)

def fails(a=1):
    raise ValueError("bad weather")

def needs(first, second=2):
    return first

def leaves():
    raise SystemExit(3)

def for_ever():
    while True:
        pass

async def main():
    pass

one = 1
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("programs") / "program.py"
    path.write_text(PROGRAM, encoding="utf-8")
    return path


def rooflab(*arguments, **more):
    words = [sys.executable, "-m", "rooflab", "time", *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, timeout=120, check=False, **more)


def test_arguments_come_from_the_functions_own_maker_then_the_files_then_none(program):
    own = time_target.load(f"{program}:add", None, 7, {"seed": 3})
    assert own.args[0].shape == (7,)
    assert own.args[1][0] == 3
    common = time_target.load(f"{program}:other", None, 7, {})
    assert (common.args, common.kwargs) == ((), {"a": 1, "b": 7})
    assert time_target.load(f"{program}:alone", None, None, {}).args == ()
    paired = time_target.load(f"{program}:pair", None, None, {})
    assert paired.fn.__name__ == "exp"
    assert paired.args[0].shape == (100,)
    foreign = time_target.load("numpy:sort", f"{program}:add_args", 4, {})
    assert foreign.args[0].shape == (4,)


@pytest.mark.parametrize(
    ("name", "maker", "n", "dims", "text"),
    [
        (
            "needs",
            "alone",
            3,
            {},
            r":alone: too many positional arguments: --n gives the first argument of alone\(\)",
        ),
        ("add", None, 3, {"sed": 1}, r":add_args: got an unexpected keyword argument 'sed'"),
        ("alone", None, 3, {}, r"--n is for the function that makes the arguments, and there is none"),
        ("add", "ad_args", None, {}, "ad_args.*did you mean"),
    ],
)
def test_arguments_that_cannot_be_made_are_said(program, name, maker, n, dims, text):
    with pytest.raises(RooflabError, match=text):
        time_target.load(f"{program}:{name}", maker, n, dims)


@pytest.mark.slow
def test_it_is_shown_and_written(program, tmp_path):
    path = tmp_path / "timed.json"
    done = rooflab(f"{program}:add", "--n", 1000, "--limit", 1, "-o", path, "-o", tmp_path / "timed.csv")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("program.py:add: ")
    assert "with cold caches" in done.stdout
    raw = json.loads(path.read_text())
    assert raw["type"] == "TimedCall"
    assert raw["warm"]["median_s"] == raw["time_s"] > 0
    assert (tmp_path / "timed.csv").read_text().splitlines()[1].split(",")[1] == "warm"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("{}:ad",), "unknown name in"),
        (("{}:one",), "one is a int, expected a function"),
        (("{}",), "names no function"),
        (("missing.py:f",), "missing.py: no such file"),
        (("{}:needs", "--args", "none"), "none"),
        (("{}:fails",), "ValueError: bad weather"),
        (("{}:for_ever", "--limit", "1"), "did not return within 1 s"),
        (("{}:leaves",), "it ended the program by sys.exit(3)"),
        (("{}:main",), "returned a coroutine: nothing ran"),
        (("{}:alone", "-o", "x.abc"), "x.abc"),
        (("{}:alone", "--machine", "h200"), "is a GPU"),
        (("{}:alone", "--machine", "no-such-machine"), "no-such-machine"),
    ],
)
def test_bad_input_is_one_line_with_exit_code_2(program, arguments, text):
    done = rooflab(*(one.format(program) for one in arguments))
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert text in done.stderr
