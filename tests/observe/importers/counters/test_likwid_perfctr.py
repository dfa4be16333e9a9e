"""likwid-perfctr's tables: FLOP and bytes are those of the raw counts, and a printed metric that differs is said.

The two samples were printed by likwid 5.2.2's own table printer from counts that were written by hand: a triad
a[i] = b[i] + s · c[i] of 4 · 10⁷ fp64 elements, ten calls, four threads, in fused multiply-adds of 256 bits. The
other inputs are built from the documented layout, not written by the tool.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import rooflab
from rooflab.errors import FileError
from rooflab.observe.importers import load
from rooflab.observe.importers.counters import likwid_perfctr

SAMPLES = Path(__file__).parents[3] / "samples" / "profiles" / "likwid_perfctr"
SHARED = Path(__file__).parents[5] / "shared" / "samples"
CPU = "CPU name:,{},,\nCPU type:,{},,\nCPU clock:,2.1 GHz,,\n"


def csv(folder, events, metrics=(), *, region="", cpu=("Intel(R) Xeon(R) 8480", "Intel SapphireRapids processor")):
    """A file of one thread, or more where `events` have more counts, one second long."""
    threads = len(events[0]) - 2
    columns = ",".join(f"HWThread {number}" for number in range(threads))
    table = f"TABLE,Region {region},Group 1" if region else "TABLE,Group 1"
    lines = ["STRUCT,Info,3,,", CPU.format(*cpu).rstrip(), f"{table} Raw,G,{len(events)},,"]
    lines += [f"Event,Counter,{columns}", *(",".join(map(str, event)) for event in events)]
    lines += [f"{table} Metric,G,{len(metrics) + 1},,", f"Metric,{columns},"]
    lines += ["Runtime (RDTSC) [s]" + ",1.0" * threads + ","]
    lines += [",".join(map(str, metric)) + "," for metric in metrics]
    path = folder / "likwid.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return load(path)


@pytest.mark.parametrize("name", ["triad_icx_mem_dp.csv", "triad_icx_mem_dp.txt"])
def test_a_region_of_ten_calls_on_four_threads(name):
    """A call: 8 · 10⁷ FLOP, 24 bytes read (with the line that is written) and 8 written an element, 49.34 ms."""
    found = load(SAMPLES / name)
    assert found.source == "likwid-perfctr"
    assert found.device is not None
    assert found.device.name == "Intel(R) Xeon(R) Platinum 8360Y"
    (row,) = found.rows
    assert (row.name, row.runs) == ("triad", 10)
    assert row.time_s == pytest.approx(0.0493412)  # of the slowest thread
    assert {(one.engine, one.dtype): one.count for one in row.flop} == {
        ("scalar", "fp64"): pytest.approx(4),  # 40 in ten calls
        ("vector", "fp64"): 4 * 50_000_000 * 4 / 10,
    }
    dram = row.at("DRAM")
    assert dram is not None
    # Six channels of 25,001,000 + 17 m reads and 8,340,000 + 29 m writes, a line of 64 bytes each.
    assert dram.read_bytes == pytest.approx((6 * 25_001_000 + 17 * 15) * 64 / 10)
    assert dram.write_bytes == pytest.approx((6 * 8_340_000 + 29 * 15) * 64 / 10)
    assert row.instructions == pytest.approx(123_997_342.4)
    assert row.metrics["CPU_CLK_UNHALTED_CORE"] == 5_919_937_552
    assert row.metrics["Energy [J]"] == pytest.approx(71.2517)
    assert row.metrics["Clock [Hz]"] == pytest.approx(3.0e9, rel=1e-3)
    assert not [note for note in found.notes if "likwid prints" in note]


def test_a_region_stands_on_a_roofline():
    profile = rooflab.load(SAMPLES / "triad_icx_mem_dp.csv", machine="AMD EPYC 7763")
    (row,) = profile.rows
    assert row.flop == pytest.approx(8e8 + 40)
    assert row.intensity == pytest.approx(0.0625, rel=1e-3)  # 2 FLOP over 32 bytes


@pytest.mark.skipif(not SHARED.is_dir(), reason="the recorded samples of others are not beside the checkout")
def test_regions_on_a_cpu_and_on_a_gpu():
    """Both are y = a x + y of 10⁸ elements: 2 FLOP each, 111 scalar ones more on the CPU."""
    found = load(SHARED / "likwid_saxpy_cpu_and_gpu_ascii.out")
    cpu, gpu = found.rows
    assert (cpu.name, cpu.time_s, cpu.total_flop) == ("saxpy_cpu", 0.090796, 200_000_111)
    assert cpu.total_flop / cpu.time_s == pytest.approx(2202.7354e6, rel=1e-5)
    assert (gpu.name, gpu.time_s, gpu.total_flop) == ("saxpy_gpu, GPU 0", 0.010824, 200_000_000)
    assert (cpu.device, gpu.device) == (None, "GPU 0")
    assert any("held against no machine" in note for note in found.notes)
    profile = rooflab.load(SHARED / "likwid_saxpy_cpu_and_gpu_ascii.out", machine="AMD EPYC 7763")
    placed = {row.name: row.placement for row in profile.rows}
    assert placed["saxpy_gpu, GPU 0"] is None
    assert placed["saxpy_cpu"].bound is None  # no byte was counted: nothing says what limits it


def test_weights_of_the_wrong_format_are_found(tmp_path):
    """10⁹ instructions of 16 fp32 elements are 16 GFLOP; the group's formula has weighed them as 8."""
    found = csv(
        tmp_path,
        [("FP_ARITH_INST_RETIRED_512B_PACKED_SINGLE", "PMC3", 1_000_000_000)],
        [("SP [MFLOP/s]", 8000)],
    )
    (row,) = found.rows
    assert row.total_flop == 16e9
    assert any("prints SP 8,000, its raw counts give 16,000 MFLOP/s" in note for note in found.notes)


