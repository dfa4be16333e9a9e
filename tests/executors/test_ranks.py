"""Ranks of a job that meet in a folder: results merged, a lost rank's work done again, whom it is trusted from."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import pytest

from rooflab.errors import FileError, RooflabError
from rooflab.executors import merges, over
from rooflab.executors.ranks import Job, Ranks, job
from rooflab.executors.work import Answer
from support import fleet_work

SRUN = {"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "8", "SLURM_JOB_ID": "17", "SLURM_STEP_ID": "0"}


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        (SRUN, Job("srun", 3, 8, "17-0")),
        ({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"}, Job("mpirun", 0, 2, "")),
        ({"PMI_RANK": "1", "PMI_SIZE": "2", "PMI_KVSNAME": "kvs_1/x"}, Job("mpiexec", 1, 2, "kvs_1-x")),
        ({"RANK": "1", "WORLD_SIZE": "2", "MASTER_PORT": "29500"}, Job("torchrun", 1, 2, "29500")),
    ],
)
def test_launchers_say_which_rank_this_is(environment, found):
    assert job(environment) == found


def test_without_a_job_ranks_are_refused_and_so_is_a_batch_script(monkeypatch):
    # What sbatch sets for its script, which is no step: SLURM_NTASKS, not SLURM_STEP_NUM_TASKS.
    with pytest.raises(RooflabError, match="the environment tells of none: expected SLURM_PROCID and SLURM_STEP"):
        job({"SLURM_PROCID": "0", "SLURM_NTASKS": "64", "SLURM_JOB_ID": "17"})
    with pytest.raises(RooflabError, match="RANK is 2, expected less than WORLD_SIZE, which is 2"):
        job({"RANK": "2", "WORLD_SIZE": "2"})


def test_ranks_do_their_share_and_the_first_has_all(tmp_path):
    program = (
        "import sys\nfrom operator import neg\nfrom rooflab.executors import over\n"
        f"with over({'ranks:' + str(tmp_path)!r}) as many:\n"
        "    print(sorted((one.at, one.value) for one in many.each(neg, [1, 2, 3, 4, 5])), many.merges)\n"
        f"with over({'ranks:' + str(tmp_path)!r}) as many:\n"
        "    print(sorted(one.value for one in many.each(neg, [1, 2])))\n"
    )
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "3"},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(3)
    ]
    said = [each.communicate(timeout=60)[0].splitlines() for each in ranks]
    assert said[0] == ["[(0, -1), (1, -2), (2, -3), (3, -4), (4, -5)] True", "[-2, -1]"]
    assert said[1] == ["[(1, -2), (4, -5)] False", "[-2]"]
    assert said[2] == ["[(2, -3)] False", "[]"]
    assert not [path for path in tmp_path.iterdir() if ".call" in path.name]


def test_what_a_lost_rank_leaves_is_done_by_the_first(tmp_path):
    # Of three ranks one wrote what it had of its two items, and fell silent; one never came.
    with Ranks(Job("srun", 0, 3, "x"), str(tmp_path), dead_s=0.3, late_s=0.6) as first:
        (tmp_path / f"{first._stem}.alive.1").write_bytes(b"12345678")
        (tmp_path / f"{first._stem}.call1.1").write_bytes(pickle.dumps(Answer("of rank 1", None)))
        found = sorted(first.each(fleet_work.square, [0, 1, 2, 3, 4]))
    assert [one.value for one in found] == [0, "of rank 1", 4, 9, 16]
    assert [one.worker for one in found] == ["rank 0", "rank 1", "rank 0", "rank 0", "rank 0"]
    assert [one.tries for one in found] == [1, 1, 2, 1, 2]
    assert sorted(first.notes) == [
        "rank 1 was lost: its work done by rank 0",
        "rank 2 was lost: its work done by rank 0",
    ]
    assert not list(tmp_path.iterdir())


def test_what_only_a_lost_rank_could_do_has_failed(tmp_path):
    with Ranks(Job("srun", 0, 2, "x"), str(tmp_path), dead_s=0.2, late_s=0.3) as first:
        found = sorted(first.each(fleet_work.square, [3, 3], at=first.places()))
    assert [one.failed for one in found] == [None, "rank 1 was lost, or never came"]


def test_what_an_earlier_job_left_is_not_read(tmp_path):
    with Ranks(Job("mpirun", 0, 2, ""), str(tmp_path), dead_s=0.2, late_s=0.3) as first:
        stale = tmp_path / f"{first._stem}.call1.1"
        stale.write_bytes(pickle.dumps(Answer("of last week", None)))
        os.utime(stale, (0, 0))
        found = sorted(first.each(fleet_work.square, [0, 1]))
    assert [one.value for one in found] == [0, 1]


def test_folders_that_others_may_write_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert merges(f"ranks:{tmp_path}")
    with pytest.raises(FileError, match="no such folder"), over(f"ranks:{tmp_path / 'none'}"):
        pass
    tmp_path.chmod(0o777)
    with pytest.raises(FileError, match="others may write there"), over(f"ranks:{tmp_path}"):
        pass
    monkeypatch.setenv("RANK", "1")
    assert not merges(f"ranks:{tmp_path}")
