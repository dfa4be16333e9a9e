"""carm-roofline's CSV (case C19). The samples are built from the documented layout (run.py), not by the tool."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflab.errors import FileError
from rooflab.observe.importers.roofs import carm

SAMPLES = Path(__file__).parents[3] / "samples" / "profiles" / "carm"


def test_columns_of_one_name_are_told_by_the_row_above_them():
    machine = carm.load(SAMPLES / "node9_roofline.csv")
    assert machine.name == "node9 (carm-roofline)"
    assert machine.level("L1").rate("triad").value == 6100.5e9  # 2 loads to 1 store
    assert machine.level("L1").rate("read").value == 4100e9  # 1 load to 0
    assert machine.level("DRAM").rate("triad", scope="core").value == 14.5e9
    assert machine.level("L1").capacity_bytes == 48 * 1024


def test_nothing_is_absent_and_no_roof():
    machine = carm.load(SAMPLES / "node9_roofline.csv")
    assert [level.name for level in machine.levels] == ["L1", "L2", "DRAM"]
    # FP Inst. fma has 0 under FP FMA: its number stands under FP
    fma = machine.peak("fp32", scope="all")
    assert (fma.value, fma.what) == (4800e9, "fma")
    assert [rate.value for rate in machine.peaks if rate.dtype == "fp64" and rate.scope == "all"] == [
        1200.5e9,
        2400.75e9,
    ]


def test_gbps_of_the_memory_curve_are_bytes():
    machine = carm.load(SAMPLES / "node9_memory_curve.csv")
    (curve,) = machine.curves
    assert curve.x[:3] == (2048.0, 16384.0, 49152.0)
    assert curve.best[0] == 380e9
    # within 48 KiB: sizes of 2 and 16 KiB; within 2 MiB: 512 KiB; beyond 8 MiB: 65,536 and 524,288 KiB
    rates = {level.name: level.rates[0].value for level in machine.levels}
    assert rates == {"L1": (380e9 + 395e9) / 2, "L2": 150e9, "DRAM": 14.5e9}


def test_lines_of_other_lengths_are_counted(tmp_path):
    path = tmp_path / "cut.csv"
    path.write_text((SAMPLES / "node9_roofline.csv").read_text() + "2024,avx\n")
    assert "1 line could not be used" in carm.load(path).note


def test_no_number_is_one_sentence(tmp_path):
    path = tmp_path / "none.csv"
    path.write_text("".join((SAMPLES / "node9_roofline.csv").read_text().splitlines(keepends=True)[:2]))
    with pytest.raises(FileError, match=r"none.csv: carm-roofline's output has no rate"):
        carm.load(path)
