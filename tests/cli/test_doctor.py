"""`rooflab doctor`: exit codes, JSON, files refused before any work."""

from __future__ import annotations

import json

from click.testing import CliRunner

from rooflab.cli import cli
from rooflab.machines.checkup import examine
from rooflab.types.checkup import Checkup, Grant


def run(*arguments):
    return CliRunner().invoke(cli, ["doctor", *map(str, arguments)], standalone_mode=False)


def test_json_holds_each_thing_and_whether_it_works():
    done = run("--quick", "--json")
    raw = json.loads(done.stdout)
    assert (raw["type"], raw["works"], raw["quick"]) == ("Checkup", True, True)
    assert {each["status"] for each in raw["grants"]} <= {"ok", "limited", "missing", "unknown"}
    assert done.return_value == 0


def test_the_exit_code_is_one_where_rooflab_cannot_work(monkeypatch):
    stopping = Grant(topic="libraries", name="NumPy", status="missing", found="not installed", stops=True)
    found = Checkup(rooflab="1", python="3", system="Linux", grants=(stopping,), took_s=1.0, date="2026-01-01")
    monkeypatch.setattr(examine, "examine", lambda *_: found)
    assert run().return_value == 1


def test_an_unknown_suffix_is_refused_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setattr(examine, "examine", None)
    done = run("--quick", "-o", tmp_path / "a.svg")
    assert ".csv" in str(done.exception)
    assert not (tmp_path / "a.svg").exists()
