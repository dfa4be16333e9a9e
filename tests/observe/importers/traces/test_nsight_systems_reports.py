"""Reports of nsys stats, built from their documented headings over the versions, not written by the tool.

Headings: "Report scripts" of Nsight Systems' user guide; spellings of 2020 to 2022 as other readers know them.
"""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import rooflab
from rooflab.errors import FileError
from rooflab.observe.importers.traces.nsight_systems_reports import load
from rooflab.types.counted import Counters
from rooflab.types.trace import COPY, KERNEL, MEMSET, Trace

SAMPLES = Path(__file__).parents[3] / "samples" / "profiles" / "nsight_systems_reports"


def trace(path: Path) -> Trace:
    found = load(path)
    assert isinstance(found, Trace)
    return found


def sums(path: Path) -> Counters:
    found = load(path)
    assert isinstance(found, Counters)
    return found


def written(folder: Path, *lines: str) -> Path:
    path = folder / "report.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_trace_of_the_gpu():
    found = trace(SAMPLES / "cuda_gpu_trace.csv")
    kernels = found.kernels
    assert kernels.kind.tolist() == [COPY, MEMSET, KERNEL, KERNEL]
    assert found.names[kernels.name[2]] == "void add<float, 4>(float *, const float *, int)"
    assert kernels.duration_s.tolist() == pytest.approx([661.398e-6, 0.8e-6, 7.072e-6, 14e-6])
    assert kernels.start_s[2] == pytest.approx((1136125733 - 1134711990) * 1e-9)
    assert kernels.correlation.tolist() == [123, 124, 128, 130]
    assert (kernels.device.tolist(), kernels.stream.tolist()) == ([0] * 4, [13, 13, 13, 7])
    assert found.devices[0].name == "NVIDIA H200"
    shape = found.shapes[kernels.shape[3]]
    assert (shape.grid, shape.block, shape.registers) == ((32, 16, 1), (128, 2, 1), 96)
    assert not found.dropped


def test_megabytes_are_a_million_and_rounded_ones_are_not_known():
    """4,194,304 bytes are printed as 4.194 MB; a memset of 272 bytes as 0.000, shared memory of 49 kB as 0.049."""
    found = trace(SAMPLES / "cuda_gpu_trace.csv")
    assert found.kernels.nbytes[0] == pytest.approx(4_194_304, rel=1e-3)
    assert math.isnan(found.kernels.nbytes[1])
    assert all(one.shared_bytes is None for one in found.shapes)
    assert any("three decimals" in note for note in found.notes)


def test_the_headings_of_2020_and_other_units(tmp_path):
    header = (
        "Start(usec),Duration(usec),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem(KB),DymSMem(KB),"
        "Bytes(KB),Throughput(KBps),SrcMemKd,DstMemKd,Device,Ctx,Strm,Name"
    )
    found = trace(
        written(
            tmp_path,
            header,
            "100.5,2.25,7,2,1,1,64,1,1,10,1.024,0.500,,,,,Tesla T4 (1),1,7,k",
            "110,1,8,,,,,,,,,,0.064,64.0,Device,Pageable,Tesla T4 (1),1,7,[CUDA memcpy DtoH]",
        )
    )
    assert found.kernels.duration_s.tolist() == pytest.approx([2.25e-6, 1e-6])
    assert found.kernels.nbytes[1] == pytest.approx(64)
    assert found.shapes[found.kernels.shape[0]].shared_bytes == pytest.approx(1524)
    assert (found.devices[0].name, found.devices[0].number) == ("Tesla T4", 1)


def test_sums_of_kernels_and_copies_without_the_hosts_calls():
    found = sums(SAMPLES / "several_sums.csv")
    gemm, add, copy = found.rows
    assert (gemm.name, gemm.runs) == ("void gemm<128, 64>(float *, int)", 3)
    assert gemm.time_s == pytest.approx(3_000_001e-9 / 3)
    assert (gemm.metrics["min"], gemm.metrics["max"]) == pytest.approx((900e-6, 1100.001e-6))
    assert (add.name, add.time_s, add.runs) == ("add", pytest.approx(500e-6), 2)
    assert copy.metrics["total bytes"] == pytest.approx(2 * 4_194_304, rel=1e-3)
    assert gemm.flop is None
    assert any("1 more reports" in note for note in found.notes)
    profile = rooflab.load(SAMPLES / "several_sums.csv")
    assert profile.rows[0].time_s == pytest.approx(3_000_001e-9)


def test_a_table_of_text_is_read_like_csv():
    table, csv = sums(SAMPLES / "table.txt"), sums(SAMPLES / "several_sums.csv")
    assert [(one.runs, one.time_s, one.metrics) for one in table.rows] == [
        (one.runs, one.time_s, one.metrics) for one in csv.rows[:2]
    ]
    assert table.rows[0].name == "void gemm<(int)128>(float *, int)"


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("Time(%),Total Time (ns),Instances,Average,Minimum,Maximum,StdDev,Name", "100.0,600,3,200,100,300,1,k"),
        ("Time(%),Total Time,Instances,Average,Minimum,Maximum,Name", "100.0,600,3,200.0,100,300,k"),
        (
            "Time (%),Total Time (us),Instances,Avg (us),Min (us),Max (us),GridXYZ,BlockXYZ,Name",
            "100.0,0.6,3,0.2,0.1,0.3,  32    2    1, 128    1    1,k",
        ),
        (
            '"Time(%)","Total Time (ns)","Instances","Average","Minimum","Maximum","Name"',
            '"100","600","3","200","100","300","k"',
        ),
    ],
)
def test_headings_over_the_versions(tmp_path, header, row):
    (found,) = sums(written(tmp_path, header, row)).rows
    assert (found.name, found.runs, found.time_s) == ("k", 3, pytest.approx(200e-9))
    assert (found.metrics["min"], found.metrics["max"]) == pytest.approx((100e-9, 300e-9))
    assert found.grid == ((32, 2, 1) if "GridXYZ" in header else None)


def test_a_table_of_text_that_ends_within_a_line_loses_that_line(tmp_path):
    text = (SAMPLES / "table.txt").read_text(encoding="utf-8").rstrip().splitlines()
    last = max(place for place, line in enumerate(text) if line.strip()[:1].isdigit())
    whole = sums(SAMPLES / "table.txt")
    found = sums(written(tmp_path, *text[:last], text[last][:40]))
    assert [one.name for one in found.rows] == [one.name for one in whole.rows][:-1]
    assert sum(one.count for one in found.dropped) == 1


def test_unusable_rows_are_counted(tmp_path):
    found = sums(
        written(
            tmp_path,
            "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name",
            "50.0,600,3,200,200,100,300,0,k",
            "50.0,NaN,3,200,200,100,300,0,l",
            "50.0,600,0,200,200,100,300,0,m",
            "too,few",
            "one,that,has,more,cells,than,the,header,has,it,seems",
        )
    )
    assert [one.name for one in found.rows] == ["k"]
    assert sorted(one.count for one in found.dropped) == [1, 3]


def test_nothing_usable_is_said_in_a_sentence(tmp_path):
    path = written(tmp_path, "Time (%),Total Time (ns),Instances,Avg (ns),Name")
    with pytest.raises(FileError, match="no row that can be used") as caught:
        load(path)
    assert str(caught.value).startswith(str(path))
