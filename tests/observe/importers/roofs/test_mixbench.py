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


def test_the_table_of_versions_without_iterations(tmp_path):
    path = tmp_path / "old.txt"
    path.write_text(
        "mixbench\nDevice:              Example\nMemory bandwidth:    1024.00 GB/sec\nBuffer size: 256MB\n"
        "------- CSV data -------\n"
        "Single Precision ops,,,,              Double precision ops,,,,              Integer operations,,,\n"
        "Flops/byte, ex.time,  GFLOPS, GB/sec, Flops/byte, ex.time, GFLOPS, GB/sec, Iops/byte, ex.time, GIOPS\n"
        "     2.000,  60.00,  560.00, 280.00,    1.000,  142.00,  241.00, 241.00, 2.000, 65.00, 526.00, 263.00\n"
        "       inf,   30.00, 2259.00,   0.00,        inf,  229.00,  299.00,   0.00,   inf, 42.00, 1631.00, 0.00\n"
    )
    assert mixbench.sniff(path.read_bytes())
    machine = mixbench.load(path)
    assert (machine.peak("fp32").value, machine.peak("fp64").value) == (2259e9, 299e9)
    assert machine.level("DRAM").rate("read", basis="attained").value == 280e9
    assert len(machine.points) == 2
