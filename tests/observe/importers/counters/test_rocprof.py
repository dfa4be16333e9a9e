"""Tables of rocprof and rocprof-compute: a real one of others where it is there; the rest is built.

Those in the samples are built from the documented headings, not written by the tools.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import rooflab
from rooflab.errors import FileError
from rooflab.observe.importers.counters import amd_counters
from rooflab.observe.importers.counters.rocprof import load
from rooflab.types.counted import Counted, Counters
from rooflab.types.trace import Trace

SAMPLES = Path(__file__).parents[3] / "samples" / "profiles" / "rocprof"
SHARED = Path(__file__).parents[5] / "shared" / "samples"
N = 2**24  # elements of the samples' kernel


def rows(path: Path) -> tuple[Counted, ...]:
    found = load(path)
    assert isinstance(found, Counters)
    return found.rows


def nbytes(counted: Counted, level: str) -> tuple[float, float]:
    traffic = counted.at(level)
    assert traffic is not None
    return traffic.read_bytes, traffic.write_bytes


@pytest.mark.skipif(not SHARED.is_dir(), reason="the recorded samples of others are not beside the checkout")
def test_a_copy_counted_on_an_mi250():
    """2²⁰ doubles: 131,080 reads of 64 bytes and 131,072 writes of 64 are 16,777,728 bytes in 20 µs; no FLOP."""
    path = SHARED / "rocprofcompute_mi200_vcopy_pmc_perf.csv"
    first = rows(path)[0]
    assert nbytes(first, "DRAM") == (131_080 * 64, 131_072 * 64)
    assert sum(nbytes(first, "DRAM")) == 16_777_728
    assert nbytes(first, "L2") == (8 * 2**20, 8 * 2**20)
    assert first.time_s == pytest.approx(20e-6)
    assert first.flop == ()
    assert (first.instructions, first.grid, first.block) == (393_216, (4096,), (256,))
    assert [one.time_s for one in rows(path)] == pytest.approx([20e-6, 15.52e-6, 16.32e-6])


def test_requests_of_128_bytes_are_counted_once():
    """y = a·x + y in fp32 on a gfx942: 2 · 4 · 2²⁴ bytes read in requests of 128, 8 more of 64 and 2 of 32.

    The units' instances (TCC_BUBBLE[0] …) are added.
    """
    saxpy, _ = rows(SAMPLES / "pmc_perf.csv")
    assert nbytes(saxpy, "DRAM") == (2 * 4 * N + 8 * 64 + 2 * 32, 4 * N)
    assert nbytes(saxpy, "L2") == (2 * 4 * N, 4 * N)
    assert [(one.engine, one.dtype, one.count) for one in saxpy.flop or ()] == [("vector", "fp32", 2 * N)]
    assert saxpy.metrics["TCC_BUBBLE"] == 2 * 4 * N / 128
    assert "TCC_BUBBLE[0]" not in saxpy.metrics
    assert saxpy.access is not None
    assert saxpy.access.hit_rates == {"L2": 0.25}


def test_matrix_instructions_and_conflicts_of_the_lds():
    _, gemm = rows(SAMPLES / "pmc_perf.csv")
    assert [(one.engine, one.dtype, one.count) for one in gemm.flop or ()] == [("matrix", "fp16", 2 * 1024**3)]
    assert gemm.access is not None
    assert gemm.access.conflict_share == 0.25


def test_derived_sizes_are_of_1024_bytes():
    (copy,) = rows(SAMPLES / "counters.csv")
    assert nbytes(copy, "DRAM") == (256.5 * 1024, 256 * 1024)
    assert copy.time_s == pytest.approx(10e-6)
    assert copy.access is not None
    assert copy.access.hit_rates == {"L2": 0.5}


def test_times_without_counters_are_a_trace():
    found = load(SAMPLES / "results.csv")
    assert isinstance(found, Trace)
    assert found.kernels.duration_s.tolist() == pytest.approx([26.316649e-3, 26.2e-3])
    assert found.kernels.start_s[1] == pytest.approx((1591372836800000 - 1591372809872935) * 1e-9)
    assert (found.kernels.device.tolist(), found.kernels.stream.tolist()) == ([1, 1], [2, 2])
    shape = found.shapes[found.kernels.shape[0]]
    assert (shape.grid, shape.block) == ((256,), (256,))


def test_sums_over_calls():
    norm, _ = rows(SAMPLES / "kernel_stats.csv")
    assert (norm.runs, norm.time_s) == (1001, pytest.approx(410_964_270e-9 / 1001))
    assert norm.metrics["max_s"] == pytest.approx(421_282e-9)


@pytest.mark.parametrize(
    ("counters", "dram"),
    [
        # A copy of 1 GiB measured on an MI300X reads all in requests of 128 bytes: 64 for each would be half.
        (
            {
                "TCC_BUBBLE_sum": 8_388_608,
                "TCC_EA0_RDREQ_sum": 8_388_760,
                "TCC_EA0_RDREQ_32B_sum": 0,
                "TCC_EA0_WRREQ_sum": 16_777_216,
                "TCC_EA0_WRREQ_64B_sum": 16_777_216,
            },
            (2**30 + 152 * 64, 2**30),
        ),
        # Without the requests of 128 bytes the reads are not known.
        (
            {
                "TCC_EA0_RDREQ_sum": 8_388_760,
                "TCC_EA0_RDREQ_32B_sum": 0,
                "TCC_EA0_WRREQ_sum": 1,
                "TCC_EA0_WRREQ_64B_sum": 1,
            },
            None,
        ),
        # gfx950 counts sectors of 32 bytes.
        (
            {
                "TCC_EA0_RDREQ_DRAM_32B_sum": 100,
                "TCC_EA0_WRREQ_WRITE_DRAM_32B_sum": 10,
                "TCC_EA0_WRREQ_ATOMIC_DRAM_32B_sum": 1,
            },
            (3200, 352),
        ),
        # Writes of fewer than 64 bytes are of 32.
        (
            {
                "TCC_EA_RDREQ_sum": 10,
                "TCC_EA_RDREQ_32B_sum": 4,
                "TCC_EA_WRREQ_sum": 5,
                "TCC_EA_WRREQ_64B_sum": 2,
            },
            (4 * 32 + 6 * 64, 2 * 64 + 3 * 32),
        ),
        ({"FETCH_SIZE": 3}, None),
    ],
)
def test_bytes_of_memory_by_architecture(counters, dram):
    found = amd_counters.counted("k", counters, 1.0, None, None).at("DRAM")
    assert (None if found is None else (found.read_bytes, found.write_bytes)) == dram


@pytest.mark.parametrize(
    ("suffix", "dtype"),
    [("F64", "fp64"), ("XF32", "tf32"), ("BF16", "bf16"), ("F8", "fp8"), ("F6F4", "fp4"), ("I8", "int8")],
)
def test_matrix_formats(suffix, dtype):
    (found,) = amd_counters.flop({f"SQ_INSTS_VALU_MFMA_MOPS_{suffix}": 3.0}) or ()
    assert (found.engine, found.dtype, found.count) == ("matrix", dtype, 3 * 512)


def test_a_format_counted_in_part_is_not_counted():
    part = {"SQ_INSTS_VALU_FMA_F32": 7.0, "SQ_INSTS_VALU_ADD_F32": 7.0}
    row = amd_counters.counted("k", part, 1.0, None, None)
    assert row.flop is None
    assert any("SQ_INSTS_VALU_MUL_F32" in note and "not known" in note for note in amd_counters.notes([row]))


def test_unusable_lines_and_negative_counters_are_counted(tmp_path):
    path = tmp_path / "p.csv"
    path.write_text(
        "Dispatch_ID,Kernel_Name,GPU_ID,Grid_Size,Workgroup_Size,SQ_INSTS,SQ_WAVES,Start_Timestamp,End_Timestamp\n"
        "0,k,0,64,64,10,-1,5,25\n"
        "1,,0,64,64,10,1,5,25\n"
        "2,l,0,64,0,,nan,x,25\n"
        "3,m,0\n"
        "nonsense\n",
        encoding="utf-8",
    )
    found = load(path)
    assert [(row.name, row.instructions) for row in found.rows] == [("k", 10)]
    assert sorted(one.count for one in found.dropped) == [1, 4]


def test_a_table_without_a_kernel(tmp_path):
    path = tmp_path / "p.csv"
    path.write_text("Dispatch_ID,Kernel_Name,GPU_ID,SQ_INSTS\n", encoding="utf-8")
    with pytest.raises(FileError, match="no kernel with a time or a counter") as caught:
        load(path)
    assert str(caught.value).startswith(str(path))


def test_kernels_named_with_letters_alone_are_no_events_of_perf(tmp_path):
    """A line of numbers around a word looks like one of `perf stat -x,`, but no event is called 0."""
    header = "Index,KernelName,gpu-id,queue-id,queue-index,pid,tid,BeginNs,EndNs"
    lines = [f"{number},saxpy,0,2,{number},3,3,{1000 * number},{1000 * number + 500}" for number in range(1, 5)]
    path = tmp_path / "results.csv"
    path.write_text("\n".join([header, *lines]) + "\n")
    profile = rooflab.load(path)
    assert "rocprof" in profile.source
    assert [(row.name, row.executions) for row in profile.rows] == [("saxpy", 4)]
    assert profile.rows[0].time_s == pytest.approx(4 * 500e-9)
