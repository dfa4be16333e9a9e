"""The command `fleet measure`: what it runs, what it says, its exit codes."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from click.testing import CliRunner

import rooflab
from rooflab.cli import cli
from rooflab.errors import FileError, RooflabError
from rooflab.machines.fleet import measured_there
from rooflab.machines.fleet.measured_there import Ticket
from support import fleet_work


@pytest.fixture
def measuring(tmp_path, monkeypatch):
    """A `rooflab` that answers `measure --json` at once, in the processes that are started, as its code says."""

    def be(code):
        package = tmp_path / "path" / "rooflab"
        package.mkdir(parents=True, exist_ok=True)
        (package / "__init__.py").touch()
        (package / "__main__.py").write_text(code, encoding="utf-8")
        monkeypatch.setenv("PYTHONPATH", str(package.parent))
        monkeypatch.chdir(tmp_path)

    return be


def asked(**changes):
    return Ticket(**{"run": "a run", "once": False, "arguments": ("--quick",), **changes})


def test_measure_runs_in_a_process_of_its_own_and_without_what_dask_sets(measuring, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    measuring("import os, sys, json; print(json.dumps([sys.argv[1:], os.environ.get('OMP_NUM_THREADS')]))")
    assert json.loads(measured_there.measured_there(asked()).machine) == [["measure", "--json", "--quick"], "1"]
    found = measured_there.measured_there(asked(without=("OMP_NUM_THREADS",)))
    assert json.loads(found.machine)[1] is None
    assert found.hostname == os.uname().nodename


def test_a_measurement_that_fails_is_its_last_line(measuring):
    measuring("import sys; print('noise', file=sys.stderr); sys.exit('rooflab: 20 MB are granted')")
    with pytest.raises(RooflabError, match=r"^rooflab measure on \S+: 20 MB are granted$"):
        measured_there.measured_there(asked())


def test_a_measurement_that_hangs_is_ended(measuring, monkeypatch):
    measuring("import time; time.sleep(60)")
    monkeypatch.setattr(measured_there, "LIMIT_S", 0.5)
    with pytest.raises(RooflabError, match="took more than 0 s"):
        measured_there.measured_there(asked())


def test_a_host_is_measured_once_in_a_run_where_that_is_asked(measuring):
    measuring("print('{}')")
    ticket = asked(run=os.urandom(8).hex(), once=True)
    assert measured_there.measured_there(ticket).machine == b"{}\n"
    assert measured_there.measured_there(ticket).machine is None
    assert measured_there.measured_there(ticket._replace(once=False)).machine == b"{}\n"


def test_this_host_twice_over(tmp_path):
    fleet = rooflab.fleet_measure(each="worker", workers=2, measure=fleet_work.copying)
    assert [node.name.split()[-2:] for node in fleet.nodes] == [["process", "1"], ["process", "2"]]
    assert fleet.name == "2 nodes: too few to tell a slow one"
    fleet.save(tmp_path / "fleet.json")
    assert rooflab.load(tmp_path / "fleet.json") == fleet
    assert len(rooflab.fleet_measure(measure=fleet_work.copying, workers=2).nodes) == 1


def test_bad_words_are_refused_before_measuring(tmp_path):
    with pytest.raises(RooflabError, match="each: got 'socket', expected 'host' or 'worker'"):
        rooflab.fleet_measure(each="socket")
    with pytest.raises(FileError, match=r"there is no folder"):
        cli.main(["fleet", "measure", "-o", str(tmp_path / "no" / "x.html")], standalone_mode=False)
    refused = CliRunner().invoke(cli, ["fleet", "measure", "--workers", "0"])
    assert refused.exit_code == 2


def test_no_node_measured_is_an_error_with_the_reason():
    def fails():
        raise RooflabError("too little memory")

    with ThreadPoolExecutor(1) as executor, pytest.raises(RooflabError, match="no node was measured: too little"):
        rooflab.fleet_measure(executor, measure=fails)
