"""rocprof-compute's roofline.csv, built from the headings in its benchmark's source, not written by the tool."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflab.errors import FileError
from rooflab.observe.importers.roofs.rocprof_compute_roofline import load

SAMPLE = Path(__file__).parents[3] / "samples" / "profiles" / "rocprof_compute_roofline" / "roofline.csv"


def test_levels_and_peaks_of_the_first_device():
    """The header misspells "hbmBwHigh" and "MFMAFI8OpsLow", as the tool does; 0 is what was not measured."""
    found = load(SAMPLE)
    rates = {level.name: level.rates[0] for level in found.levels}
    assert {name: rate.value for name, rate in rates.items()} == {
        "LDS": 12_500e9,
        "L1": 6_100e9,
        "L2": pytest.approx(3_200.5e9),
        "HBM": pytest.approx(1_389.1e9),
    }
    assert rates["HBM"].basis == "attained"
    assert "1.38 T to 1.40 T" in (rates["HBM"].note or "")
    peaks = {(rate.engine, rate.dtype): (rate.value, rate.per_s) for rate in found.peaks}
    assert peaks == {
        ("vector", "fp64"): (19_800e9, "flop"),
        ("vector", "fp32"): (20_000e9, "flop"),
        ("matrix", "fp64"): (38_100e9, "flop"),
        ("matrix", "fp32"): (38_000e9, "flop"),
        ("matrix", "bf16"): (150_000e9, "flop"),
        ("matrix", "fp16"): (151_000e9, "flop"),
        ("matrix", "int8"): (152_000e9, "op"),
    }
    assert "devices 1 of the file are within 1.0 % of this one" in (found.note or "")


def test_formats_of_newer_versions(tmp_path):
    path = tmp_path / "roofline.csv"
    path.write_text(
        "devID,MFMAF4Flops,MFMAF6Flops,MFMAXF32Flops,BF16Flops,I32Ops,HBMBw\n0,9769632,8810305,1,2,3,6237.3418\n",
        encoding="utf-8",
    )
    found = load(path)
    assert {(rate.engine, rate.dtype) for rate in found.peaks} == {
        ("matrix", "fp4"),
        ("matrix", "fp6"),
        ("matrix", "tf32"),
        ("vector", "bf16"),
        ("vector", "int32"),
    }
    assert found.level("HBM").rates[0].note == "mean of the benchmark's runs"


def test_a_device_that_was_skipped_is_said(tmp_path):
    path = tmp_path / "roofline.csv"
    path.write_text("device,HBMBw,L2Bw,FP32Flops\n0,0,0,0\n1,1000,nan,-5\n", encoding="utf-8")
    found = load(path)
    assert [level.name for level in found.levels] == ["HBM"]
    assert not found.peaks
    assert "lines of 1 devices have no rate" in (found.note or "")


def test_nothing_measured(tmp_path):
    path = tmp_path / "roofline.csv"
    path.write_text("device,HBMBw,L2Bw,FP32Flops\n0,0,0,0\n", encoding="utf-8")
    with pytest.raises(FileError, match="none of the 1 devices") as caught:
        load(path)
    assert str(caught.value).startswith(str(path))
