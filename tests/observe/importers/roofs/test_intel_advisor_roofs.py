"""Advisor's report of roofs: the sample is built from the documented schema, not written by the tool."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflab.errors import FileError
from rooflab.observe.importers import load

SAMPLE = Path(__file__).parents[3] / "samples" / "profiles" / "intel_advisor_roofs" / "roofs.csv"


def test_roofs_become_a_machine():
    """Of two nodes 78 GB/s, of one thread 15; those of a single node are neither and are left out."""
    machine = load(SAMPLE)
    dram = machine.level("DRAM")
    assert {rate.scope: rate.value for rate in dram.rates} == {"all": 78e9, "core": 15e9}
    assert [level.name for level in machine.levels] == ["L1", "L2", "L3", "DRAM"]
    assert machine.peak("fp64").value == 1.3e12
    assert machine.peak("fp64", scope="core").value == 50e9
    assert machine.peak("fp32").basis == "attained"
    # Of no number format: no FLOP of a certain one are held against it.
    assert [(peak.what, peak.dtype) for peak in machine.peaks if peak.engine == "scalar"] == [("add", None)]
    assert [peak.per_s for peak in machine.peaks if peak.dtype == "int64"] == ["op"]


def test_roofs_of_a_gpu_alone_are_not_a_cpus(tmp_path):
    path = tmp_path / "roofs.csv"
    path.write_text("L3 Bandwidth,5e11,memory,GPU\nSP Vector FMA Peak,1e12,compute,GPU\n", encoding="utf-8")
    with pytest.raises(FileError) as caught:
        load(path)
    assert "it has roofs of GPU" in str(caught.value)
