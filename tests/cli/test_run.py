"""`rooflab run`: the command's streams, its exit code, and where the result goes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest


def rooflab(*arguments, **more):
    words = [sys.executable, "-m", "rooflab", "run", *arguments]
    return subprocess.run(words, capture_output=True, text=True, timeout=120, check=False, **more)


def test_its_output_is_the_commands_alone_and_the_result_is_on_stderr():
    done = rooflab("--", "sh", "-c", "cat; exit 5", input="as it is\n")
    assert done.returncode == 5
    assert done.stdout == "as it is\n"
    assert "failed with exit code 5" in done.stderr
    assert "CPU time in the kernel" in done.stderr


def test_files_are_written_when_the_command_fails_or_is_killed(tmp_path):
    path = tmp_path / "run.json"
    done = rooflab("-o", str(path), "-q", "--", "sh", "-c", "kill -KILL $$")
    assert done.returncode == 137
    assert done.stderr == ""
    assert json.loads(path.read_text())["signal"] == "SIGKILL"


def test_json_goes_to_stderr_after_the_command():
    done = rooflab("--json", "--", "echo", "out")
    assert done.stdout == "out\n"
    assert json.loads(done.stderr)["command"] == ["echo", "out"]


def test_options_after_the_command_are_the_commands():
    done = rooflab("-q", "echo", "--json", "-o", "x", "--help")
    assert done.stdout == "--json -o x --help\n"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--", "rooflab-no-such"), "rooflab-no-such: no such command on PATH"),
        ((), "run needs a command"),
        (("--runs", "0", "--", "true"), "runs: got 0"),
        (("-o", "run.xyz", "--", "touch", "made"), "run.xyz"),
    ],
)
def test_bad_input_is_one_line_and_nothing_runs(arguments, text, tmp_path):
    done = rooflab(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert text in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_pipe_cannot_be_read_again():
    done = rooflab("--runs", "2", "--", "cat", input="once")
    assert done.returncode == 2
    assert "standard input is a pipe" in done.stderr


def test_a_file_is_read_from_its_beginning_in_every_run(tmp_path):
    (tmp_path / "in").write_text("line\n")
    with (tmp_path / "in").open() as file:
        done = rooflab("--runs", "3", "-q", "--", "cat", stdin=file)
    assert done.stdout == "line\n" * 3


def test_runs_end_at_the_first_that_fails(tmp_path):
    done = rooflab("--runs", "4", "--", "sh", "-c", "echo x >> made; exit 2", cwd=tmp_path)
    assert done.returncode == 2
    assert (tmp_path / "made").read_text() == "x\n"
    assert "1 of 4 runs were made" in done.stderr


def test_what_is_not_counted_is_said_with_how_to_get_it():
    done = rooflab("--no-counters", "--", "true")
    assert "FLOP and bytes of memory were not counted: --no-counters" in done.stderr


def test_a_machine_that_does_not_exist_is_refused_before_the_command(tmp_path):
    done = rooflab("--machine", "no-such", "--", "touch", "made", cwd=tmp_path)
    assert done.returncode == 2
    assert "unknown machine 'no-such'" in done.stderr
    assert not (tmp_path / "made").exists()


def test_the_command_waits_for_no_heavy_import():
    code = (
        "import sys\n"
        "from rooflab.cli import cli\n"
        "from rooflab.observe.running import command\n"
        "def instead(*_):\n"
        "    heavy = {'numpy', 'rich', 'altair', 'msgspec', 'jinja2', 'numba', 'rooflab.machines.detect.linux'}\n"
        "    print(sorted(heavy & set(sys.modules)))\n"
        "    raise SystemExit\n"
        "command._start = instead\n"
        "cli.main(['run', '--', 'true'], standalone_mode=False)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    # A machine with counters is asked which CPU it is.
    assert set(done.stdout.strip("[]\n").replace("'", "").split(", ")) <= {
        "",
        "rooflab.machines.detect.linux",
        "msgspec",
    }


@pytest.mark.slow
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_what_shows_the_result_is_imported_beside_a_long_command_and_signals_still_reach_it():
    code = (
        "import sys\n"
        "from rooflab.cli import cli\n"
        "from rooflab.observe.running import watched\n"
        "at_end = watched._result\n"
        "def seen(*given):\n"
        "    print(sorted({'rich.table', 'rooflab.views.run'} & set(sys.modules)))\n"
        "    return at_end(*given)\n"
        "watched._result = seen\n"
        "command = ['sh', '-c', 'echo it runs; exec sleep 20']\n"
        "sys.exit(cli.main(['run', '--no-counters', '--', *command], standalone_mode=False))\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=-1, stderr=-1, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "it runs\n"
    time.sleep(5)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 128 + signal.SIGTERM
    assert "SIGTERM" in err
    assert out == "['rich.table', 'rooflab.views.run']\n"
