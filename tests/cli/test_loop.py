"""The command `loop`: its report comes before its advice, and as one where it is JSON or a file."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from rooflab.cli import cli

TEXT = """import numpy as np
def sums(a, s):
    for j in range(a.shape[1]):
        for i in range(a.shape[0]):
            s[j] += a[i, j]
def args(n):
    return np.ones((n, n)), np.zeros(n)
"""


@pytest.fixture
def run(root, tmp_path):
    """Runs the command without times, and with no time for advice."""
    (tmp_path / "user.py").write_text(TEXT)
    machine = ("--machine", str(root / "examples" / "zen4-guest.toml"))

    def command(*more):
        given = ("loop", f"{tmp_path / 'user.py'}:sums", "--n", "60", *machine, "--untimed", "--advice-time", "0")
        return CliRunner().invoke(cli, [*given, *more])

    return command


def test_the_report_comes_first_and_what_would_help_last(run):
    done = run()
    assert done.exit_code == 0
    report, _, advice = done.output.partition("What would help")
    assert "Conventions" in report
    assert "not tried, as the 0 s for trying changes were over" in " ".join(advice.split())
    assert done.output.count("sums  (") == 1


def test_no_advice_is_none(run):
    assert "What would help" not in run("--advice", "none").output


def test_json_and_files_hold_the_report_with_its_advice(run, tmp_path):
    done = run("--json", "-o", str(tmp_path / "loop.json"))
    assert done.exit_code == 0
    said = json.loads((tmp_path / "loop.json").read_text())
    assert said["advice"]["unasked"]
    quiet = run("-q")
    assert quiet.output == ""
