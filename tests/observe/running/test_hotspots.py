"""Hotspots: stacks of py-spy read, samples counted by function, loop and line, and what takes them apart."""

from __future__ import annotations

import subprocess
import sys

import pytest

import rooflab
from rooflab.errors import MissingExtraError, RooflabError
from rooflab.observe.running import sampler, spots
from rooflab.observe.running.sampler import Frame, Stack

SOURCE = """\
import numpy as np

def total(a):
    s = 0.0
    for row in a:
        for i in range(len(row)):
            s += row[i] * helper(i)
    return s

def helper(i):
    return i + 1

class Model:
    def work(self, a):
        for i in range(9):
            a[i] = a @ a

def total_args(n):
    return (np.zeros((n, n)),)

total(total_args(3)[0])
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "work.py").write_text(SOURCE)
    return str(tmp_path / "work.py")


def found(*stacks, native=False):
    return spots.find(
        [Stack(tuple(frames), seen) for seen, *frames in stacks], ["python", "work.py"], native=native
    )


def test_raw_stacks_are_read():
    text = (
        'process 12:"python a.py; b";<module> (/x/a.py:18);C::run(int, char) (libfoo.so) 7\n'
        "0x7f12 (libc.so.6);<listcomp> (a b.py:3) 2\nno count here\n"
    )
    first, second = sampler.stacks_of(text.replace("; b", ""))
    assert first == Stack(
        (Frame("<module>", "/x/a.py", 18), Frame("C::run(int, char)", "libfoo.so", None)),
        7,
    )
    assert second == Stack((Frame("0x7f12", "libc.so.6", None), Frame("<listcomp>", "a b.py", 3)), 2)


def test_functions_loops_and_lines(file):
    # 6 samples in the product of line 7, 3 in what it calls, 1 at the head of the outer loop
    got = found(
        (6, Frame("<module>", file, 21), Frame("total", file, 7)),
        (3, Frame("<module>", file, 21), Frame("total", file, 7), Frame("helper", file, 11)),
        (1, Frame("<module>", file, 21), Frame("total", file, 5)),
    )
    by_name = {one.name: (one.samples, one.own) for one in got.functions}
    assert by_name == {"<module>": (10, 0), "total": (10, 7), "helper": (3, 3)}
    assert [(one.first_line, one.last_line, one.samples, one.own) for one in got.loops] == [
        (5, 7, 10, 7),
        (6, 7, 9, 6),
    ]
    assert [(one.first_line, one.own) for one in got.lines] == [(7, 6), (11, 3), (5, 1)]
    assert got.lines[0].text == "s += row[i] * helper(i)"
    assert {one.takes_apart for one in got.loops} == {"rooflab loop work.py:total"}
    assert got.loops[0].why == ""  # total_args is there


def test_a_function_that_calls_itself_counts_once(file):
    got = found((5, Frame("helper", file, 11), Frame("helper", file, 11), Frame("helper", file, 11)))
    assert [(one.name, one.samples, one.own) for one in got.functions] == [("helper", 5, 5)]


def test_methods_products_and_frameworks_have_commands_of_their_own(file):
    got = found((4, Frame("work", file, 16)))
    assert got.functions[0].name == "Model.work"
    assert got.loops[0].takes_apart is None
    assert "outside of classes" in got.loops[0].why
    assert got.lines[0].takes_apart == "rooflab op matmul MxK KxN"
    torch = Frame("forward", "/lib/site-packages/torch/nn/modules/linear.py", 9)
    got = found((4, Frame("total", file, 7), torch))
    total = next(one for one in got.functions if one.name == "total")
    assert total.takes_apart == "rooflab run --profile -- python work.py"


def test_native_code_counts_for_the_line_that_called_it(file):
    got = found(
        (3, Frame("total", file, 7), Frame("dgemm", "/x/libblas.so", None)),
        (1, Frame("total", file, 7)),
        native=True,
    )
    assert (got.functions[0].own, got.functions[0].native) == (4, 3)
    assert [(one.name, one.own) for one in got.libraries] == [("libblas.so", 3)]


def test_code_without_source_is_kept_by_name():
    got = found((2, Frame("load", "<frozen importlib._bootstrap>", 7)))
    assert got.functions[0].file == "<frozen importlib._bootstrap>"
    assert got.functions[0].takes_apart is None


def test_without_py_spy_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(sampler, "where", lambda: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'rooflab\[hotspots\]'"):
        rooflab.hotspots(["python", "x.py"])


@pytest.mark.parametrize(
    ("command", "more", "text"),
    [
        ([], {}, "hotspots needs a command"),
        ("python x.py", {}, "expected its words"),
        (["ls"], {"hz": 0}, "hz: got 0"),
    ],
)
def test_bad_input(command, more, text):
    with pytest.raises(RooflabError, match=text):
        rooflab.hotspots(command, **more)


needs_py_spy = pytest.mark.skipif(sampler.where() is None, reason="needs py-spy")


@needs_py_spy
def test_a_program_is_sampled_and_ends_as_it_would(tmp_path):
    (tmp_path / "busy.py").write_text(
        "import sys, time\n"
        "def spin(end):\n    n = 0\n    while time.perf_counter() < end:\n        n += 1\n    return n\n"
        "spin(time.perf_counter() + 1.5)\nprint('out'); sys.exit(3)\n"
    )
    words = [
        sys.executable,
        "-m",
        "rooflab",
        "hotspots",
        "-o",
        "h.json",
        "-o",
        "h.md",
        "--",
        sys.executable,
        "busy.py",
    ]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (3, "out\n")
    got = rooflab.load(tmp_path / "h.json")
    if not got.samples:
        pytest.skip(f"py-spy may not read processes here: {got.notes[0]}")
    assert got.functions[0].own >= 0.8 * got.samples or got.functions[1].own >= 0.8 * got.samples
    spin = next(one for one in got.functions if one.name == "spin")
    assert spin.own >= 0.8 * got.samples
    assert got.loops[0].text == "while time.perf_counter() < end:"
    assert "spin" in (tmp_path / "h.md").read_text("utf-8")


@needs_py_spy
def test_what_is_no_python_is_said():
    got = rooflab.hotspots(["sleep", "0.5"])
    assert (got.exit_code, got.samples) == (0, 0)
    assert "nothing was sampled" in got.notes[0]


def test_how_well_shares_are_known_is_said(file):
    from rooflab.types.hotspots import Hotspots
    from rooflab.types.usage import Usage
    from rooflab.views.hotspots.sheet import sheet_of

    usage = Usage(wall_s=1.0, user_s=1.0, system_s=0.0)
    shown = sheet_of(Hotspots(command=("a",), usage=usage, exit_code=0, samples=100, hz=100))
    # 1.96 √(0.5 × 0.5 ÷ 100) = 0.098
    assert any("± 9.8 points" in note for note in shown.notes)
