"""One execution of a command: exit codes, signals, streams, figures that other sources confirm."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from rooflab.errors import RooflabError
from rooflab.machines.detect import detect, granted_threads
from rooflab.observe.running import watched
from rooflab.observe.running.command import GATE, Held, check, execute

# Its figures are of the whole machine.
pytestmark = pytest.mark.alone

PYTHON = sys.executable


def test_the_exit_code_is_the_commands():
    ended = execute(["sh", "-c", "exit 7"])
    assert (ended.exit_code, ended.signal) == (7, None)


@pytest.mark.parametrize(("name", "code"), [("KILL", 137), ("TERM", 143), ("SEGV", 139)])
def test_a_command_that_a_signal_killed_is_128_and_its_number(name, code):
    ended = execute(["sh", "-c", f"kill -{name} $$"])
    assert (ended.exit_code, ended.signal) == (code, f"SIG{name}")


EXECUTE = "from rooflab.observe.running.command import execute\n"


def test_its_streams_are_those_of_the_caller():
    code = EXECUTE + "print(execute(['sh', '-c', 'cat; echo e >&2']).exit_code)"
    done = subprocess.run([PYTHON, "-c", code], input="in\0put", capture_output=True, text=True, timeout=60)
    assert done.stdout == "in\0put0\n"
    assert done.stderr == "e\n"


def test_cpu_time_is_that_of_the_program_and_of_the_children_it_waited_for():
    burn = "import time\nwhile time.process_time() < 0.2: pass"
    ended = execute([PYTHON, "-c", f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}])"])
    assert 0.2 <= ended.usage.cpu_s < 5
    assert ended.usage.wall_s >= 0.2
    assert ended.usage.cores == pytest.approx(ended.usage.cpu_s / ended.usage.wall_s)


def test_waiting_takes_time_and_no_cpu():
    used = execute(["sleep", "0.3"]).usage
    assert used.wall_s >= 0.3
    assert used.cpu_s < 0.15
    assert used.voluntary_switches >= 1


def test_peak_memory_is_that_of_the_largest_process():
    # In a process of its own: this one may have been larger than that before.
    code = EXECUTE + "import sys; used = execute([sys.executable, '-c', 'bytearray(300_000_000)']).usage\n"
    code += "print(used.peak_memory_bytes, used.minor_faults)"
    done = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    peak_bytes, faults = map(int, done.stdout.split())
    assert 300e6 < peak_bytes < 400e6
    assert faults > 300e6 / 2**21  # at least one for each 2 MiB, the largest page that is given


def test_memory_below_the_callers_own_is_unknown_and_the_limit_is_said():
    used = execute(["true"]).usage
    assert used.peak_memory_bytes is None
    assert used.least_memory_bytes > 1e6


@pytest.mark.skipif(not os.path.exists("/proc/self/io"), reason="no /proc/PID/io")
def test_bytes_are_those_that_were_written(tmp_path):
    used = execute(["dd", "if=/dev/zero", f"of={tmp_path / 'file'}", "bs=1000000", "count=3", "status=none"]).usage
    # What dd says of itself: 3 × 1,000,000 written; reads besides are the libraries that it loads.
    assert used.written_bytes == 3_000_000
    assert used.read_bytes is not None
    assert 3_000_000 <= used.read_bytes < 3_200_000


def test_variables_are_set_for_the_command_alone():
    ended = execute(["sh", "-c", 'test "$ROOFLAB_TRY" = here'], env={"ROOFLAB_TRY": "here"})
    assert ended.exit_code == 0
    assert "ROOFLAB_TRY" not in os.environ


def test_the_gate_holds_the_command_under_its_own_number_until_it_is_let_go(tmp_path):
    seen: list[tuple[int, bool, bool]] = []
    written = tmp_path / "pid"

    def attach(held: Held) -> None:
        time.sleep(0.1)
        seen.append((held.pid, held.stopped, written.exists()))

    ended = execute(["sh", "-c", f"echo $$ > {written}; exit 3"], attach=attach, gated=True)
    assert ended.exit_code == 3
    assert seen == [(int(written.read_text()), True, False)]
    assert ended.usage.wall_s < 0.1 + 5  # from when it was let go


def test_words_pass_the_gate_unchanged():
    words = ["a b", "'", "$HOME", "*", "", "-n"]
    code = f"import sys; sys.exit(sys.argv[1:] != {words!r})"
    assert execute([PYTHON, "-c", code, *words], gated=True).exit_code == 0
    assert GATE[0] == "/bin/sh"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], "run needs a command"),
        (["rooflab-no-such"], "rooflab-no-such: no such command on PATH"),
        (["/no/such/file"], "/no/such/file: no such file"),
        (["/tmp/"], "/tmp/: is a folder"),
        (["a\0b"], "cannot hold a NUL"),
        (["pyton3"], "did you mean python3?"),
    ],
)
def test_what_cannot_be_started_is_said_before_anything_runs(words, text):
    with pytest.raises(RooflabError) as caught:
        check(words)
    assert text in str(caught.value)


def test_a_file_that_may_not_be_executed_and_one_of_the_folder_say_what_to_type(tmp_path, monkeypatch):
    (tmp_path / "go.py").write_text("pass")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RooflabError, match=r"chmod \+x"):
        check(["./go.py"])
    with pytest.raises(RooflabError, match=r"run by: python go\.py"):
        check(["go.py"])


WATCHER = """
    import sys
    from rooflab.observe.running.command import execute
    print(execute(["sh", "-c", {script!r}]).exit_code, flush=True)
