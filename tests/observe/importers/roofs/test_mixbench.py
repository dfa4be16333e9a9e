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


_HEAD = """------------------------ Device specifications ------------------------
Device:              Some GPU
Memory bandwidth:    50.00 GB/sec
-----------------------------------------------------------------------
Buffer size:          256MB
------------------------------------ CSV data ------------------------------------
"""


def test_groups_of_number_formats_that_stand_between(tmp_path):
    """mixbench-hip has packed single precision between single and double: each group keeps its own cells."""
    path = tmp_path / "out.txt"
    path.write_text(
        _HEAD
        + """Experiment ID, Single Precision ops,,,, Packed Single Precision ops,,,, Double precision ops,,,, X,,,,
Compute iters, Flops/byte, ex.time, GFLOPS, GB/sec, Flops/byte, ex.time, GFLOPS, GB/sec, a, b, c, d, e, f, g, h
 0,   0.250, 10.0,   10.0, 40.0,   0.250, 10.0,   11.0, 44.0,   0.125, 10.0,   5.0, 40.0,  1, 1, 9999.0, 9999.0
 64, 16.250, 10.0,  400.0, 24.6,  16.250, 10.0,  700.0, 43.1,   8.125, 10.0, 200.0, 24.6,  1, 1, 9999.0, 9999.0
"""
    )
    machine = mixbench.load(path)
    assert machine.peak("fp32", basis="attained").value == 700e9  # the packed kernel's
    assert machine.peak("fp64", basis="attained").value == 200e9
    assert machine.level("DRAM").rate("read").value == 44e9
    assert {"fp32, 64 iterations", "packed fp32, 64 iterations"} <= {point.name for point in machine.points}


def test_a_stated_theory_that_most_kernels_exceed_is_not_believed(tmp_path):
    """As in mixbench's results of a Radeon RX 460 (alt_RX-460-dROC1.5.log): 56.00 GB/sec stated, 90 attained."""
    path = tmp_path / "out.txt"
    path.write_text(
        _HEAD
        + """Experiment ID, Double precision ops,,,,
Compute iters, Flops/byte, ex.time,  GFLOPS, GB/sec
 1,  0.1, 10.0,   9.0, 90.0
 2,  0.2, 10.0,  18.2, 91.0
 3,  0.3, 10.0,  14.7, 49.0
 64, 5.0, 10.0,  60.0, 12.0
"""
    )
    machine = mixbench.load(path)
    (rate,) = machine.level("DRAM").rates  # no theory beside it
    assert (rate.what, rate.value) == ("read", 91e9)
    assert any("is too low" in check.message for check in machine.checks if not check.ok)
