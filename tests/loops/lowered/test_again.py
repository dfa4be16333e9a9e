"""Functions counted from IR, asked about again: the same answer without numba, another where anything changed."""

from __future__ import annotations

import json
import subprocess
import sys

import numba
import numpy as np
import pytest

import rooflab
from rooflab.loops import kept
from rooflab.loops.lowered import again, examine
from rooflab.machines.bench.experiments import thread_teams
from rooflab.types.simulation import Cache

CACHES = (Cache(4096, 4, name="L1"), Cache(65536, 8, name="L2"))
USER = """import numpy as np
BY = 2.0
def helper(x):
    return x * BY
def total(a):
    acc = 0.0
    for x in a:
        acc += helper(x)
    return acc
def doubled(a):
    return a * 2.0
def listed(a):
    return [a[0], a[1]]
"""
TEAM = """import numpy as np
from numba import prange
def shifted(a):
    for i in prange(len(a)):
        a[i] = np.array([a[i], 1.0]).sum()
"""
ASK = """import json, sys, importlib.util
import numpy as np
import rooflab
from rooflab.types.simulation import Cache
path, name, n, timed = json.loads(sys.argv[1])
spec = importlib.util.spec_from_file_location("user", path)
module = importlib.util.module_from_spec(spec)
sys.modules["user"] = module
spec.loader.exec_module(module)
caches = (Cache(4096, 4, name="L1"), Cache(65536, 8, name="L2"))
held = np.ones(n + 8)  # where an array begins in a line is part of the question: at its start, in every process
first = -held.ctypes.data % 64 // 8
made = rooflab.loop(getattr(module, name), held[first : first + n], levels=caches, timed=timed)
numbers = made.accesses, sum(each.count for each in made.flop_by), len(made.runs), len(made.core_loops), made.name
print(json.dumps(["numba" in sys.modules, numbers, [each.best_s > 0 for each in made.runs]]))
"""


@pytest.fixture(autouse=True)
def a_program(monkeypatch):
    """What runs is a file, as for every user but one who types; a worker of a parallel test run has none."""
    monkeypatch.setattr(sys.modules["__main__"], "__file__", __file__, raising=False)


@pytest.fixture(autouse=True)
def store(tmp_path, monkeypatch):
    """A store of its own, switched on."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(kept.SWITCH, raising=False)
    return tmp_path


def asked(tmp_path, name, text=USER, n=100, timed=True):
    """Whether numba was imported, counts, and whether each run took time, in a process of its own."""
    (tmp_path / "ask.py").write_text(ASK)
    (tmp_path / "user.py").write_text(text)
    said = json.dumps([str(tmp_path / "user.py"), name, n, timed])
    done = subprocess.run([sys.executable, str(tmp_path / "ask.py"), said], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", ["total", "doubled"])
def test_the_second_answer_is_the_first_without_numba(tmp_path, name):
    first, second = asked(tmp_path, name), asked(tmp_path, name)
    assert [first[0], second[0]] == [True, False]
    assert second[1:] == first[1:]
    assert second[2] == [True, True]


@pytest.mark.skipif(thread_teams.most() < 2, reason="one thread")
def test_what_prange_alone_spreads_runs_on_a_team_again(tmp_path):
    first, second = (asked(tmp_path, "shifted", TEAM, 20_000) for _ in range(2))
    # on one core warm and cold, and on two threads or more
    assert second[2] == first[2]
    assert len(first[2]) >= 3


def test_what_returns_a_list_is_timed_by_numba_and_not_counted_again(tmp_path):
    assert asked(tmp_path, "listed")[1:] == asked(tmp_path, "listed")[1:]


def test_a_helper_or_a_number_of_the_module_or_other_arguments_are_seen(tmp_path):
    untimed = {"timed": False}
    first = asked(tmp_path, "total", **untimed)
    assert asked(tmp_path, "total", **untimed) == [False, first[1], []]
    more = asked(tmp_path, "total", USER.replace("x * BY", "x * BY + 1.0"), **untimed)
    assert more[0]
    assert more[1][1] == first[1][1] + 100
    assert asked(tmp_path, "total", USER.replace("BY = 2.0", "BY = 3.0"), **untimed)[0]
    assert asked(tmp_path, "total", n=101, **untimed)[1][0] == 101


def test_the_switch_and_arguments_without_a_description_ask_numba(tmp_path, monkeypatch):
    calls = []
    done = examine.report
    monkeypatch.setattr(examine, "report", lambda *a, **k: calls.append(1) or done(*a, **k))

    def total(a, word=None):
        acc = 0.0
        for x in a:
            acc += x
        return acc

    values = np.ones(10)
    one = [rooflab.loop(total, values, levels=CACHES, timed=False) for _ in range(2)]
    assert one[0] == one[1]
    assert len(calls) == 1
    monkeypatch.setenv(kept.SWITCH, "0")
    rooflab.loop(total, values, levels=CACHES, timed=False)
    assert len(calls) == 2


@pytest.mark.skipif(numba.get_num_threads() < 2, reason="one thread")
def test_a_team_that_ran_on_one_thread_has_all_of_its_threads_again():
    most = numba.get_num_threads()
    function = numba.njit(parallel=True)(lambda a: a.sum())
    with again.on_one(function, spread=True):
        assert numba.get_num_threads() == 1
    assert numba.get_num_threads() == most