"""


@pytest.mark.parametrize("name", ["TERM", "INT", "USR1", "HUP"])
def test_a_signal_to_the_watcher_reaches_the_command_which_ends_as_it_wants(name, tmp_path):
    ready = tmp_path / "ready"
    script = f"trap 'exit 9' {name}; echo > {ready}; while :; do sleep 0.05; done"
    code = textwrap.dedent(WATCHER).format(script=script)
    process = subprocess.Popen([PYTHON, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        for _ in range(600):
            if ready.exists():
                break
            time.sleep(0.05)
        time.sleep(0.2)
        process.send_signal(getattr(signal, f"SIG{name}"))
        assert process.communicate(timeout=60)[0] == "9\n"
    finally:
        process.kill()


def test_a_terminals_interrupt_reaches_the_command_once(tmp_path):
    """Ctrl-C in a terminal goes to both by itself: handing it on would interrupt the command's own clean-up."""
    import pty

    ready = tmp_path / "ready"
    # Interrupted once it cleans up for a moment and exits with 5; a second time it would exit with 6.
    inner = (
        "import time, sys, pathlib\n"
        f"pathlib.Path({str(ready)!r}).write_text('')\n"
        "try:\n    time.sleep(60)\n"
        "except KeyboardInterrupt:\n"
        "    try:\n        time.sleep(0.5)\n    except KeyboardInterrupt:\n        sys.exit(6)\n    sys.exit(5)\n"
    )
    code = (
        "from rooflab.observe.running.command import execute; import pathlib, sys\n"
        f"ended = execute([sys.executable, '-c', {inner!r}])\n"
        f"pathlib.Path({str(tmp_path / 'code')!r}).write_text(str(ended.exit_code))\n"
    )
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(PYTHON, [PYTHON, "-c", code])
    for _ in range(600):
        if ready.exists():
            break
        time.sleep(0.05)
    time.sleep(0.3)
    os.write(terminal, b"\x03")
    os.waitpid(pid, 0)
    os.close(terminal)
    assert (tmp_path / "code").read_text() == "5"


def test_a_tiny_command_is_not_given_the_memory_of_who_starts_it():
    # The child's figure begins with that of its parent, which may grow between reading it and the start.
    for _ in range(20):
        held = bytearray(8 << 20)
        assert execute(["true"]).usage.peak_memory_bytes is None
        assert held


def test_who_started_the_caller_does_not_count_either():
    # The caller itself is started by a process of 200 MB; the command takes 100 MB, which is known all the same.
    inner = EXECUTE + f"print(execute([{PYTHON!r}, '-c', 'bytearray(10**8)']).usage.peak_memory_bytes)"
    outer = (
        f"import subprocess, sys; held = bytearray(2 * 10**8); subprocess.run([sys.executable, '-c', {inner!r}])"
    )
    done = subprocess.run([PYTHON, "-c", outer], capture_output=True, text=True, timeout=60, check=True)
    assert 100e6 < int(done.stdout) < 150e6


def test_granted_cores_are_those_of_the_detected_machine():
    assert watched.granted_cores() == len(granted_threads(detect(gpus=False)))