def test_printed_bytes_that_the_counts_contradict(tmp_path):
    """Counts of four channels against volumes that were made up: 23,746 reads and 15,865 writes of a line."""
    reads, writes = (5642, 5446, 6895, 5763), (3698, 3583, 4874, 3710)
    events = [("CAS_COUNT_RD", f"MBOX{m}C0", reads[m]) for m in range(4)]
    events += [("CAS_COUNT_WR", f"MBOX{m}C1", writes[m]) for m in range(4)]
    metrics = [("Memory read data volume [GBytes]", 0.00234), ("Memory write data volume [GBytes]", 0.00211)]
    found = csv(tmp_path, events, metrics)
    (row,) = found.rows
    dram = row.at("DRAM")
    assert dram is not None
    assert (dram.read_bytes, dram.write_bytes) == (1_519_744, 1_015_360)
    assert sum("likwid prints Memory" in note for note in found.notes) == 2


def test_a_counter_that_is_known_to_read_half_is_never_doubled(tmp_path):
    found = csv(
        tmp_path,
        [("RETIRED_SSE_AVX_FLOPS_ALL_DP_PACKED", "PMC4", 128_817_446_704)],
        cpu=("AMD EPYC 9755", "AMD K1A (Zen5) architecture"),
    )
    (row,) = found.rows
    assert row.total_flop == 128_817_446_704
    assert any("known to count half" in note for note in found.notes)


def test_a_sound_counter_has_no_such_note(tmp_path):
    found = csv(
        tmp_path,
        [("RETIRED_SSE_AVX_FLOPS_ALL_DP_PACKED", "PMC4", 128_817_446_704)],
        cpu=("AMD EPYC 9654", "AMD K19 (Zen4) architecture"),
    )
    assert not any("known to count half" in note for note in found.notes)


def test_a_counter_of_all_formats_is_of_none(tmp_path):
    found = csv(
        tmp_path,
        [("RETIRED_SSE_AVX_FLOPS_ALL", "PMC2", 1000)],
        cpu=("AMD EPYC 7763", "AMD K19 (Zen3) architecture"),
    )
    (row,) = found.rows
    assert [(one.dtype, one.count) for one in row.flop] == [("float", 1000)]


