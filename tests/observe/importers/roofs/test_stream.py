"""STREAM's output. The sample is built from the documented layout (stream.c 5.10), not by the tool."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflab.errors import FileError
from rooflab.observe.importers.roofs import stream

SAMPLE = Path(__file__).parents[3] / "samples" / "profiles" / "stream" / "stream.txt"
# The figures of case A30: 268,435,456 doubles, reported rates and times.
_A30 = """Function    Best Rate MB/s  Avg time     Min time     Max time
Copy:           18514.5     0.240000     0.231979     0.250000
Scale:          18333.8     0.240000     0.234266     0.250000
Add:            23043.7     0.290000     0.279577     0.300000
Triad:          23314.0     0.290000     0.276334     0.300000
"""


def _of(tmp_path, text):
    path = tmp_path / "out.txt"
    path.write_text(text)
    return stream.load(path)


def test_rates_are_in_units_of_1e6_bytes():
    # 80,000,000 doubles: Triad names 3 × 640 MB in 65 ms
    machine = stream.load(SAMPLE)
    (memory,) = machine.levels
    assert memory.name == "DRAM"
    triad = memory.rate("triad", basis="attained")
    assert triad.value == pytest.approx(3 * 640e6 / 0.065, rel=1e-5)
    assert (triad.threads, triad.source.kind) == (4, "reported")
    # predictions ask for one bandwidth: the fastest
    assert (memory.rate("any").value, memory.rate("any").source.kind) == (
        max(r.value for r in memory.rates),
        "derived",
    )
    assert triad.spread == pytest.approx(1 - 1 / 1.02, rel=1e-4)
    assert all(check.ok for check in machine.checks)


def test_write_allocate_is_stated_and_not_counted(tmp_path):
    head = "Array size = 268435456 (elements), Offset = 0 (elements)\nuses 8 bytes per array element.\n"
    machine = _of(tmp_path, head + _A30)
    assert machine.level("DRAM").rate("triad").value == 23314.0e6
    # × 3/2 for Copy and Scale, × 4/3 for Add and Triad
    for moved in ("copy 27.8 GB/s", "scale 27.5 GB/s", "add 30.7 GB/s", "triad 31.1 GB/s"):
        assert moved in machine.note
    # 24 × 268,435,456 / 0.276334 s = 23,314 MB/s
    assert all(check.ok for check in machine.checks)


def test_mebibytes_printed_as_megabytes_fail_their_check(tmp_path):
    head = "Array size = 268435456 (elements)\n"
    # 16 × 268,435,456 / 0.231979 s / 2^20 = 17656.8
    machine = _of(tmp_path, head + _A30.replace("18514.5", "17656.8"))
    (failed,) = [check for check in machine.checks if not check.ok]
    assert failed.name == "copy against its time"
    assert "MiB were printed as MB" in failed.message


def test_arrays_that_fit_in_any_cache_are_no_main_memory(tmp_path):
    machine = _of(tmp_path, "Array size = 20000 (elements)\n" + _A30)
    assert [level.name for level in machine.levels] == ["cache"]
    assert any("fits in any processor's caches" in check.message for check in machine.checks)


def test_arrays_that_may_fit_in_a_cache_are_doubted(tmp_path):
    # STREAM's default: 3 arrays of 10,000,000 doubles are 229 MiB; 4,000,000 are 92 MiB
    names = [
        [level.name for level in _of(tmp_path, f"Array size = {size} (elements)\n" + _A30).levels]
        for size in (10_000_000, 4_000_000)
    ]
    assert names == [["DRAM"], ["DRAM"]]
    machine = _of(tmp_path, "Array size = 4000000 (elements)\n" + _A30)
    assert "less than four times a cache of 32 MiB" in [c for c in machine.checks if not c.ok][-1].message


def test_bad_rows_are_counted_and_good_ones_kept(tmp_path):
    machine = _of(tmp_path, _A30.replace("18514.5", "inf").replace("18333.8", "-3"))
    assert [rate.what for rate in machine.levels[0].rates] == ["add", "triad", "any"]
    assert "2 lines could not be used" in machine.note


def test_decimal_commas(tmp_path):
    machine = _of(tmp_path, _A30.replace(".", ","))
    assert machine.level("DRAM").rate("copy").value == 18514.5e6


def test_no_row_is_one_sentence(tmp_path):
    with pytest.raises(FileError, match=r"out.txt: STREAM's output has no rate"):
        _of(tmp_path, "Function    Best Rate MB/s  Avg time     Min time     Max time\nCopy: x x x x\n")


def test_the_table_of_older_versions(tmp_path):
    # 16 bytes × 2,000,000 in 11.5 ms, printed with four decimals
    text = """Array size = 2000000
Function      Rate (MB/s)   Avg time     Min time     Max time
Copy:        2782.6087       0.0120       0.0115       0.0130
"""
    machine = _of(tmp_path, text)
    assert machine.level("DRAM").rate("copy").value == 2782.6087e6
    assert all(check.ok for check in machine.checks if check.name != "size against caches")


def test_a_rate_that_no_machine_has_is_none(tmp_path):
    # 0.5 MB/s: a digit was lost; a machine file would refuse it as a number without its unit
    machine = _of(tmp_path, _A30.replace("18514.5", "0.5"))
    assert not any(rate.what == "copy" for rate in machine.levels[0].rates)
    assert "1 line could not be used" in machine.note
