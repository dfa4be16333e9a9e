"""The command `compare`: exit codes, files, what it says on stderr, bad input before any work."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap

import pytest
from click.testing import CliRunner

import rooflab
from rooflab.cli import cli
from rooflab.errors import RooflabError


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("compared")
    for name, n in (("before", 1024), ("after", 2048)):
        rooflab.op("matmul", f"1024x{n}", f"{n}x1024", machine="h200-sxm").save(where / f"{name}.json")
    return where


def run(*words):
    done = CliRunner().invoke(cli, ["compare", *map(str, words)], standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done


def test_without_a_condition_a_difference_is_no_failure(folder):
    done = run(folder / "before.json", folder / "after.json")
    assert done.return_value == 0
    assert "after.json against before.json" in done.stdout


def test_a_condition_that_holds_exits_with_one(folder, tmp_path):
    words = (folder / "before.json", folder / "after.json", "--fail-if", "time>+5%")
    done = run(*words, "-o", tmp_path / "c.md", "-o", tmp_path / "c.html")
    assert done.return_value == 1
    assert "time>+5%: failed (after.json): time " in done.stderr
    assert (tmp_path / "c.md").read_text(encoding="utf-8").startswith("### ❌")
    assert (tmp_path / "c.html").stat().st_size < 3e6
    assert run(folder / "after.json", folder / "before.json", "--fail-if", "time>+5%").return_value == 0


def test_json_on_stdout_and_nothing_else(folder):
    done = run(folder / "before.json", folder / "after.json", "--json")
    found = json.loads(done.stdout)
    assert found["type"] == "Comparison"
    assert rooflab.Comparison.from_dict(found).sides[0].name == "before.json"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("before.json",), "expected two results at least"),
        ((), "expected two results at least"),
        (("before.json", "after.json", "--fail-if", "tme>+5%"), "did you mean time"),
        (("before.json", "gone.json"), "gone.json"),
        (("before.json", "after.json", "-o", "c.xyz"), "expected one of .json"),
        (("before.json", "a10"), "expected results of one kind"),
    ],
)
def test_bad_input_is_one_line(folder, monkeypatch, words, said):
    monkeypatch.chdir(folder)
    with pytest.raises(RooflabError, match=said) as caught:
        run(*words)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_exit_codes_of_the_program(folder):
    def code(*words):
        return subprocess.run(
            [sys.executable, "-m", "rooflab", "compare", *words], cwd=folder, capture_output=True
        )

    assert code("before.json", "after.json").returncode == 0
    assert code("before.json", "after.json", "--fail-if", "time>+5%").returncode == 1
    assert code("before.json").returncode == 2


TESTS = """
import rooflab

N = 1024

def test_cost(rooflab_gate):
    rooflab_gate(rooflab.op("matmul", f"1024x{N}", f"{N}x1024", machine="h200-sxm"))
"""


@pytest.mark.slow
def test_the_fixture_writes_passes_and_fails(tmp_path):
    file = tmp_path / "test_it.py"

    def pytest_says(*words):
        # -p: also where the entry point is not installed.
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:rooflab", "-p", "rooflab.pytest_plugin", *words]
        done = subprocess.run(
            [*command, "-p", "no:cacheprovider", "test_it.py"], cwd=tmp_path, capture_output=True
        )
        return done.returncode, done.stdout.decode()

    file.write_text(textwrap.dedent(TESTS), encoding="utf-8")
    code, said = pytest_says()
    assert (code, "no saved result; `pytest --rooflab-update` writes it" in said) == (1, True)
    assert pytest_says("--rooflab-update")[0] == 0
    assert (tmp_path / "rooflab_baselines" / "test_it-test_cost.json").exists()
    assert pytest_says()[0] == 0
    file.write_text(textwrap.dedent(TESTS).replace("N = 1024", "N = 2048"), encoding="utf-8")
    code, said = pytest_says()
    assert code == 1
    assert "time>+5%: failed: time " in said