@pytest.mark.parametrize(("channels", "nbytes"), [(4, None), (8, 8 * 64 * 1000)])
def test_some_channels_are_not_the_memory(tmp_path, channels, nbytes):
    """An EPYC 7003 has eight; likwid's MEM1 counts four of them."""
    found = csv(
        tmp_path,
        [(f"DRAM_CHANNEL_{number}", f"DFC{number}", 1000) for number in range(channels)],
        cpu=("AMD EPYC 7763 64-Core Processor", "AMD K19 (Zen3) architecture"),
    )
    (row,) = found.rows
    dram = row.at("DRAM")
    assert (None if dram is None else dram.nbytes) == nbytes
    assert any("bytes of DRAM are unknown" in note for note in found.notes) == (nbytes is None)


def test_a_vector_of_512_bits_on_a64fx_and_one_of_unknown_length(tmp_path):
    """SCALE counts each 128 bits: four of them on the A64FX."""
    events = [("FP_DP_FIXED_OPS_SPEC", "PMC0", 10), ("FP_DP_SCALE_OPS_SPEC", "PMC1", 1000)]
    (row,) = csv(tmp_path, events, cpu=("A64FX", "Fujitsu A64FX")).rows
    assert row.total_flop == 4010
    found = csv(tmp_path, events, cpu=("Some Arm", "ARMv9"))
    assert found.rows[0].flop is None
    assert any("FLOP are unknown" in note for note in found.notes)


def test_counts_that_are_none_are_left_out_and_said(tmp_path):
    """A channel that is not there prints nan; a counter that ran backwards 2⁶⁴ less something."""
    found = csv(
        tmp_path,
        [
            ("INST_RETIRED_ANY", "FIXC0", "1.844674e+19", 1_357_344_000),
            ("CAS_COUNT_RD", "MBOX0C0", 1000, 0),
            ("CAS_COUNT_RD", "MBOX2C0", "nan", "nan"),
            ("CAS_COUNT_WR", "MBOX0C1", 10, "-"),
        ],
    )
    (row,) = found.rows
    assert row.instructions == 1_357_344_000
    dram = row.at("DRAM")
    assert dram is not None
    assert dram.nbytes == 1010 * 64
    assert any("ran backwards" in note for note in found.notes)
    assert any("CAS_COUNT_RD on MBOX2C0 was not counted" in note for note in found.notes)
    assert not any("on some threads, its total" in note for note in found.notes)


def test_an_event_that_a_thread_did_not_count_is_said(tmp_path):
    events = [("FP_ARITH_INST_RETIRED_256B_PACKED_DOUBLE", "PMC2", 1000, "nan")]
    found = csv(tmp_path, events)
    assert found.rows[0].total_flop == 4000  # of the one thread
    assert any("was not counted on some threads, its total leaves them out" in note for note in found.notes)


def test_reads_without_writes_are_no_traffic(tmp_path):
    found = csv(tmp_path, [("CAS_COUNT_RD", "MBOX0C0", 1000)])
    assert found.rows[0].traffic == ()
    assert any("its writes were not counted" in note for note in found.notes)


def test_groups_of_one_region_are_a_row(tmp_path):
    """FLOP of 4 calls of 2 s, bytes of 6 calls of 3 s: a call has 100 FLOP, 64 · 30 bytes, and takes 0.5 s."""
    text = "STRUCT,Info,3\nCPU name:,X\n"
    for number, (group, calls, seconds, events) in enumerate(
        [
            ("FLOPS_DP", 4, 2.0, [("FP_ARITH_INST_RETIRED_SCALAR_DOUBLE", "PMC1", 400)]),
            ("MEM", 6, 3.0, [("CAS_COUNT_RD", "MBOX0C0", 120), ("CAS_COUNT_WR", "MBOX0C1", 60)]),
        ],
        1,
    ):
        text += f"TABLE,Region k,Group {number} Raw,{group},1\nRegion Info,Core 3\nRDTSC Runtime [s],{seconds}\n"
        text += f"call count,{calls}\nEvent,Counter,Core 3\n"
        text += "".join(",".join(map(str, event)) + "\n" for event in events)
    path = tmp_path / "two.csv"
    path.write_text(text, encoding="utf-8")
    found = load(path)
    (row,) = found.rows
    assert (row.runs, row.time_s, row.total_flop) == (10, 0.5, 100)
    dram = row.at("DRAM")
    assert dram is not None
    assert dram.nbytes == 64 * 30
    assert any("counted in different calls" in note for note in found.notes)


