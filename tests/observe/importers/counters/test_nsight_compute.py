"""Nsight Compute's tables: real ones in both forms, noise around them, other ways of writing numbers."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path

import pytest

import rooflab
from rooflab.errors import FileError
from rooflab.observe.importers import load
from rooflab.observe.importers.counters import ncu_peaks, nsight_compute
from rooflab.types.profile import Profile
from rooflab.types.trace import Device

SAMPLES = Path(__file__).parents[3] / "samples" / "h200"
KERNELS = Path(__file__).parents[4] / "examples" / "h200-kernels.csv.gz"
SHARED = Path(__file__).parents[5] / "shared" / "samples"
HEADER = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size",'
    '"Device","CC","Section Name","Metric Name","Metric Unit","Metric Value"'
)


def line(metric: str, unit: str, value: str, number: int = 0) -> str:
    return (
        f'"{number}","1","app","127.0.0.1","k(float, int)","1","7","(256, 1, 1)","(64, 2, 1)","0","9.0",'
        f'"Command line","{metric}","{unit}","{value}"'
    )


def counters(folder, *lines, header=HEADER, before=""):
    path = folder / "out.txt"
    path.write_text("\n".join([*([before] if before else []), header, *lines]) + "\n", encoding="utf-8")
    return load(path)


def test_a_raw_page_of_real_kernels():
    """A bf16 product of 4096³ on matrix units; an addition of 10⁷ elements by multiply-adds."""
    found = nsight_compute.load(SAMPLES / "ncu_raw.csv")
    assert found.device is not None
    assert (found.device.name, found.device.compute_units, found.device.capability) == ("NVIDIA H200", 132, "9.0")
    by_name = {row.name: row for row in found.rows}
    add = next(row for name, row in by_name.items() if "CUDAFunctor_add" in name)
    assert {one.dtype: one.count for one in add.flop or ()}["fp32"] == pytest.approx(2e7, rel=1e-3)
    dram = add.at("DRAM")
    assert dram is not None
    assert (dram.read_bytes, dram.write_bytes) == (80_009_216, 21_987_584)
    assert add.at("L1").read_bytes == 80e6  # 2 · 10⁷ fp32, by sectors of 32 bytes
    assert add.time_s == pytest.approx(27.296e-6)
    product = next(row for name, row in by_name.items() if name.startswith("nvjet") and row.total_flop > 1e11)
    assert [(one.engine, one.dtype, one.count) for one in product.flop] == [("matrix", "bf16", 2 * 4096**3)]


def test_a_details_page_of_the_same_run():
    found = nsight_compute.load(SAMPLES / "ncu_details.csv")
    raw = {row.name: row for row in nsight_compute.load(SAMPLES / "ncu_raw.csv").rows}
    for row in found.rows:
        assert row.time_s == pytest.approx(raw[row.name].time_s, rel=1e-2)
        # "Memory Throughput" is there twice, once a rate and once a share: the rate times the duration are the
        # bytes.
        assert row.at("DRAM").nbytes == pytest.approx(raw[row.name].at("DRAM").nbytes, rel=1e-2)
    assert any("no FLOP was counted" in note for note in found.notes)


def test_noise_a_mark_of_byte_order_and_thousands_separators(tmp_path):
    before = "\ufeff==PROF== Connected to process 1\nwrote 7 rows, to a file\n"
    found = counters(
        tmp_path,
        line("dram__bytes_op_read.sum", "byte", "134,221,568"),
        "a line, that the program printed",
        line("dram__bytes_op_write.sum", "byte", "43,631,104"),
        line("gpu__time_duration.sum", "ns", "292,928"),
        before=before,
    )
    (row,) = found.rows
    assert row.at("DRAM").nbytes == 177_852_672
    assert row.time_s == pytest.approx(292_928e-9)
    assert (row.grid, row.block) == ((64, 2, 1), (256, 1, 1))
    assert [one.count for one in found.dropped] == [1]


def test_decimal_commas_and_scaled_units(tmp_path):
    found = counters(
        tmp_path,
        line("dram__bytes_read.sum", "Mbyte", "1.234,5"),
        line("dram__bytes_write.sum", "Kbyte", "2,5"),
        line("gpu__time_duration.sum", "usecond", "100,25"),
    )
    (row,) = found.rows
    assert row.at("DRAM").read_bytes == pytest.approx(1234.5e6)
    assert row.at("DRAM").write_bytes == pytest.approx(2500)
    assert row.time_s == pytest.approx(100.25e-6)


def test_rates_stand_in_for_sums(tmp_path):
    """0.5 TB/s over 4 µs are 2 MB; 3 FFMA a cycle over 1000 cycles 6000 FLOP; hits above 100 % are kept."""
    found = counters(
        tmp_path,
        line("dram__bytes_read.sum.per_second", "Tbyte/s", "0.5"),
        line("dram__bytes_write.sum.per_second", "Gbyte/s", "0"),
        line("gpu__time_duration.sum", "us", "4"),
        line("smsp__cycles_elapsed.avg", "cycle", "1,000"),
        line("smsp__sass_thread_inst_executed_op_ffma_pred_on.sum.per_cycle_elapsed", "inst/cycle", "3"),
        line("lts__t_sector_hit_rate.pct", "%", "100.39"),
    )
    (row,) = found.rows
    assert row.at("DRAM").read_bytes == pytest.approx(2e6)
    assert row.total_flop == pytest.approx(6000)
    assert row.metrics["lts__t_sector_hit_rate.pct"] == pytest.approx(1.0039)


def test_a_kernel_a_line_with_units_beneath_the_header(tmp_path):
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["ID", "Kernel Name", "Block Size", "Grid Size", "Device", "CC", "gpu__time_duration.sum"])
    writer.writerow(["", "", "", "", "", "", "us"])
    writer.writerow(["0", "f(int, int)", "32, 1, 1", "1, 1, 1", "0", "8.0", "7.5"])
    writer.writerow(["1", "g<1, 2>()", "32, 1, 1", "1, 1, 1", "0", "8.0", ""])
    path = tmp_path / "wide.csv"
    path.write_text(out.getvalue(), encoding="utf-8")
    found = nsight_compute.load(path)
    assert [(row.name, row.time_s) for row in found.rows] == [
        ("f(int, int)", pytest.approx(7.5e-6)),
        ("g<1, 2>()", None),
    ]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            "==PROF== x\n==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n",
            "NVreg_RestrictProfiling",
        ),
        ("==PROF== x\n==ERROR== The application returned an error code (11).\n", "returned an error code"),
        ("==PROF== Connected\n==PROF== Disconnected\n", "no table of Nsight Compute"),
        (HEADER + "\nnothing,else\n", "has no kernel"),
    ],
)
def test_a_file_without_counters_says_why(tmp_path, content, said):
    path = tmp_path / "log"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(FileError) as caught:
        nsight_compute.load(path)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(not SHARED.is_dir(), reason="the recorded samples of others are not beside the checkout")
@pytest.mark.parametrize(
    ("name", "dram_bytes", "time_s"),
    [
        ("ncu_2026.2_rtx5070_saxpy.csv", 134_221_568 + 43_631_104, 292_928e-9),
        ("ncu_2026.2_rtx5070_gemm_naive.csv", 80_808_960, 9_589_248e-9),
    ],
)
def test_files_of_others(name, dram_bytes, time_s):
    (row,) = nsight_compute.load(SHARED / name).rows
    assert row.at("DRAM").nbytes == dram_bytes
    assert row.time_s == pytest.approx(time_s)


def test_a_card_without_a_catalogue_entry_has_the_roofs_of_its_counters():
    """1504 B a clock x 3.201 GHz, 16896 fp32 FMA x 2 x 1.98 GHz, 540672 dense bf16 operations x 1.98 GHz."""
    found = nsight_compute.load(KERNELS).machine
    assert found is not None
    memory = found.level("memory").rate()
    assert memory is not None
    assert memory.value == pytest.approx(1504 * 3.201e9)
    fp32, bf16 = found.peak("fp32", engine="vector"), found.peak("bf16", engine="matrix")
    assert fp32 is not None
    assert bf16 is not None
    assert fp32.value == pytest.approx(16896 * 2 * 1.98e9)
    assert bf16.value == pytest.approx(540672 * 1.98e9)
    # Within 2 % of what the catalogue states of that card, but for the clock of its matrix peaks (1.83 GHz).
    h200 = rooflab.machine("h200-sxm")
    stated = h200.level("HBM").rate(basis="theoretical")
    assert stated is not None
    assert memory.value == pytest.approx(stated.value, rel=0.02)


def test_a_peak_that_may_be_sparse_is_left_out():
    metrics = {
        "device__attribute_max_gpu_frequency_khz": 1e6,
        "device__attribute_max_mem_frequency_khz": 1e6,
        "dram__bytes.sum.peak_sustained": 1000.0,
        "sm__ops_path_tensor_src_bf16_dst_fp32.sum.peak_sustained": 2e5,
        "sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained": 1e4,
    }
    found = ncu_peaks.machine(metrics, Device(number=0))
    assert found is not None
    assert found.peak("bf16") is None
    assert ncu_peaks.machine({name: metrics[name] for name in list(metrics)[:3]}, Device(number=0)) is None


def test_an_unknown_card_is_held_against_its_own_roofs(tmp_path):
    whole = gzip.decompress(KERNELS.read_bytes())
    path = tmp_path / "kernels.csv"
    path.write_bytes(whole.replace(b"NVIDIA H200", b"NVIDIA Q900"))
    profile = rooflab.load(path)
    assert isinstance(profile, Profile)
    assert profile.machine is not None
    assert profile.machine.name == "NVIDIA Q900"
    placed = {row.name: row.placement for row in profile.rows}
    product = placed["nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT"]
    assert product is not None
    assert product.binds == "bf16 matrix"
    assert any("own counters" in note for note in profile.notes)


@pytest.mark.parametrize("more", [(), (("dram__bytes.sum", "byte", "27.595.520"),), (("a.pct", "%", "65,123"),)])
def test_dots_between_thousands_are_not_before_a_fraction(tmp_path, more):
    # A duration in whole nanoseconds: 117 µs, whatever else is or is not in the file to say so.
    path = tmp_path / "kernels.csv"
    several = (("gpu__time_duration.sum", "ns", "117.344"), *more)
    path.write_text("\n".join([HEADER, *(line(*one) for one in several)]) + "\n")
    found = nsight_compute.load(path)
    assert found.rows[0].time_s == pytest.approx(117344e-9)
    assert any("comma before the fraction" in note for note in found.notes)
    # With another number that has a fraction behind a dot it is 117.344 ns.
    path.write_text("\n".join([HEADER, line(*several[0]), line("a.pct", "%", "12.5")]) + "\n")
    assert nsight_compute.load(path).rows[0].time_s == pytest.approx(117.344e-9)


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_tables_that_a_spreadsheet_saved_are_known(tmp_path, mark):
    lines = [HEADER, line("gpu__time_duration.sum", "ns", "117,344"), line("dram__bytes.sum", "byte", "1,024")]
    saved = io.StringIO()
    csv.writer(saved, delimiter=mark).writerows(csv.reader(lines))
    path = tmp_path / "kernels.csv"
    path.write_text(saved.getvalue())
    found = load(path)
    assert found.source == nsight_compute.SOURCE
    assert found.rows[0].time_s == pytest.approx(117344e-9)


def test_a_summary_by_kernel_has_its_means_and_counts(tmp_path):
    """Built from the layout of ncu --csv --print-summary per-kernel, not written by the tool."""
    header = (
        '"Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size",'
        '"Device","CC","Invocations","Section Name","Metric Name","Metric Unit","Minimum","Maximum","Average"'
    )
    begin = '"1","app","host","k(int)","1","7","(512, 1, 1)","(128, 1, 1)","0","8.9","3","Command line"'
    path = tmp_path / "kernels.csv"
    path.write_text(
        f'{header}\n{begin},"gpu__time_duration.sum","us","10.00","14.00","12.00"\n'
        f'{begin},"dram__bytes.sum","Kbyte","1.00","3.00","2.00"\n'
    )
    found = load(path)
    assert found.source == nsight_compute.SOURCE
    assert len(found.rows) == 1
    assert (found.rows[0].runs, found.rows[0].grid) == (3, (128, 1, 1))
    assert found.rows[0].time_s == pytest.approx(12e-6)
    assert found.rows[0].main_memory.nbytes == pytest.approx(2000)


def test_a_duration_without_its_unit_is_in_nanoseconds(tmp_path):
    """The unit of the metric in Nsight Compute's reference; 384 would be seconds otherwise."""
    path = tmp_path / "plain.csv"
    head = '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Device","CC"'
    line = '"0","7","app","host","k","1","7","0","9.0","5000","1000"'
    path.write_text(f'{head},"gpu__time_duration.sum","dram__bytes.sum"\n{line}\n')
    row = nsight_compute.load(path).rows[0]
    assert row.time_s == pytest.approx(5e-6)
    assert row.main_memory is not None
    assert row.main_memory.nbytes == 1000


