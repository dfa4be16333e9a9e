"""ERT's roofline.json. The sample is built from the documented schema (ert_core.py), not by the tool."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rooflab.errors import FileError
from rooflab.observe.importers.roofs import ert

SAMPLE = Path(__file__).parents[3] / "samples" / "profiles" / "ert" / "roofline.json"


def _of(tmp_path, change):
    raw = json.loads(SAMPLE.read_text())
    change(raw)
    path = tmp_path / "roofline.json"
    path.write_text(json.dumps(raw))
    return ert.load(path)


def test_empirical_is_attained_and_spec_theory():
    machine = ert.load(SAMPLE)
    assert (machine.name, machine.kind) == ("node7 (ERT)", "cpu")
    assert [level.name for level in machine.levels] == ["L1", "L2", "L3", "DRAM"]
    assert machine.level("DRAM").rate("any", basis="attained").value == 95.5e9
    assert machine.level("DRAM").rate("any", basis="theoretical").value == 128e9
    assert machine.peak("fp64", basis="attained").value == 812.5e9
    assert machine.peak("fp64", basis="theoretical").value == 1024e9


def test_more_than_specified_fails_a_check(tmp_path):
    machine = _of(tmp_path, lambda raw: raw["spec"]["gbytes"].update(data=[["DRAM", 90.0]]))
    (failed,) = [check for check in machine.checks if not check.ok]
    assert "106 %" in failed.message


def test_pairs_that_are_none_are_counted(tmp_path):
    machine = _of(
        tmp_path,
        lambda raw: raw["empirical"]["gbytes"].update(data=[["L1", "fast"], ["DRAM", 95.5], ["L2", -1], [3, 4]]),
    )
    assert [level.name for level in machine.levels] == ["DRAM"]
    assert "3 lines could not be used" in machine.note


def test_a_gpu_and_its_precision_are_told_by_the_metadata(tmp_path):
    machine = _of(tmp_path, lambda raw: raw["empirical"]["metadata"].update(GPU_BLOCKS=640, ERT_PRECISION="FP32"))
    assert (machine.kind, machine.peaks[0].dtype) == ("gpu", "fp32")


def test_a_cut_file_is_one_sentence(tmp_path):
    path = tmp_path / "cut.json"
    path.write_text(SAMPLE.read_text()[:300])
    with pytest.raises(FileError, match=r"cut.json: ERT's roofline.json cannot be read"):
        ert.load(path)
