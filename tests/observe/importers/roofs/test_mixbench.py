"""mixbench's output. The samples are built from the documented layout (its kernels' printf), not by the tool."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflab.errors import FileError
from rooflab.observe.importers.roofs import mixbench

SAMPLES = Path(__file__).parents[3] / "samples" / "profiles" / "mixbench"


def test_peaks_bandwidth_and_points():
    machine = mixbench.load(SAMPLES / "cuda.txt")
    memory = machine.level("DRAM")
    assert memory.rate("read", basis="attained").value == 280e9
    assert memory.rate("any", basis="theoretical").value == 300e9
    assert machine.peak("fp32", basis="attained").value == 7400e9
    assert machine.peak("fp32", basis="theoretical").value == 7680e9
    assert machine.peak("fp16", basis="attained").value == 7500e9
    (integers,) = [rate for rate in machine.peaks if rate.dtype == "int32"]
    assert integers.per_s == "op"
    # 2^25 floats, 2 × 8 + 1 operations each: 17/4 FLOP/byte
    (point,) = [one for one in machine.points if one.name == "fp32, 8 iterations"]
    assert point.intensity == pytest.approx(17 / 4, rel=0.01)
    assert len(machine.points) == 3 * 11


def test_what_a_cache_served_is_not_the_bandwidth():
    """Cases A36 and the row `inf`: 309.80 and 406.50 GB/s on a card of 192 GB/s are not its memory's."""
    machine = mixbench.load(SAMPLES / "alternating.txt")
    assert machine.level("DRAM").rate("read").value == 190e9
    assert any("2 of 9 kernels" in check.message for check in machine.checks if not check.ok)
    # 4541 and the row without bytes: a peak, but no point
    assert machine.peak("fp32", basis="attained").value == 4541e9
    assert not any("32 iterations" in point.name for point in machine.points)


def test_a_line_that_lost_a_cell_is_counted(tmp_path):
    path = tmp_path / "cut.txt"
    lines = (SAMPLES / "alternating.txt").read_text().splitlines()
    lines[-3] = lines[-3].rpartition(",")[0]
    path.write_text("\n".join(lines))
    assert "1 line could not be used" in mixbench.load(path).note


def test_no_row_is_one_sentence(tmp_path):
    path = tmp_path / "none.txt"
    path.write_text((SAMPLES / "cuda.txt").read_text().partition("Compute iters")[0])
    with pytest.raises(FileError, match=r"none.txt: mixbench's output has no rate"):
        mixbench.load(path)
