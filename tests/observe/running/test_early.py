"""A plain command of `rooflab run` begins before the rest is imported, and is the same run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import rooflab
from rooflab.observe.running import early, watched
from rooflab.observe.running.command import finish

NONE = ("--no-counters", "--")


@pytest.fixture(autouse=True)
def _nothing_is_left():
    yield
    early.abandon()


def begun(*words):
    """The command that began with `rooflab` and these words; None where none did."""
    early.begin(words)
    found = list(early._begun)
    early.abandon()
    return found[0].words if found else None


def test_a_command_after_flags_alone_begins_at_once():
    assert begun("run", *NONE, "true", "-x") == ("true", "-x")
    assert begun("run", "-q", "--json", "--no-counters", "true") == ("true",)


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("measure",),
        ("run",),
        ("run", "--help"),
        ("run", "--no-counters", "--"),
        ("run", "--no-counters", "--", ""),
        ("run", "--no-counters", "--runs", "2", "--", "true"),
        ("run", "--no-counters", "-o", "x.json", "--", "true"),
        ("run", "--no-counters", "--machine", "h200", "true"),
        ("run", "--profile", "--", "true"),
        ("run", "--no-counters", "--nothing", "--", "true"),
        ("run", *NONE, "rooflab-no-such"),
        ("run", *NONE, "/tmp"),
        ("run", *NONE, "/etc/passwd"),
    ],
)
def test_what_has_more_to_it_is_left_to_the_command_line(words):
    assert begun(*words) is None


def test_a_script_without_a_first_line_is_left_to_the_command_line(tmp_path):
    script = tmp_path / "script"
    script.write_text("exit 0\n")
    script.chmod(0o755)
    assert begun("run", *NONE, str(script)) is None


def test_counters_are_waited_for_where_the_kernel_may_have_them(monkeypatch):
    monkeypatch.setattr(os, "listdir", lambda _: ["software", "cpu"])
    assert begun("run", "true") is None
    monkeypatch.setattr(os, "listdir", lambda _: ["software", "tracepoint", "breakpoint"])
    assert begun("run", "true") == ("true",)
    monkeypatch.setattr(os, "listdir", lambda _: [])  # it does not say
    assert begun("run", "true") is None


def test_it_is_taken_once_and_by_its_own_words_alone():
    early.begin(("run", *NONE, "true"))
    assert early.take(["false"]) is None
    started = early.take(["true"])
    assert started is not None
    assert early.take(["true"]) is None
    assert finish(started).exit_code == 0


def test_its_time_ends_with_it_and_not_when_somebody_looks():
    import time

    early.begin(("run", *NONE, "sleep", "0.2"))
    started = early.take(["sleep", "0.2"])
    assert started is not None
    until = time.perf_counter() + 1.0
    while time.perf_counter() < until:  # as imports do, in many small steps
        pass
    ended = finish(started)
    assert 0.2 <= ended.usage.wall_s < 0.9
    assert ended.usage.voluntary_switches >= 1


def test_the_run_is_that_of_the_command_that_began():
    early.begin(("run", *NONE, "sh", "-c", "exit 7"))
    pid = early._begun[0].child.pid
    found = watched.watched(["sh", "-c", "exit 7"], counters=False)
    assert found.run.exit_code == 7
    assert not early._begun
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)  # it was that one, and it is reaped


def test_what_nobody_takes_is_ended():
    early.begin(("run", *NONE, "sleep", "60"))
    pid = early._begun[0].child.pid
    early.abandon()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_signals_that_come_before_the_rest_is_imported_reach_it():
    code = (
        "import os, signal, sys\nfrom rooflab.observe.running import early\n"
        "sys.argv = ['rooflab', 'run', '-q', '--no-counters', '--', 'sleep', '60']\n"
        "early.begin(sys.argv[1:])\nos.kill(os.getpid(), signal.SIGTERM)\n"
        "from rooflab.cli import main\nmain()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50)
    assert (done.returncode, done.stderr) == (143, "")


def test_files_that_the_caller_left_open_for_it_are_open(tmp_path):
    path = tmp_path / "out"
    code = f"exec 3>{path}; {sys.executable} -m rooflab run -q --no-counters -- sh -c 'echo here >&3'"
    subprocess.run(["sh", "-c", code], check=True, timeout=50)
    assert path.read_text() == "here\n"


def test_nothing_large_is_imported_before_it():
    code = (
        "import sys\nfrom rooflab.observe.running import early\n"
        "print(*sorted({'typing', 'click', 'subprocess', 'pathlib', 're', 'msgspec'} & set(sys.modules)))"
    )
    where = {**os.environ, "PYTHONPATH": str(Path(rooflab.__file__).parents[1])}  # -S: no site-packages
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True, timeout=50, env=where
    )
    assert done.stdout.split() == []