def test_the_same_region_of_two_runs_is_two_rows(tmp_path):
    path = tmp_path / "appended.csv"
    path.write_bytes((SAMPLES / "triad_icx_mem_dp.csv").read_bytes() * 2)
    assert [row.runs for row in load(path).rows] == [10, 10]


def test_tables_after_much_output_of_the_program(tmp_path):
    text = (SAMPLES / "triad_icx_mem_dp.txt").read_text(encoding="utf-8")
    banner, rest = text.split("Region triad", 1)
    path = tmp_path / "long.txt"
    path.write_text(banner + "| iteration | residual |\n" * 5000 + "+Region triad" + rest, encoding="utf-8")
    (row,) = load(path).rows
    assert row.name == "triad"
    assert row.total_flop == pytest.approx(8e7 + 4)


def test_a_group_of_ones_own_has_its_time_among_the_counts(tmp_path):
    path = tmp_path / "custom.csv"
    path.write_text(
        "TABLE,Group 1 Raw,Custom,2,\nEvent,Counter,HWThread 0,\nRuntime (RDTSC) [s],TSC,2.5e-01,\n"
        "L2_LINES_IN_ALL,PMC0,100,\nL2_TRANS_L2_WB,PMC1,50,\n",
        encoding="utf-8",
    )
    (row,) = load(path).rows
    assert (row.name, row.time_s) == ("run, Custom", 0.25)
    assert (row.at("L3").read_bytes, row.at("L3").write_bytes) == (6400, 3200)


def test_a_short_time_printed_in_four_digits_is_said(tmp_path):
    path = tmp_path / "short.txt"
    path.write_text(
        "Group 1: FLOPS_DP\n|  Event  | Counter | HWThread 0 |\n"
        "| FP_ARITH_INST_RETIRED_SCALAR_DOUBLE | PMC1 | 5 |\n"
        "|  Metric  | HWThread 0 |\n| Runtime (RDTSC) [s] | 0.0012 |\n",
        encoding="utf-8",
    )
    found = load(path)
    assert found.rows[0].time_s == pytest.approx(0.0012)
    assert any("known within 4 %" in note for note in found.notes)  # 0.00005 of 0.0012


def test_a_file_without_counts_says_what_was_expected(tmp_path):
    path = tmp_path / "empty.csv"
    path.write_text("TABLE,Group 1 Raw,MEM,2\nEvent,Counter,HWThread 0\n", encoding="utf-8")
    with pytest.raises(FileError) as caught:
        likwid_perfctr.load(path)
    assert str(caught.value).startswith(f"{path}: no counts of likwid-perfctr, expected")


def test_ranks_of_likwid_mpirun(tmp_path):
    """Two ranks on two hosts, each entering the region five times; calls stand among the counts."""
    path = tmp_path / "mpi.csv"
    path.write_text(
        "TABLE,Region k,Group 1 Raw,FLOPS_DP,3,\nEvent,Counter,node1:0:0,node2:1:0\nRegion calls,CTR,5,5\n"
        "FP_ARITH_INST_RETIRED_SCALAR_DOUBLE,PMC1,100,50\nTABLE,Region k,Group 1 Metric,FLOPS_DP,1,,\n"
        "Metric,node1:0:0,node2:1:0,\nRuntime (RDTSC) [s],1.5,2.0,\n",
        encoding="utf-8",
    )
    (row,) = load(path).rows
    assert (row.runs, row.time_s, row.total_flop) == (5, 0.4, 30)


def test_a_short_region_has_its_time_from_its_metrics(tmp_path):
    """12.34567 µs are 0.000012 s in the table of the region, and 1.234567e-05 among the metrics."""
    text = (
        "TABLE,Region {0},Group 1 Raw,FLOPS_DP,1,\nRegion Info,HWThread 0\nRDTSC Runtime [s],{1}\ncall count,1\n"
        "Event,Counter,HWThread 0\nFP_ARITH_INST_RETIRED_SCALAR_DOUBLE,PMC1,5\n"
        "TABLE,Region {0},Group 1 Metric,FLOPS_DP,1\nMetric,HWThread 0\nRuntime (RDTSC) [s],{2}\n"
    )
    path = tmp_path / "short.csv"
    path.write_text(
        text.format("a", "0.000012", "1.234567e-05") + text.format("b", "0.000060", "0.0001"), encoding="utf-8"
    )
    found = load(path)
    assert [row.time_s for row in found.rows] == [1.234567e-05, 0.00006]
    (note,) = [note for note in found.notes if "rates are known" in note]
    assert note.startswith("b: ")


