"""Tables of kernels by their headings: units in titles, rates for counts, MiB as MB, lines that say nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

import rooflab
from rooflab.errors import FileError
from rooflab.observe.importers import load as load_any
from rooflab.observe.importers.counters import points
from rooflab.types.counted import Counters
from rooflab.types.profile import Profile

SAMPLES = Path(__file__).parents[3] / "samples" / "profiles" / "points"
SHARED = Path(__file__).parents[5] / "shared" / "samples"


def read(tmp_path: Path, *lines: str) -> Counters:
    path = tmp_path / "table"
    path.write_text("\n".join(lines) + "\n")
    return points.load(path)


def test_megabytes_that_are_mebibytes_are_told_by_the_files_own_intensity():
    """product: 2 x 1024³ FLOP, 3 x 1024² x 2 B = 6 MiB; 2147483648 / 6291456 = 341.33 FLOP/B, as the file says."""
    found = points.load(SAMPLES / "mebibytes.csv")
    product, total, gather = found.rows
    assert product.total_flop == 2 * 1024**3
    assert product.main_memory is not None
    assert product.main_memory.nbytes == pytest.approx(6 * 2**20)
    assert product.flop is not None
    assert (product.flop[0].engine, product.flop[0].dtype) == ("matrix", "bf16")
    assert (product.time_s, product.runs) == (pytest.approx(10e-6), 4)  # of the kernel, not of the host
    assert total.main_memory is not None
    assert total.main_memory.nbytes == 8 * 2**20
    assert (gather.flop, gather.traffic) == (None, ())  # unknown, and it lowers coverage
    assert any("1024" in note for note in found.notes)


def test_megabytes_stay_decimal_where_the_intensity_says_so(tmp_path):
    found = read(tmp_path, "kernel,time_ms,FLOPs,Data Moved (MB),AI", "triad,1.0,2000000,24,0.08333333333")
    assert found.rows[0].main_memory is not None
    assert found.rows[0].main_memory.nbytes == 24e6
    assert not any("1024" in note for note in found.notes)


def test_predicted_times_of_a_report_are_no_measurement(tmp_path):
    path = tmp_path / "report.csv"
    report = rooflab.op("matmul", (64, 32), (32, 48), machine="h200")
    report.save(path)
    with pytest.raises(FileError, match=r"1 have no name and measured time \(a report's CSV holds predictions"):
        points.load(path)
    report.with_times(3e-6).save(path)
    (row,) = points.load(path).rows
    assert (row.time_s, row.total_flop) == (3e-6, 2 * 64 * 32 * 48)


def test_columns_that_disagree_are_said(tmp_path):
    found = read(tmp_path, "kernel,time_ms,FLOPs,bytes,AI", "triad,1.0,2000000,16000000,0.08333333333")
    assert any("do not agree" in note for note in found.notes)


@pytest.mark.parametrize(
    ("header", "line", "time_s", "flop"),
    [
        ("name,time (us),GFLOPS,other", "k,10,200,x", 10e-6, 2e6),  # a rate: 200e9 x 10e-6
        ("Kernel Name,Duration (ns),flop,bytes", "k,2500,1e6,4e6", 2.5e-6, 1e6),
        ("loop,time_s,GFLOP/s,bytes", 'k,2,"1.5",4', 2.0, 3e9),
        ("function,avg_ms,TFLOP,GFLOP/s", "k,1,0.5,500000", 1e-3, 0.5e12),
    ],
)
def test_headings(tmp_path, header, line, time_s, flop):
    row = read(tmp_path, header, line).rows[0]
    assert row.time_s == pytest.approx(time_s)
    assert row.total_flop == pytest.approx(flop)


def test_a_time_that_stops_at_the_launch_is_doubted():
    """Case A39: 154 ns for a convolution are no time of a kernel; the device is known by its own name."""
    profile = rooflab.load(SAMPLES / "launches.csv")
    assert isinstance(profile, Profile)
    assert profile.machine is not None
    assert profile.machine.name == "NVIDIA GeForce RTX 2080 Ti"
    doubts = [one for one in profile.findings if one.rule == "missing synchronisation"]
    assert {one.evidence["roof"] for one in doubts} == {"DRAM", "fp32 vector"}
    shares = {one.evidence["roof"]: one.evidence["share"] for one in doubts}
    assert shares["DRAM"] == pytest.approx(8_388_608 / 154e-9 / 616e9, rel=1e-3)


def test_lines_without_a_name_or_a_time_are_counted(tmp_path):
    found = read(tmp_path, "kernel,time_ms,bytes", "a,1,10", ",1,10", "b,,10", "c,-1,10", "d,nan,10")
    assert [row.name for row in found.rows] == ["a"]
    assert found.dropped[0].count == 4


def test_no_usable_line(tmp_path):
    with pytest.raises(FileError, match="without a usable line"):
        read(tmp_path, "kernel,time_ms,bytes", ",,")


def test_tracelens(tmp_path):
    """Case A29: addmm 788 x 768 x 768 with bias, 930,167,808 FLOP, 3,601,920 bytes, though the file says MB."""
    path = SHARED / "torch_h100_vit.reference_unified_perf_summary.csv"
    if not path.exists():
        pytest.skip("shared samples are not beside the checkout")
    found = load_any(path)
    assert isinstance(found, Counters)
    first = found.rows[0]
    assert first.total_flop == pytest.approx(930_167_808)
    assert first.main_memory is not None
    assert first.main_memory.nbytes == pytest.approx(3_601_920)


@pytest.mark.parametrize(
    ("header", "line"),
    [
        # 2 · 1024³ FLOP in 1.25 ms are 1718 GFLOP/s; 12.582912 MB in it are 10.07 GB/s
        ("Name,Time (us),GFLOPs,GB,Achieved TFLOPS,Bandwidth (GB/s)", "k,1250,2.147483648,0,1.718,10.0663296"),
        ("name,Duration [ns],FLOPs,Memory Traffic (MB)", "k,1250000,2147483648,12.582912"),
        ("name,seconds,gflop/s,gb/s", "k,0.00125,1717.9869184,10.0663296"),
        ("Kernel,Time_ms,GFLOP_s,GB_s,AI", "k,1.25,1717.9869184,10.0663296,170.7"),
        ("op,latency_us,flop_count,bytes_read,bytes_written", "k,1250,2147483648,8388608,4194304"),
        ("kernel,time_ms,gflops,arith_intensity", "k,1.25,1717.9869184,170.6666667"),
        ("kernel,flops,bytes,time_ms,ai,achieved_tflops", "k,2147483648,12582912,1.25,170.7,1.7"),
        ("label;time_sec;flops;bytes", "k;0,00125;2147483648;12582912"),
        ("layer\ttime_ms\tmacs\tbytes", "k\t1.25\t1073741824\t12582912"),
        # told by the intensity: GFLOPS are a count here
        ("kernel,time_ms,GFLOPS,bytes,AI", "k,1.25,2.147483648,12582912,170.6667"),
        ("kernel,impl,n,median_ms,n_runs,gflops,gbytes_s,correct", "k,a,4,1.25,9,1717.9869184,10.0663296,1"),
    ],
)
def test_headings_of_all_kinds(tmp_path, header, line):
    (row,) = read(tmp_path, header, line).rows
    assert row.time_s == pytest.approx(1.25e-3)
    assert row.total_flop == pytest.approx(2 * 1024**3, rel=1e-3)
    assert sum(one.nbytes for one in row.traffic) == pytest.approx(12_582_912, rel=1e-3)


def test_a_heading_that_means_two_things_is_said(tmp_path):
    found = read(tmp_path, "name,time (us),GFLOPS,other", "k,10,200,x")
    assert any("taken for a rate" in note for note in found.notes)
    found = read(tmp_path, "name,time_ms,GFLOPS,TFLOP/s", "k,1,200,5", "l,1,100,3")
    assert [row.total_flop for row in found.rows] == [5e9, 3e9]
    assert any("do not agree" in note for note in found.notes)


def test_columns_of_numbers_that_are_not_read_are_named(tmp_path):
    table = "kernel,time_ms,gflop,Gbps,note,occupancy\na,2,4,7.5,fine,0.5\nb,1,2,3.5,,\n"
    path = tmp_path / "table.csv"
    path.write_text(table, encoding="utf-8")
    assert 'columns that are not read: "Gbps", "occupancy"' in points.load(path).notes


def test_totals_are_of_all_calls(tmp_path):
    """10 calls in 12.5 ms, 2000 FLOP each."""
    found = read(tmp_path, "name,calls,total_time_ms,flops", "k,10,12.5,2000")
    (row,) = found.rows
    assert (row.runs, row.time_s, row.total_flop) == (10, pytest.approx(1.25e-3), 2000)
    assert any("those of one call" in note for note in found.notes)


def test_lines_of_one_kernel_are_told_apart(tmp_path):
    found = read(
        tmp_path, "kernel,impl,n,time_ms,flops", "mm,naive,64,2,10", "mm,tiled,64,1,10", "sum,naive,64,1,5"
    )
    assert [row.name for row in found.rows] == ["mm, naive, 64", "mm, tiled, 64", "sum"]


@pytest.mark.parametrize(
    ("heading", "factor"),
    [("GB", 1e9), ("MiB", 2**20), ("data (MB)", 1e6), ("traffic_GB", 1e9), ("GB moved", 1e9)],
)
def test_a_heading_that_is_a_unit_of_bytes_is_a_count_of_them(tmp_path, heading, factor):
    (row,) = read(tmp_path, f"kernel,time_ms,{heading}", "x,10,3").rows
    assert [one.nbytes for one in row.traffic] == [3 * factor]


def test_times_beside_calls_are_said_to_be_of_one_call(tmp_path):
    found = read(tmp_path, "kernel,time_ms,calls,flops", "x,10,5,1e9")
    assert found.rows[0].time_s == 0.01
    assert found.notes[0] == '"time ms" is taken for the time of one call, not of all of them'
    found = read(tmp_path, "kernel,avg_ms,calls,flops", "x,10,5,1e9")
    assert not any("one call" in note for note in found.notes)