_OP = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"


def raw_page(folder, metrics, *kernels):
    """A raw page with `metrics`; a kernel is (number, device, values)."""
    names = ("ID", "Process ID", "Kernel Name", "Block Size", "Grid Size", "Device", *metrics)
    units = ",".join(['""'] * 6 + ['"ns"' if "duration" in name else '"inst"' for name in metrics])
    lines = [
        ",".join(f'"{cell}"' for cell in (number, 1, "k", "(128, 1, 1)", "(64, 1, 1)", device, *values))
        for number, device, values in kernels
    ]
    return counters(folder, units, *lines, header=",".join(f'"{name}"' for name in names))


def test_kernels_of_two_devices_with_one_number_are_two(tmp_path):
    metrics = ("gpu__time_duration.sum", _OP.format("ffma"))
    found = raw_page(tmp_path, metrics, (0, 0, (1000, 10)), (0, 1, (2000, 10)), (0, 1, (4000, 10)))
    assert [row.time_s for row in found.rows] == pytest.approx([1e-6, 2e-6, 4e-6])


def test_flop_of_a_few_instructions_say_what_they_lack(tmp_path):
    found = raw_page(tmp_path, ("gpu__time_duration.sum", _OP.format("ffma")), (0, 0, (1000, 10)))
    assert found.rows[0].total_flop == 20  # a multiply-add is two
    assert any(note.endswith("fp64 vector, fadd, fmul, fp16 vector, matrix") for note in found.notes)
    assert not any("alone" in note for note in nsight_compute.load(SAMPLES / "ncu_raw.csv").notes)
