"""carm-roofline's applications.csv. The sample is built from the documented layout (utils.py), not by the tool."""

from __future__ import annotations

from pathlib import Path

import pytest

import rooflab
from rooflab.observe.importers.counters import carm_applications

SAMPLE = Path(__file__).parents[3] / "samples" / "profiles" / "carm_applications" / "node9_applications.csv"


def test_applications_are_rows():
    counters = carm_applications.load(SAMPLE)
    spmv, dgemm, copy = counters.rows
    # 12.5 GFLOP/s at 0.125 FLOP/byte, for 2 s
    assert spmv.total_flop == pytest.approx(25e9)
    assert spmv.at("L1").nbytes == pytest.approx(200e9)
    assert spmv.at("DRAM") is None
    assert (dgemm.time_s, copy.flop) == (0.5, ())


def test_a_profile_of_them():
    profile = rooflab.load(SAMPLE)
    assert [row.name for row in profile.rows] == ["spmv", "copy", "dgemm"]
    assert profile.rows[0].flop_per_s == pytest.approx(12.5e9)


def test_intensity_that_contradicts_the_rates_is_said(tmp_path):
    path = tmp_path / "odd.csv"
    path.write_text(SAMPLE.read_text().replace(",0.125,", ",0.5,"))
    assert any("of 1 rows AI is not" in note for note in carm_applications.load(path).notes)


def test_bad_rows_are_counted(tmp_path):
    path = tmp_path / "bad.csv"
    path.write_text(SAMPLE.read_text().replace("100.0,2.0", "100.0,nan") + "cut,line\n")
    counters = carm_applications.load(path)
    assert [row.name for row in counters.rows] == ["dgemm", "copy"]
    assert counters.dropped[0].count == 2
