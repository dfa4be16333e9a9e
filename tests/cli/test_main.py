"""The command line: what goes to stdout and stderr, and the exit codes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from types import SimpleNamespace

import msgspec
import pytest

import rooflab
from rooflab.errors import MeasureError
from rooflab.types.machine import Level, Machine, Rate, Source

SOURCE = Source(kind="measured", ref="test", date="2026-01-15")


def rate(value, per_s, what, **more):
    return Rate(value=value, per_s=per_s, what=what, basis="attained", source=SOURCE, **more)


MACHINE = Machine(
    name="test box",
    kind="cpu",
    source=SOURCE,
    levels=(Level(name="DRAM", source=SOURCE, rates=(rate(40e9, "byte", "read"),)),),
    peaks=(rate(100e9, "flop", "fma", dtype="fp64", engine="vector"),),
)


@pytest.fixture
def story(monkeypatch):
    """`rooflab.story` replaced: records how it was called and gives `MACHINE`."""
    calls = []

    def measure(**options):
        calls.append(options)
        options["progress"]("read bandwidth", 1, 2)
        return fake.result

    def machine(name):
        calls.append(name)
        return fake.result

    fake = SimpleNamespace(measure=measure, machine=machine, calls=calls, result=MACHINE)
    monkeypatch.setitem(sys.modules, "rooflab.story", fake)
    return fake


def test_measure_prints_and_saves(command, story, tmp_path):
    path = tmp_path / "m.json"
    code, out, err = command("measure", "--quick", "--threads", "2", "-o", path)
    assert code == 0
    assert "test box" in out
    assert "40.0 GB/s" in out
    assert err == f"rooflab: wrote {path}\n"
    assert {key: story.calls[0][key] for key in ("quick", "threads", "sustained")} == {
        "quick": True,
        "threads": 2,
        "sustained": False,
    }
    assert Machine.from_dict(json.loads(path.read_text())) == MACHINE


def test_json_is_all_that_stdout_gets(command, story):
    code, out, err = command("measure", "--json")
    assert code == 0
    assert Machine.from_dict(json.loads(out)) == MACHINE
    assert err == ""


def test_a_bad_path_is_refused_before_measuring(command, story, tmp_path):
    code, out, err = command("measure", "-o", tmp_path / "m.json", "-o", tmp_path / "none" / "m.html")
    assert code == 2
    assert out == ""
    assert err.startswith("rooflab: ")
    assert "there is no folder" in err
    assert err.count("\n") == 1
    assert story.calls == []
    assert list(tmp_path.iterdir()) == []


def test_too_little_memory_is_refused_before_heavy_imports(command, monkeypatch, story):
    def refuse(host):
        raise MeasureError("cgroup memory limit: got 256 MiB, expected at least 512 MiB to measure in")

    monkeypatch.setattr("rooflab.machines.detect.require_memory", refuse)
    done = command("measure")
    assert done.code == 2
    assert done.err == ("rooflab: cgroup memory limit: got 256 MiB, expected at least 512 MiB to measure in\n")
    assert story.calls == []


@pytest.mark.parametrize("threads", ["0", "-1", "two"])
def test_threads_are_at_least_one(command, story, threads):
    done = command("measure", "--threads", threads)
    assert done.code == 2
    assert "Invalid value for '--threads'" in done.err
    assert story.calls == []


def test_an_interrupted_measurement_is_shown_saved_and_130(command, story, tmp_path):
    # No peak was measured yet, so that there is no roofline to draw.
    story.result = msgspec.structs.replace(MACHINE, peaks=(), incomplete="interrupted")
    path, picture = tmp_path / "m.json", tmp_path / "m.svg"
    code, out, err = command("measure", "-o", picture, "-o", path)
    assert code == 130
    assert "Incomplete: interrupted." in out
    assert "rooflab: incomplete: interrupted; what was measured so far is shown" in err
    assert f"{picture} not written: test box: no peak of scope 'all'" in err
    assert f"rooflab: wrote {path}\n" in err
    assert not picture.exists()
    assert Machine.from_dict(json.loads(path.read_text())).incomplete == "interrupted"


def test_ctrl_c_before_anything_was_measured_is_one_line(command, story):
    def interrupt(**options):
        raise KeyboardInterrupt

    story.measure = interrupt
    code, out, err = command("measure")
    assert code == 130
    assert out == ""
    assert err.strip() == "rooflab: interrupted, nothing was saved"


def test_machines_lists_the_catalogue(command):
    from rooflab.machines import catalog

    code, out, _ = command("machine")
    assert code == 0
    for name in catalog.names():
        assert f"\n{name} " in out


def test_machines_as_json_are_machines(command):
    from rooflab.machines import catalog

    done = command("machine", "--json")
    assert done.code == 0
    listed = json.loads(done.out)
    assert (listed["type"], listed["schema"]) == ("Catalogue", 1)
    found = [Machine.from_dict(each) for each in listed["machines"]]
    assert found == [catalog.find(name) for name in catalog.names()]


def test_one_machine_is_shown(called, story):
    assert "test box" in called("machine", "box")
    assert story.calls == ["box"]


def test_the_ladder_of_a_machine(command, story):
    done = command("machine", "box", "--ladder")
    assert done.code == 0
    assert "From near to far" in done.out
    done = command("machine", "box", "--ladder", "--json")
    assert done.code == 0
    assert "DRAM" in {rung["name"] for rung in json.loads(done.out)["rungs"]}
    for what in ("--ladder", "--topology"):
        assert command("machine", "box", what, "--quiet").out == ""


def test_several_machines_stand_beside_each_other(command):
    done = command("machine", "h100-sxm", "h200-sxm", "--json")
    assert done.code == 0
    compared = json.loads(done.out)
    assert compared["type"] == "Comparison"
    assert [side["name"] for side in compared["sides"]] == ["h100-sxm", "h200-sxm"]
    done = command("machine", "h100-sxm", "h200-sxm", "--ladder")
    assert done.code == 2
    assert "--ladder is of one machine, got 2" in done.err


def test_ladder_and_output_need_a_name(command, tmp_path):
    done = command("machine", "--ladder")
    assert done.code == 2
    assert "--ladder needs the NAME of a machine" in done.err
    done = command("machine", "-o", tmp_path / "m.json")
    assert done.code == 2
    assert "-o needs the NAME of a machine" in done.err


def test_version(command):
    done = command("--version")
    assert done.code == 0
    assert done.out == f"rooflab {rooflab.__version__}\n"


@pytest.mark.parametrize("words", [(), ("measure",), ("machine",)])
def test_each_help_holds_an_example(command, words):
    done = command(*words, "--help")
    assert done.code == 0
    assert re.search(r"Examples?:\n    rooflab m", done.out)


def test_an_unknown_device_is_refused_before_the_target_is_looked_for(command):
    done = command("analyze", "missing.py:model", "--device", "xyz")
    assert (done.code, done.err) == (
        2,
        "rooflab: unknown device 'xyz'; known: cuda (which stands for every GPU), cpu\n",
    )


def test_an_unknown_command_is_bad_input(command):
    done = command("meazure")
    assert done.code == 2
    assert "No such command 'meazure'" in done.err


def python(*arguments, **more):
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=60, check=False, **more
    )


@pytest.mark.slow
def test_python_m_rooflab_works():
    done = python("-m", "rooflab", "--version")
    assert (done.returncode, done.stdout) == (0, f"rooflab {rooflab.__version__}\n")


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from rooflab import cli; from rooflab.views.common import files; "
        "print(sorted({'altair', 'rich', 'numpy', 'numba', 'jinja2', 'vl_convert'} & set(sys.modules)))"
    )
    done = python("-c", code)
    assert done.stdout == "[]\n", done.stderr


@pytest.mark.slow
def test_a_reader_that_leaves_is_no_error():
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "rooflab", "machine"],
            stdout=write,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [("machine", "h200"), ("machine", "h200", "--json"), ("op", "--list"), ("--help",)]
)
def test_a_full_disk_behind_stdout_is_one_line(words):
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run(
            [sys.executable, "-m", "rooflab", *words],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert (done.returncode, done.stderr) == (2, "rooflab: cannot write to stdout: No space left on device\n")


def called_with(broken):
    """How `rooflab machine h200` ends where `broken`, Python code, ran before."""
    code = (
        f"import sys\n{broken}\nsys.argv = ['rooflab', 'machine', 'h200']\nfrom rooflab.cli import main\nmain()\n"
    )
    return python("-c", code)


def test_a_broken_import_is_one_line():
    done = called_with("sys.modules['rich'] = None")
    assert done.returncode == 2
    assert done.stderr == (
        "rooflab: this installation is broken: rich.console: No module named 'rich.console'; "
        "'rich' is not a package; install rooflab again\n"
    )


@pytest.mark.slow
def test_out_of_memory_is_one_line_that_names_the_limit():
    done = called_with(
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (2**36, 2**36))\n"
        "import rooflab.story\n"
        "def machine(name): raise MemoryError\n"
        "rooflab.story.machine = machine"
    )
    assert done.returncode == 2
    assert done.stderr == (
        "rooflab: out of memory (the address space is limited to 68.7 GB: ulimit -v, prlimit --as); "
        "give it more, or ask for less at once\n"
    )


@pytest.mark.slow
def test_a_sigint_exits_130_without_a_traceback():
    code = (
        "import sys, os, signal, types\n"
        "def measure(**options): os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.modules['rooflab.story'] = types.SimpleNamespace(measure=measure)\n"
        "sys.argv = ['rooflab', 'measure']\n"
        "from rooflab.cli import main\n"
        "main()\n"
    )
    done = python("-c", code)
    assert done.returncode == 128 + signal.SIGINT
    assert done.stderr.strip() == "rooflab: interrupted, nothing was saved"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_of_each_shell_is_a_script(shell):
    done = subprocess.run(
        [sys.executable, "-c", "from rooflab.cli import main; main()"],
        env={**os.environ, "_ROOFLAB_COMPLETE": f"{shell}_source"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "_ROOFLAB_COMPLETE" in done.stdout


def test_a_picture_that_cannot_be_drawn_does_not_lose_the_other_files(command, refused, tmp_path):
    """Without a machine there are no roofs to draw; alone it is refused before any work."""
    paths = [tmp_path / name for name in ("a.json", "a.svg", "a.csv")]
    done = command("op", "matmul", "64x64", "64x64", *(word for path in paths for word in ("-o", path)))
    assert done.code == 2
    assert [path.exists() for path in paths] == [True, False, True]
    assert "a.svg not written: " in done.err
    assert "a picture needs --machine" in refused("op", "matmul", "64x64", "64x64", "-o", paths[1])


@pytest.mark.slow
@pytest.mark.parametrize("closed", [(1,), (2,), (0, 1, 2)])
def test_closed_streams_are_no_error_and_no_file_gets_what_is_printed(tmp_path, closed):
    path = tmp_path / "op.json"
    words = ["op", "matmul", "64x64", "64x64", "--machine", "h200", "-o", str(path)]
    shell = f'exec "$0" -m rooflab "$@" {" ".join(f"{number}>&-" for number in closed)}'
    done = subprocess.run(
        ["sh", "-c", shell, sys.executable, *words], capture_output=True, check=False, timeout=60
    )
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False)
    assert rooflab.load(path).flop == 2 * 64**3


PRINTING = """
import ctypes
import numpy as np
print("as it is imported")
def speak(x):
    print("by Python")
    ctypes.CDLL(None).puts(b"by compiled code")
    return x * 2
def args(n=10):
    return (np.ones(n),)
"""


@pytest.mark.parametrize("command", [("time", "--limit", "0.5"), ("analyze", "--dim", "n=10")])
def test_json_is_alone_on_stdout_whatever_the_program_prints(tmp_path, command):
    (tmp_path / "printing.py").write_text(PRINTING + "def program(n):\n    return speak, args(n)\n")
    name, *options = command
    target = f"{tmp_path / 'printing.py'}:{'speak' if name == 'time' else 'program'}"
    done = subprocess.run(
        [sys.executable, "-m", "rooflab", name, target, *options, "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)["type"] == ("TimedCall" if name == "time" else "Report")
    for said in ("as it is imported", "by Python", "by compiled code"):
        assert said in done.stderr
