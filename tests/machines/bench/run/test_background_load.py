"""What others used of the CPUs, from a made-up /proc/stat."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rooflab.machines.bench.run.background_load import BackgroundLoad, CpuTime, background_load, cpu_time

# user nice system idle iowait irq softirq steal guest guest_nice
STAT = """cpu  1 2 3 4 5 6 7 8 9 10
cpu0 100 20 30 4000 500 6 7 80 90 0
cpu1 1 1 1 4000 500 1 1 3 0 0
cpu10 7000 0 0 0 0 0 0 0 0 0
intr 12345
ctxt 1
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/stat").write_text(STAT)
    return tmp_path


@pytest.mark.parametrize(
    ("cpus", "busy", "stolen"),
    [
        # user + nice + system + irq + softirq; idle, iowait and steal are no work; guest lies within user
        ((0,), 100 + 20 + 30 + 6 + 7, 80),
        ((0, 1), 163 + 5, 83),
        ((1,), 5, 3),  # not cpu10
        ((10,), 7000, 0),
        ((7,), 0, 0),
    ],
)
def test_busy_is_all_work_and_stolen_is_apart(root: Path, cpus: tuple[int, ...], busy: int, stolen: int) -> None:
    tick = os.sysconf("SC_CLK_TCK")
    found = cpu_time(cpus, root)
    assert found is not None
    assert found.busy_s == pytest.approx(busy / tick)
    assert found.stolen_s == pytest.approx(stolen / tick)
    assert found.own_s > 0


def test_without_proc_stat_nothing_is_known(tmp_path: Path) -> None:
    assert cpu_time((0,), tmp_path) is None


def test_an_old_kernel_without_steal(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/stat").write_text("cpu0 100 20 30 4000\n")
    found = cpu_time((0,), tmp_path)
    assert found is not None
    assert (found.busy_s, found.stolen_s) == (0, 0)


def test_own_time_is_all_threads(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    monkeypatch.setattr(os, "times", lambda: os.times_result((3.0, 4.0, 50.0, 60.0, 1.0)))
    found = cpu_time((0,), root)
    assert found is not None
    assert found.own_s == 7.0  # user + system, of this process and not of its children


@pytest.mark.parametrize(
    ("before", "after", "cpus", "expected"),
    [
        # 10 s on 2 CPUs: 20 s in all; 15 s were busy, 12 of them ours
        (CpuTime(0, 0, 0, 0), CpuTime(10, 12, 15, 1), 2, BackgroundLoad(3 / 20, 1 / 20)),
        (CpuTime(5, 1, 100, 7), CpuTime(6, 2, 101, 7), 1, BackgroundLoad(0, 0)),
        # ticks of 10 ms can make us seem busier than the CPUs: nobody else, not less than nobody
        (CpuTime(0, 0, 0, 0), CpuTime(1, 1.01, 1, 0), 1, BackgroundLoad(0, 0)),
        (None, CpuTime(1, 1, 1, 1), 1, None),
        (CpuTime(1, 1, 1, 1), None, 1, None),
        (CpuTime(1, 1, 1, 1), CpuTime(1, 1, 1, 1), 1, None),  # no time has passed
    ],
)
def test_background_load_is_what_is_left_of_the_busy_time(
    before: CpuTime | None, after: CpuTime | None, cpus: int, expected: BackgroundLoad | None
) -> None:
    found = background_load(before, after, cpus)
    if expected is None:
        assert found is None
    else:
        assert found is not None
        assert (found.others, found.stolen) == pytest.approx((expected.others, expected.stolen))
