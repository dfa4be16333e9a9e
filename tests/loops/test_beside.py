"""Tasks of a copy of this process: done there, left to this one, and never both."""

import os
import threading
import time

import pytest

from rooflab.loops import beside
from rooflab.loops.beside import Beside

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system copies no processes")


@pytest.fixture
def told(tmp_path):
    """A function that makes a task which leaves a file of its name, and where these lie."""

    def task(name, seconds=0.0):
        def run():
            (tmp_path / f"{name} begun").write_text(str(os.getpid()))
            time.sleep(seconds)
            (tmp_path / name).write_text(str(os.getpid()))

        return run

    return task, tmp_path


def test_all_but_the_first_are_done_in_another_process(told):
    task, folder = told
    tasks = {("first",): task("first"), ("second",): task("second"), ("third",): task("third", 0.2)}
    copy = Beside(tasks, ours=[("first",)])
    try:
        _wait_for(folder / "third begun")
        copy.claim(("first",), ("second",), ("third",), ("unknown",))
        assert not (folder / "first").exists()
        for name in ("second", "third"):
            assert int((folder / name).read_text()) != os.getpid()
    finally:
        copy.end()


def test_what_was_not_begun_there_is_ours(told):
    task, folder = told
    copy = Beside({("first",): task("first"), ("long",): task("long", 0.3), ("next",): task("next")})
    try:
        _wait_for(folder / "long begun")
        copy.claim(("next",))
        copy.claim(("long",))
        assert (folder / "long").exists()
        time.sleep(0.1)
        assert not (folder / "next begun").exists()
    finally:
        copy.end()


def test_a_task_that_fails_or_ends_the_copy_holds_nobody_up(told):
    task, folder = told

    def failing():
        raise ValueError("no")

    copy = Beside(
        {("first",): task("first"), ("fails",): failing, ("ends",): lambda: os._exit(3), ("more",): task("more")}
    )
    try:
        for key in ("fails", "ends", "more"):
            copy.claim((key,))
        assert not (folder / "more").exists()
    finally:
        copy.end()


def test_it_stands_still_meanwhile_and_goes_on_after(told):
    task, folder = told
    steps = {(f"{n}",): task(f"{n}", 0.02) for n in range(200)}
    copy = Beside(steps)
    try:
        _wait_for(folder / "3")
        with copy.still():
            time.sleep(0.05)
            before = len(list(folder.iterdir()))
            time.sleep(0.2)
            assert len(list(folder.iterdir())) == before
        time.sleep(0.3)
        assert len(list(folder.iterdir())) > before
    finally:
        copy.end()


def test_the_end_is_at_once_whatever_it_does(told):
    task, folder = told
    copy = Beside({("first",): task("first"), ("long",): task("long", 60.0)})
    _wait_for(folder / "long begun")
    begun = time.monotonic()
    with copy.still():
        copy.end()
    assert time.monotonic() - begun < 10.0
    copy.end()


def test_what_tasks_return_is_handed_over():
    copy = Beside({("sum",): lambda: {"sum": 1 + 1}, ("none",): lambda: None, ("lock",): threading.Lock})
    try:
        assert copy.done(("sum",), ("none",), ("lock",))
        assert copy.result(("sum",)) == {"sum": 2}
        # and what cannot be handed over is made here
        assert copy.result(("none",)) is copy.result(("lock",)) is copy.result(("unknown",)) is None
    finally:
        copy.end()


def test_a_copy_that_waits_for_a_lock_which_nobody_there_gives_back_is_given_up(told, monkeypatch):
    monkeypatch.setattr(beside, "_STUCK_S", 0.1)
    task, folder = told
    lock = threading.Lock()
    with lock:
        copy = Beside({("waits",): lock.acquire, ("next",): task("next")})
        try:
            _wait_until_begun(copy)
            begun = time.monotonic()
            assert copy.result(("waits",)) is None
            copy.claim(("next",))
            assert time.monotonic() - begun < 10.0
            assert not (folder / "next").exists()
        finally:
            copy.end()


def test_one_that_computes_is_waited_for_however_long_it_takes(monkeypatch):
    monkeypatch.setattr(beside, "_STUCK_S", 0.1)

    def computing():
        until = time.monotonic() + 0.8
        while time.monotonic() < until:
            pass
        return "done"

    copy = Beside({("computes",): computing})
    try:
        _wait_until_begun(copy)
        assert copy.result(("computes",)) == "done"
    finally:
        copy.end()


def test_where_no_process_is_to_be_had_all_is_ours(told, monkeypatch):
    def refused(run):
        raise BlockingIOError("no further process")

    monkeypatch.setattr(beside.copied, "start", refused)
    task, folder = told
    copy = Beside({("first",): task("first")})
    with copy.still():
        assert copy.result(("first",)) is None
    copy.end()
    assert not list(folder.iterdir())


def test_who_waits_for_all_children_of_the_process_does_no_harm(told):
    task, folder = told
    copy = Beside({("first",): task("first")})
    _wait_for(folder / "first")
    while os.waitpid(-1, 0)[0] != copy._pid:
        pass
    copy.claim(("first",))
    with copy.still():
        pass
    copy.end()


def _wait_until_begun(copy):
    until = time.monotonic() + 30.0
    while copy._states[0] != beside._BEGUN:
        assert time.monotonic() < until
        time.sleep(0.005)


def _wait_for(path):
    until = time.monotonic() + 30.0
    while not path.exists():
        assert time.monotonic() < until, path
        time.sleep(0.005)
