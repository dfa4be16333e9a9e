"""A run on the terminal, as a page and in files: what is known is shown, what is not is a dash or a sentence."""

from __future__ import annotations

import csv
import io

import pytest

import rooflab
from rooflab import views
from rooflab.types.run import Run
from rooflab.types.usage import Usage

USAGE = Usage(wall_s=2.0, user_s=1.5, system_s=0.1, peak_memory_bytes=500_000_000, minor_faults=1234)


def run(**more) -> Run:
    return Run(**{"command": ("./a b", "<script>"), "usage": (USAGE,), "exit_code": 0, **more})


def shown(result: Run) -> str:
    out = io.StringIO()
    views.show(result, out)
    return out.getvalue()


def test_the_heading_is_the_command_with_its_time_and_cores():
    assert shown(run()).splitlines()[0] == "'./a b' '<script>': 2.00 s, 0.80 cores busy"  # (1.5 + 0.1) / 2


def test_a_failed_command_is_said_before_any_number():
    assert "failed with exit code 3" in shown(run(exit_code=3)).splitlines()[1]
    assert "Killed by SIGKILL" in shown(run(exit_code=137, signal="SIGKILL")).splitlines()[1]


def test_what_the_system_does_not_say_is_left_out_and_never_zero():
    text = shown(run())
    assert "storage" not in text
    assert "500 MB" in text
    small = Usage(wall_s=2.0, user_s=1.5, system_s=0.1, least_memory_bytes=40_000_000)
    assert "under 40.0 MB" in shown(run(usage=(small,)))


def test_several_runs_stand_side_by_side_under_the_median():
    slow = Usage(wall_s=3.0, user_s=1.5, system_s=0.1)
    slower = Usage(wall_s=4.0, user_s=1.5, system_s=0.1)
    text = shown(run(usage=(slower, USAGE, slow)))
    assert "3.00 s, the median of 3 runs" in text
    assert "run 3" in text


def test_what_lacks_is_said_last():
    assert "no counters here" in shown(run(lacks=("no counters here",))).split("What the system says")[1]


def test_it_comes_back_from_its_file(tmp_path):
    one = run(lacks=("x",))
    one.save(tmp_path / "run.json")
    assert rooflab.load(tmp_path / "run.json") == one


@pytest.mark.parametrize("suffix", [".html", ".svg", ".md", ".csv"])
def test_every_file_is_written_and_escaped(tmp_path, suffix):
    path = tmp_path / f"run{suffix}"
    run().save(path)
    text = path.read_text(encoding="utf-8")
    assert "<script>'" not in text
    assert len(text) > 100


def test_csv_has_a_line_for_each_run_in_base_units(tmp_path):
    path = tmp_path / "run.csv"
    run(usage=(USAGE, USAGE)).save(path)
    rows = list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))
    assert [row["run"] for row in rows] == ["1", "2"]
    assert rows[0]["wall_s"] == "2"
    assert rows[0]["storage_read_bytes"] == ""