def test_what_holds_of_many_regions_is_said_once(tmp_path):
    text = "TABLE,Region {},Group 1 Raw,MEM,1\nEvent,Counter,HWThread 0\nCAS_COUNT_RD,MBOX0C0,7\n"
    path = tmp_path / "many.csv"
    path.write_text("".join(text.format(f"r{number}") for number in range(50)), encoding="utf-8")
    found = load(path)
    assert len(found.rows) == 50
    assert found.notes == ("no run time in the file", "bytes of DRAM are unknown: its writes were not counted")


def test_a_region_called_less_than_never_is_left_out(tmp_path):
    path = tmp_path / "calls.csv"
    text = (SAMPLES / "triad_icx_mem_dp.csv").read_text(encoding="utf-8")
    broken = text.replace("call count,10,10,10,10,", "call count,-10,-10,-10,0,").replace(
        "Region triad", "Region b"
    )
    path.write_text(text + broken, encoding="utf-8")
    found = load(path)
    assert [row.name for row in found.rows] == ["triad"]
    assert any(note == "b: called 0 times, left out" for note in found.notes)


_ABOUT = "CPU name:\tIntel(R) Core(TM) i7-4770 CPU\nCPU type:\tIntel Core Haswell processor\nCPU clock:\t3.39 GHz"


def test_the_banner_of_version_4_0_and_an_indent(tmp_path):
    """1000 lines of 64 bytes came into L2 and 500 left it, in region `append`, called twice, 0.1 s in all."""
    lines = [
        *_ABOUT.splitlines(),
        "=" * 80,
        "Group 1 L3: Region append",
        "=" * 80,
        "+-------------------+----------+",
        "|    Region Info    |  Core 0  |",
        "+-------------------+----------+",
        "| RDTSC Runtime [s] | 0.100000 |",
        "|     call count    |     2    |",
        "+-------------------+----------+",
        "",
        "|         Event         | Counter |    Core 0    |",
        "|   INSTR_RETIRED_ANY   |  FIXC0  | 9.262083e+08 |",
        "|    L2_LINES_IN_ALL    |   PMC0  | 1.000000e+03 |",
        "|     L2_TRANS_L2_WB    |   PMC1  | 5.000000e+02 |",
    ]
    path = tmp_path / "likwid.txt"
    path.write_text("".join(f"    {line}\n" for line in lines))
    (row,) = load(path).rows
    level = row.at("L3")
    assert level is not None
    assert (row.name, row.runs, row.time_s) == ("append", 2, 0.05)
    assert (level.read_bytes, level.write_bytes) == (1000 * 64 / 2, 500 * 64 / 2)


def test_version_3(tmp_path):
    """No counters in its tables; regions and groups have lines of their own."""
    path = tmp_path / "likwid.txt"
    path.write_text(
        """CPU type:	Intel Core Westmere processor
Measuring group FLOPS_DP
=====================
Region: Init
=====================
|    Region Info    | core 0  | core 1  |
| RDTSC Runtime [s] | 0.5     | 0.4     |
|    call count     |    1    |    1    |
|                Event                 |   core 0    |   core 1    |
|          INSTR_RETIRED_ANY           | 3.0e+08     | 2.0e+08     |
=====================
Region: Work
=====================
|    Region Info    | core 0  | core 1  |
| RDTSC Runtime [s] | 1.5     | 1.5     |
|    call count     |    1    |    1    |
|                Event                 |   core 0    |   core 1    |
|          INSTR_RETIRED_ANY           | 5.0e+08     | 5.0e+08     |
""",
        encoding="utf-8",
    )
    found = load(path)
    assert [(row.name, row.time_s, row.instructions) for row in found.rows] == [
        ("Init", 0.5, 5e8),
        ("Work", 1.5, 1e9),
    ]
    assert found.dropped == ()
