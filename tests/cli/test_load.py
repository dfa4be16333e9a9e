"""`rooflab load`: one file or several, written and shown; a bad one among several costs the exit code alone."""

from __future__ import annotations

import csv
import json

import click
import pytest
from click.testing import CliRunner

import rooflab
from rooflab.cli import cli
from support.observe.kineto_files import call, file, kernel, launch


@pytest.fixture
def traces(tmp_path):
    paths = []
    for name, long_us in (("a", 10), ("b", 20)):
        (tmp_path / name).mkdir()
        paths.append(file(tmp_path / name, call(-5, 4, "aten::relu"), launch(-3), kernel(0, long_us)))
    return [str(path) for path in paths]


def run(*arguments):
    done = CliRunner().invoke(cli, ["load", *arguments], standalone_mode=False, catch_exceptions=False)
    return done.return_value, done.stdout, done.stderr


def test_one_file_is_a_profile(traces):
    code, out, _ = run(traces[0], "--json")
    assert code == 0
    assert json.loads(out)["type"] == "Profile"


def test_several_files_are_shown_and_written(traces, tmp_path):
    out = [tmp_path / name for name in ("r.json", "r.csv", "r.html")]
    code, text, _ = run(*traces, *(part for path in out for part in ("-o", str(path))))
    assert code == 0
    assert "a/trace.json" in text
    assert "aten.relu" in text
    assert rooflab.load(out[0]) == rooflab.load(*traces)
    with out[1].open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    assert [(row["file"], float(row["measured_s"])) for row in rows] == [
        ("a/trace.json", pytest.approx(10e-6)),
        ("b/trace.json", pytest.approx(20e-6)),
    ]
    assert "b/trace.json" in out[2].read_text(encoding="utf-8")


def test_a_bad_file_among_several_is_said_and_the_code_is_2(traces, tmp_path):
    gone, saved = tmp_path / "gone.json", tmp_path / "r.json"
    code, text, errors = run(traces[0], str(gone), "-o", str(saved))
    assert code == 2
    assert f"rooflab: {gone}: no such file" in errors
    assert "a/trace.json" in text or "trace.json" in text
    assert len(rooflab.load(saved).profiles) == 1


def test_the_tools_whose_files_are_read_are_listed():
    code, out, _ = run("--formats")
    assert code == 0
    assert {"Nsight Compute", "PyTorch profiler", "STREAM", "perf stat"} <= set(out.splitlines())
    with pytest.raises(rooflab.RooflabError, match="load needs a FILE"):
        run()


def test_advice_is_asked_for_as_of_a_program(traces, tmp_path):
    """The same option and words as `analyze` has: a number, all, none."""
    with pytest.raises(click.BadParameter, match="'many' is not a number of changes, expected 3, all or none"):
        run(traces[0], "--advice", "many")
    for asked, there in (("none", False), ("all", True)):
        out = tmp_path / f"{asked}.json"
        code, _, _ = run(traces[0], "--advice", asked, "-o", str(out))
        assert code == 0
        assert (json.loads(out.read_text())["advice"] is not None) == there
