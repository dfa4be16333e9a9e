"""Processes and executors: a lost process, an item that fails, a script that its workers do not run again."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor

import pytest

from rooflab.errors import RooflabError
from rooflab.executors import merges, over
from support import fleet_work


def outcomes(function, items, **how):
    with over(**how) as workers:
        return sorted(workers.each(function, items)), workers.notes


def test_every_item_has_its_outcome_and_a_failing_one_loses_no_other():
    found, notes = outcomes(fleet_work.picky, [0, 1, 2], workers=2)
    assert [(one.at, one.value, one.tries) for one in found] == [(0, 0, 1), (1, None, 1), (2, 2, 1)]
    assert [one.failed for one in found] == [None, "ValueError: one\nis too many", None]
    assert notes == []


def test_what_a_lost_process_was_doing_is_done_again(tmp_path):
    found, notes = outcomes(fleet_work.die_once, [(n, tmp_path) for n in range(4)], workers=2)
    assert [one.value for one in found] == [0, 1, 2, 3]
    assert found[1].tries == 2
    assert len(notes) == 1
    assert notes[0].startswith("a process was lost: ")


def test_an_item_that_kills_its_process_each_time_is_given_up_alone():
    found, _ = outcomes(fleet_work.die_at_two, range(4), workers=2)
    assert [one.value for one in found] == [0, 1, None, 3]
    assert found[2].tries == 3
    assert found[2].failed == "its process was lost while at it, 3 times: out of memory, or killed?"


def test_what_cannot_travel_fails_alone():
    found, _ = outcomes(fleet_work.square, [2, lambda: None], workers=1)
    assert found[0].value == 4
    assert "pickle" in found[1].failed


def test_a_script_without_a_guard_is_not_run_by_its_workers(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "print('once')\nfrom rooflab.executors import over\nfrom operator import neg\n"
        "with over(workers=2) as many:\n    print(sorted(one.value for one in many.each(neg, [1, 2])))\n",
        encoding="utf-8",
    )
    said = subprocess.run([sys.executable, script], check=True, capture_output=True, text=True)
    assert said.stdout == "once\n[-2, -1]\n"
    assert said.stderr == ""


def test_any_executor_will_do():
    with ThreadPoolExecutor(2) as executor:
        found, _ = outcomes(fleet_work.square, [1, 2, 3], on=executor)
    assert [one.value for one in found] == [1, 4, 9]


class Breaking(Executor):
    """Does the first item, and breaks."""

    def __init__(self):
        self.asked = 0

    def submit(self, fn, /, *args, **kwargs):
        future = Future()
        self.asked += 1
        if self.asked == 1:
            future.set_result(fn(*args, **kwargs))
        else:
            future.set_exception(BrokenExecutor("a worker is gone"))
        return future


def test_what_a_broken_executor_leaves_is_done_here():
    found, notes = outcomes(fleet_work.square, [1, 2, 3], on=Breaking())
    assert [(one.value, one.tries) for one in found] == [(1, 1), (4, 2), (9, 2)]
    assert notes == ["Breaking broke (BrokenExecutor: a worker is gone): 2 items were done by processes here"]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"on": "head:8786"}, "on: got 'head:8786', expected the address of a Dask scheduler"),
        ({"on": 3}, "on: got 3, expected"),
        ({"workers": 0}, "workers: got 0, expected a whole number above zero"),
        ({"workers": True}, "workers: got True"),
        ({"on": "tcp://127.0.0.1:1", "workers": 2}, "workers: 2, but a Dask cluster knows how many it has"),
    ],
)
def test_bad_workers_are_one_clear_line(how, message):
    with pytest.raises(RooflabError) as caught, over(**how):
        pass
    assert message in str(caught.value)


def test_results_come_together_here_but_on_ranks():
    assert merges(None)
    assert merges("tcp://head:8786")
