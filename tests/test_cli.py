"""The command line: what goes to stdout and stderr, and the exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import msgspec
import pytest

import rooflab
from rooflab import cli
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


def run(monkeypatch, *arguments):
    """The exit code of `rooflab` called with `arguments`."""
    monkeypatch.setattr(sys, "argv", ["rooflab", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code


def test_measure_prints_and_saves(monkeypatch, capsys, story, tmp_path):
    path = tmp_path / "m.json"
    assert run(monkeypatch, "measure", "--quick", "--threads", "2", "-o", path) == 0
    out, err = capsys.readouterr()
    assert "test box" in out
    assert "40.0 GB/s" in out
    assert err == f"rooflab: wrote {path}\n"
    assert {key: story.calls[0][key] for key in ("quick", "threads", "sustained")} == {
        "quick": True,
        "threads": 2,
        "sustained": False,
    }
    assert Machine.from_dict(json.loads(path.read_text())) == MACHINE


def test_json_is_all_that_stdout_gets(monkeypatch, capsys, story):
    assert run(monkeypatch, "measure", "--json") == 0
    out, err = capsys.readouterr()
    assert Machine.from_dict(json.loads(out)) == MACHINE
    assert err == ""


def test_a_bad_path_is_refused_before_measuring(monkeypatch, capsys, story, tmp_path):
    assert run(monkeypatch, "measure", "-o", tmp_path / "m.json", "-o", tmp_path / "none" / "m.html") == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("rooflab: ")
    assert "there is no folder" in err
    assert err.count("\n") == 1
    assert story.calls == []
    assert list(tmp_path.iterdir()) == []


def test_too_little_memory_is_refused_before_heavy_imports(monkeypatch, capsys, story):
    def refuse(host):
        raise MeasureError("cgroup memory limit: got 256 MiB, expected at least 512 MiB to measure in")

    monkeypatch.setattr("rooflab.machines.detect.require_memory", refuse)
    assert run(monkeypatch, "measure") == 2
    assert capsys.readouterr().err == (
        "rooflab: cgroup memory limit: got 256 MiB, expected at least 512 MiB to measure in\n"
    )
    assert story.calls == []


@pytest.mark.parametrize("threads", ["0", "-1", "two"])
def test_threads_are_at_least_one(monkeypatch, capsys, story, threads):
    assert run(monkeypatch, "measure", "--threads", threads) == 2
    assert "Invalid value for '--threads'" in capsys.readouterr().err
    assert story.calls == []


def test_an_interrupted_measurement_is_shown_saved_and_130(monkeypatch, capsys, story, tmp_path):
    # No peak was measured yet, so that there is no roofline to draw.
    story.result = msgspec.structs.replace(MACHINE, peaks=(), incomplete="interrupted")
    path, picture = tmp_path / "m.json", tmp_path / "m.svg"
    assert run(monkeypatch, "measure", "-o", picture, "-o", path) == 130
    out, err = capsys.readouterr()
    assert "Incomplete: interrupted." in out
    assert "rooflab: incomplete: interrupted; what was measured so far is shown" in err
    assert f"{picture} not written: test box: no peak of scope 'all'" in err
    assert f"rooflab: wrote {path}\n" in err
    assert not picture.exists()
    assert Machine.from_dict(json.loads(path.read_text())).incomplete == "interrupted"


def test_ctrl_c_before_anything_was_measured_is_one_line(monkeypatch, capsys, story):
    def interrupt(**options):
        raise KeyboardInterrupt

    story.measure = interrupt
    assert run(monkeypatch, "measure") == 130
    out, err = capsys.readouterr()
    assert out == ""
    assert err.strip() == "rooflab: interrupted, nothing was saved"


def test_machines_lists_the_catalogue(monkeypatch, capsys):
    from rooflab.machines import catalog

    assert run(monkeypatch, "machines") == 0
    out = capsys.readouterr().out
    for name in catalog.names():
        assert f"\n{name} " in out


def test_machines_as_json_are_machines(monkeypatch, capsys):
    from rooflab.machines import catalog

    assert run(monkeypatch, "machine", "--json") == 0
    found = [Machine.from_dict(each) for each in json.loads(capsys.readouterr().out)]
    assert found == [catalog.find(name) for name in catalog.names()]


def test_one_machine_is_shown(monkeypatch, capsys, story):
    assert run(monkeypatch, "machine", "box") == 0
    assert story.calls == ["box"]
    assert "test box" in capsys.readouterr().out


def test_the_ladder_of_a_machine(monkeypatch, capsys, story):
    assert run(monkeypatch, "machine", "box", "--ladder") == 0
    assert "From near to far" in capsys.readouterr().out
    assert run(monkeypatch, "machine", "box", "--ladder", "--json") == 0
    assert "DRAM" in {rung["name"] for rung in json.loads(capsys.readouterr().out)}


def test_ladder_and_output_need_a_name(monkeypatch, capsys, tmp_path):
    assert run(monkeypatch, "machine", "--ladder") == 2
    assert "--ladder needs the NAME of a machine" in capsys.readouterr().err
    assert run(monkeypatch, "machine", "-o", tmp_path / "m.json") == 2
    assert "-o needs the NAME of a machine" in capsys.readouterr().err


def test_version(monkeypatch, capsys):
    assert run(monkeypatch, "--version") == 0
    assert capsys.readouterr().out == f"rooflab {rooflab.__version__}\n"


@pytest.mark.parametrize("command", [(), ("measure",), ("machine",)])
def test_each_help_holds_an_example(monkeypatch, capsys, command):
    assert run(monkeypatch, *command, "--help") == 0
    assert "Example:\n    rooflab m" in capsys.readouterr().out


def test_an_unknown_command_is_bad_input(monkeypatch, capsys):
    assert run(monkeypatch, "meazure") == 2
    assert "No such command 'meazure'" in capsys.readouterr().err


def python(*arguments, **more):
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=60, check=False, **more
    )


def test_python_m_rooflab_works():
    done = python("-m", "rooflab", "--version")
    assert (done.returncode, done.stdout) == (0, f"rooflab {rooflab.__version__}\n")


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from rooflab import cli; from rooflab.views import export; "
        "print(sorted({'altair', 'rich', 'numpy', 'numba', 'jinja2', 'vl_convert'} & set(sys.modules)))"
    )
    done = python("-c", code)
    assert done.stdout == "[]\n", done.stderr


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
