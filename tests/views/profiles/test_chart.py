"""All vendors on one chart: each file in its colour, all roofs, written as a picture and on the page."""

from __future__ import annotations

from pathlib import Path

import pytest

import rooflab

_SAMPLES = Path(__file__).parents[2] / "samples"


@pytest.fixture(scope="module")
def several():
    """Kernels of an H200, a CPU's applications and another card's roofs."""
    return rooflab.load(
        _SAMPLES / "h200" / "ncu_raw.csv",
        _SAMPLES / "profiles" / "carm_applications" / "node9_applications.csv",
        _SAMPLES / "profiles" / "mixbench" / "cuda.txt",
    )


def test_a_picture_names_files_machines_and_roofs(several, tmp_path):
    several.save(tmp_path / "all.svg")
    drawn = (tmp_path / "all.svg").read_text()
    for said in ("ncu_raw.csv", "node9_applications.csv", "Example GPU (mixbench)", "HBM 4.80 TB/s", "dgemm"):
        assert said in drawn


@pytest.mark.slow
def test_the_page_has_it_too(several, tmp_path):
    several.save(tmp_path / "all.html")
    page = (tmp_path / "all.html").read_text()
    assert 'id="roofline"' in page
    for said in ("ncu_raw.csv", "node9_applications.csv", "Example GPU (mixbench)"):
        assert said in page
