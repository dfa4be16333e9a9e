"""A real Dask cluster on this host: a worker that dies, one made slow, another version, a dead scheduler."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest

import rooflab
from rooflab.cli import cli
from rooflab.errors import RooflabError
from rooflab.executors import cluster, over
from support import fleet_work
from support.observe.rank_files import run as rank_files

distributed = pytest.importorskip("distributed")

pytestmark = [
    pytest.mark.slow,
    # What Dask and tornado leave to be collected when workers are killed.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
WORKERS = 5


@pytest.fixture(scope="module")
def scheduler():
    """The address of the scheduler of a cluster of five processes, each with a nanny that starts it anew."""
    with distributed.LocalCluster(
        n_workers=WORKERS, threads_per_worker=1, dashboard_address=None, silence_logs=60
    ) as local:
        yield local.scheduler_address


def test_items_come_back_and_a_failing_one_loses_no_other(scheduler):
    with over(scheduler) as workers:
        assert workers.name == f"{WORKERS} workers of Dask at {scheduler}"
        assert len({place.worker for place in workers.places()}) == WORKERS
        assert len({place.host for place in workers.places()}) == 1
        found = sorted(workers.each(fleet_work.picky, range(3)))
    assert [one.value for one in found] == [0, None, 2]
    assert found[1].failed == "ValueError: one\nis too many"


@pytest.fixture
def client(scheduler):
    """A client of that scheduler."""
    with distributed.Client(scheduler, set_as_default=False) as one:
        yield one


@pytest.mark.alone
def test_a_worker_that_copies_thirty_times_over_is_named_with_the_evidence(scheduler, client):
    victim = sorted(client.nthreads())[2]
    client.run(fleet_work.slow_down, 30, workers=[victim])
    for _ in range(3):  # five workers on two cores: where the other four scatter too much, nobody stands apart
        fleet = rooflab.fleet_measure(scheduler, each="worker", measure=fleet_work.copying)
        if fleet.suspects:
            break
    client.run(fleet_work.slow_down, 1, workers=[victim])
    assert len(fleet.nodes) == WORKERS
    assert not fleet.failed
    (name,) = fleet.suspects
    assert name.endswith(victim.rpartition("://")[2])
    (slow,) = [each for each in fleet.slow if each.node == name]
    assert slow.quantity == "DRAM copy, one core"
    assert slow.speed < 0.5
    assert slow.deviations > slow.cutoff == fleet.quantities[0].cutoff
    assert slow.confirmed
    assert fleet[name].again is not None
    assert f"{name} is slow in DRAM copy, one core: " in fleet.verdict[0]
    # Of one host there is one node, whichever worker it is that measures.
    assert len(rooflab.fleet_measure(scheduler, measure=fleet_work.copying).nodes) == 1


def test_ranks_are_read_by_workers_as_they_are_here(scheduler, tmp_path):
    rank_files(tmp_path, [[10.0, 20.0], [30.0, 20.0], [10.0, 50.0]])
    here = rooflab.load(tmp_path, workers=1)
    assert here.ranks is not None
    assert rooflab.load(tmp_path, on=scheduler) == here


def test_what_a_lost_worker_was_doing_is_done_again(scheduler, tmp_path):
    with over(scheduler) as workers:
        found = sorted(workers.each(fleet_work.die_once, [(n, tmp_path) for n in range(4)]))
        assert [one.value for one in found] == [0, 1, 2, 3]
        (note,) = workers.notes
    assert note.startswith("lost: tcp://127.0.0.1:")


def test_an_item_of_a_lost_workers_own_goes_to_another_of_its_host(scheduler, tmp_path):
    with over(scheduler) as workers:
        places = workers.places()[:2]
        found = sorted(workers.each(fleet_work.die_once, [(n, tmp_path) for n in range(2)], at=places))
    assert [(one.value, one.tries) for one in found] == [(0, 1), (1, 2)]
    assert found[1].worker != places[1].worker


def test_a_worker_that_dies_while_it_measures_loses_no_node(client, tmp_path):
    # A client of Dask, or the executor that it gives, is as good as an address.
    fleet = rooflab.fleet_measure(
        client.get_executor(), each="worker", measure=fleet_work.dying_measure(tmp_path), again=False
    )
    # Nannies of workers that other tests killed may not have started them anew yet.
    assert 2 <= len(fleet.nodes) <= WORKERS
    assert not fleet.failed
    assert sorted(node.tries for node in fleet.nodes) == [1] * (len(fleet.nodes) - 1) + [2]
    assert any(note.startswith("lost: tcp://127.0.0.1:") for note in fleet.notes)


def test_workers_with_another_version_are_refused_by_both_versions(scheduler, client, tmp_path):
    (tmp_path / "rooflab").mkdir()
    (tmp_path / "rooflab" / "__init__.py").write_text('__version__ = "0.0.9"\n', encoding="utf-8")
    command = [sys.executable, "-m", "distributed.cli.dask_worker", scheduler, "--no-nanny", "--name", "other"]
    other = subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": str(tmp_path)}, stderr=subprocess.DEVNULL, cwd=tmp_path
    )
    try:
        until = time.monotonic() + 60
        while not any(each["name"] == "other" for each in client.scheduler_info(-1)["workers"].values()):
            assert time.monotonic() < until
            time.sleep(0.1)
        with pytest.raises(RooflabError) as caught, over(scheduler):
            pass
    finally:
        other.kill()
        other.wait()
    expected = rf"{scheduler}: rooflab {rooflab.__version__} here, but tcp://127\.0\.0\.1:\d+ has 0\.0\.9: install"
    assert caught.match(expected)


def test_a_dead_scheduler_is_one_line_and_exit_code_two(monkeypatch, capsys):
    monkeypatch.setattr(cluster, "CONNECT_S", 0.5)
    begun = time.monotonic()
    with pytest.raises(RooflabError, match=r"^tcp://127\.0\.0\.1:1: no Dask scheduler answers \(") as caught:
        cli.main(["fleet", "measure", "--on", "tcp://127.0.0.1:1"], standalone_mode=False)
    assert time.monotonic() - begun < 5
    assert "\n" not in str(caught.value)
    assert capsys.readouterr().err == ""


CLUSTER = """
import time
from distributed import LocalCluster
if __name__ == "__main__":
    how = {"dashboard_address": None, "processes": False, "protocol": "tcp://"}
    with LocalCluster(n_workers=1, **how) as local:
        print(local.scheduler_address, flush=True)
        time.sleep(120)
"""


def test_a_scheduler_that_is_lost_in_the_middle_is_said(tmp_path, capfd):
    script = tmp_path / "cluster.py"
    script.write_text(CLUSTER, encoding="utf-8")
    quiet = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    process = subprocess.Popen([sys.executable, script], **quiet)
    killer = threading.Timer(1.0, process.kill)
    done = []
    try:
        address = process.stdout.readline().strip()
        with over(address) as workers:
            outcomes = workers.each(time.sleep, [0.1, 60])
            done.append(next(outcomes))
            killer.start()
            with pytest.raises(RooflabError, match="the Dask scheduler is gone"):
                next(outcomes)
    finally:
        killer.cancel()
        process.kill()
        process.wait()
        process.stdout.close()
    assert [(one.at, one.failed) for one in done] == [(0, None)]
    assert capfd.readouterr().err == ""
