"""likwid-bench's output. The sample was written by likwid-bench 5.2 itself, five kernels one after another."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflab.errors import FileError
from rooflab.observe.importers.roofs import likwid_bench

SAMPLE = Path(__file__).parents[3] / "samples" / "profiles" / "likwid_bench" / "five_kernels.txt"
_RUN = """--------------------------------------------------------------------------------
LIKWID MICRO BENCHMARK
Test: {test}
--------------------------------------------------------------------------------
Using 1 work groups
Using 1 threads
Size (Byte):\t\t{size}
MFlops/s:\t\t{mflops}
MByte/s:\t\t{mbytes}
"""


def _of(tmp_path, *runs):
    path = tmp_path / "out.txt"
    path.write_text("".join(_RUN.format(**run) for run in runs))
    return likwid_bench.load(path)


def test_what_likwid_bench_wrote():
    machine = likwid_bench.load(SAMPLE)
    assert [level.name for level in machine.levels] == ["L1", "DRAM"]
    # as printed, MByte/s: load_avx 6516.93, copy_mem_avx 9419.78, daxpy_avx_fma 58233.17;
    # MFlops/s: peakflops 29015.15
    assert machine.level("DRAM").rate("read").value == 6516.93e6
    assert machine.level("DRAM").rate("copy").value == 9419.78e6
    assert machine.level("L1").rate("triad").value == 58233.17e6
    (peak,) = machine.peaks
    assert (peak.value, peak.dtype, peak.what, peak.threads) == (29015.15e6, "fp64", "fma", 2)
    # triad_avx: 2 FLOP of 32 bytes, in 2.277836 s
    (triad, _) = machine.points
    assert triad.intensity == pytest.approx(2 / 32, rel=1e-4)
    # 100 MB are under four times a cache of 32 MiB; nothing else is doubtful
    assert {check.name for check in machine.checks if not check.ok} == {"size against caches"}


def test_bytes_an_iteration_that_contradict_the_flop_are_flagged(tmp_path):
    """Case A31: daxpy counted 16 bytes an element where it moves 24."""
    run = {"test": "daxpy_avx512_fma", "size": 2_000_000_000, "mflops": 8486.64, "mbytes": 67893.12}
    machine = _of(tmp_path, run)
    (failed,) = [check for check in machine.checks if not check.ok]
    assert "16 bytes an element" in failed.message
    assert "moves 24" in failed.message
    # 8486.64 / 2 × 24
    assert machine.level("DRAM").rate("triad").value == pytest.approx(101_839.68e6)


def test_single_precision_has_half_the_bytes(tmp_path):
    run = {"test": "daxpy_sp_avx", "size": 2_000_000_000, "mflops": 1000.0, "mbytes": 6000.0}
    machine = _of(tmp_path, run)
    assert all(check.ok for check in machine.checks)
    assert machine.points == ()  # the output has no time: no point, but a rate
    assert machine.level("DRAM").rate("triad").value == 6000e6


def test_a_run_without_a_rate_is_counted(tmp_path):
    good = {"test": "load_avx", "size": 2_000_000_000, "mflops": 0.0, "mbytes": 12000.0}
    machine = _of(tmp_path, good, good | {"mbytes": "nan"})
    assert machine.level("DRAM").rate("read").value == 12000e6
    assert "1 benchmark could not be used" in machine.note


def test_nothing_usable_is_one_sentence(tmp_path):
    with pytest.raises(FileError, match="likwid-bench's output has no rate"):
        _of(tmp_path, {"test": "load", "size": 100, "mflops": "inf", "mbytes": -1})
