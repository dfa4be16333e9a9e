"""`perf stat` in its ways of writing: files of perf 6.1 itself, and lines built from its documented layout.

The samples were written by perf on a virtual machine without counters: its software events are there, cycles are
<not supported>. Lines with hardware events are built from the documented layout, not written by the tool.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import rooflab
from rooflab.errors import FileError
from rooflab.observe.importers import load
from rooflab.views import show

SAMPLES = Path(__file__).parents[3] / "samples" / "profiles" / "perf_stat"
SHARED = Path(__file__).parents[5] / "shared" / "samples"


def counters(folder, *lines):
    path = folder / "log"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return load(path)


def plain(*lines, command="./app -n 3", elapsed="2.000000000 seconds time elapsed"):
    return ["", f" Performance counter stats for '{command}':", "", *lines, "", f"       {elapsed}", ""]


@pytest.mark.parametrize(
    ("name", "runs", "time_s"),
    [
        ("plain_repeats.txt", 3, 0.09990),  # "0.09990 +- … seconds time elapsed"
        ("lines.json", 1, 0.102305423),  # duration_time
        ("separated.csv", 1, 0.098674344),
        ("intervals.txt", 4, 0.202319626 / 4),  # the last interval ends there
        ("cpus_intervals.csv", 3, 0.152304424 / 3),
        ("cores_intervals.txt", 2, 0.104438217 / 2),
        ("sockets.txt", 1, 0.110447661),
        ("repeats.csv", 1, None),  # 0.023 CPUs utilized has too few digits for a time
    ],
)
def test_files_of_perf(name, runs, time_s):
    found = load(SAMPLES / name)
    assert found.source == "perf stat"
    (row,) = found.rows
    assert row.runs == runs
    assert row.time_s == (None if time_s is None else pytest.approx(time_s, rel=1e-4))
    assert row.flop is None
    assert row.traffic == ()
    assert row.metrics["page-faults"] > 0
    assert "cycles" not in row.metrics
    assert any(note.startswith("<not supported>: cycles") for note in found.notes)
    assert found.dropped == ()
    show(rooflab.load(SAMPLES / name))


def test_cores_are_added_and_kept(tmp_path):
    """cpu-clock of two cores is twice the elapsed time, which is that of one."""
    (row,) = load(SAMPLES / "cores.json").rows
    assert row.metrics["S0-D0-C0 page-faults"] + row.metrics["S0-D0-C1 page-faults"] == row.metrics["page-faults"]
    assert row.metrics["cpu-clock"] == pytest.approx(2 * row.time_s, rel=0.05)


def test_a_command_with_hardware_events(tmp_path):
    """3 · 10⁹ FLOP and 64 MiB + 32 MiB in two seconds; two of the events took turns on a counter."""
    found = counters(
        tmp_path,
        "42 iterations",
        *plain(
            "     1,000,000,000      fp_arith_inst_retired.scalar_double:u      #  1.0 G/sec        (50.01%)",
            "       500,000,000      fp_arith_inst_retired.256b_packed_double:u                     (49.99%)",
            "                 0      fp_arith_inst_retired.128b_packed_double:u                     (49.99%)",
            "             64.00 MiB  uncore_imc/cas_count_read/",
            "             32.00 MiB  uncore_imc/cas_count_write/",
            "            120.50 Joules power/energy-pkg/",
            "     4,000,000,000      cycles                          #    2.000 GHz",
            "     8,000,000,000      instructions                    #    2.00  insn per cycle",
            "                                                  #     0.10  stalled cycles per insn",
        ),
    )
    (row,) = found.rows
    assert (row.name, row.time_s, row.total_flop) == ("./app -n 3", 2.0, 1e9 + 4 * 5e8)
    dram = row.at("DRAM")
    assert dram is not None
    assert (dram.read_bytes, dram.write_bytes) == (64 * 2**20, 32 * 2**20)
    assert row.instructions == 8e9
    assert row.metrics["power/energy-pkg/"] == 120.5
    assert any("extrapolated by perf" in note and "50 % of the time" in note for note in found.notes)
    assert found.dropped == ()  # what the program printed before is not perf's


def test_counts_of_some_widths_are_not_all_flop(tmp_path):
    found = counters(tmp_path, *plain("  1,000      fp_arith_inst_retired.256b_packed_single"))
    assert found.rows[0].total_flop == 8000
    assert any("not in the file: fp_arith_inst_retired_scalar_single" in note for note in found.notes)


def test_events_that_contain_others_are_not_counted_twice(tmp_path):
    """4_flops are 128-bit fp32 and 256-bit fp64; `all` of AMD contains its parts."""
    found = counters(
        tmp_path,
        "1000,,fp_arith_inst_retired.256b_packed_double,100,100.00,,",
        "1000,,fp_arith_inst_retired.4_flops,100,100.00,,",
        "7,,fp_arith_inst_retired.scalar,100,100.00,,",
    )
    assert found.rows[0].total_flop == 4 * 1000 + 7
    amd = counters(
        tmp_path,
        "46405704032,,fp_ret_sse_avx_ops.all,1200000000,100.00,,",
        "1367253,,fp_ret_sse_avx_ops.mac_flops,1200000000,100.00,,",
    )
    assert amd.rows[0].total_flop == 46_405_704_032


def test_channels_that_perf_did_not_merge_are_added(tmp_path):
    found = counters(
        tmp_path,
        *(f"100,,uncore_imc_{number}/cas_count_read/,1,100.00,," for number in range(8)),
        *(f"10,,uncore_imc_{number}/cas_count_write/,1,100.00,," for number in range(8)),
        "1000000,ns,duration_time,1000000,100.00,,",
    )
    dram = found.rows[0].at("DRAM")
    assert dram is not None
    assert (dram.read_bytes, dram.write_bytes, found.rows[0].time_s) == (8 * 6400, 8 * 640, 1e-3)


def test_intervals_are_a_mean_and_begin_where_they_begin(tmp_path):
    """Half a second each; the file begins with the third: 1.0 to 2.5 s."""
    lines = [f"{end},{value},,instructions,1,100.00,," for end, value in ((1.5, 10), (2.0, 20), (2.5, 60))]
    found = counters(tmp_path, *(line.replace(",", "000000,", 1) for line in lines))
    (row,) = found.rows
    assert (row.runs, row.time_s, row.instructions) == (3, 0.5, 30)
    assert row.metrics["instructions"] == 90


@pytest.mark.parametrize(
    ("atom", "core", "instructions"),
    [
        (("6720143357", "2.00"), ("20875198260", "97.00"), 6720143357 * 0.02 + 20875198260 * 0.97),
        (("<not counted>", "0.00"), ("20508456507", "100.00"), 20508456507),
        (("100", "100.00"), ("200", "100.00"), 300),  # -a: each kind counts its own cores all the time
        (("100", "30.00"), ("200", "30.00"), None),
    ],
)
def test_kinds_of_core_are_added_as_counted(tmp_path, atom, core, instructions):
    found = counters(
        tmp_path,
        f"{atom[0]},,cpu_atom/instructions/,16548968,{atom[1]},,",
        f"{core[0]},,cpu_core/instructions/,622042486,{core[1]},,",
    )
    (row,) = found.rows
    assert row.instructions == (None if instructions is None else pytest.approx(instructions))
    assert row.metrics["cpu_core/instructions/"] == float(core[0])


@pytest.mark.parametrize("separator", [",", ";", "\t", "|", "/"])
def test_decimal_commas_with_any_separator(tmp_path, separator):
    """As in French: 0.31 ms, all of the time; the metrics behind are cut off at the comma and not used."""
    lines = [
        ("0,31", "msec", "task-clock", "306721", "100,00", "0", "CPUs utilized"),
        ("788234", "", "cycles", "311478", "100,00", "2", "GHz"),
        ("538077", "", "instructions", "311478", "100,00", "0", "insn per cycle"),
    ]
    found = counters(tmp_path, *(separator.join(line) for line in lines))
    (row,) = found.rows
    assert row.metrics["task-clock"] == pytest.approx(0.31e-3)
    assert (row.metrics["cycles"], row.instructions) == (788_234, 538_077)
    assert row.metrics["insn per cycle"] == pytest.approx(0.6826, abs=1e-4)
    assert not any("extrapolated" in note for note in found.notes)


def test_numbers_as_in_german(tmp_path):
    found = counters(
        tmp_path,
        *plain(
            "          1.234,56 msec task-clock                #    0,617 CPUs utilized",
            "     1.234.567.890      instructions",
            elapsed="2,000000000 seconds time elapsed",
        ),
    )
    (row,) = found.rows
    assert (row.instructions, row.time_s) == (1_234_567_890, 2.0)
    assert row.metrics["task-clock"] == pytest.approx(1.23456)


def test_a_control_group_and_a_split_share(tmp_path):
    found = counters(tmp_path, "6376827291,,cycles,mesos_test,2011741096,100,00,3,GHz")
    assert found.rows[0].metrics == {"cycles": 6_376_827_291}
    assert not any("extrapolated" in note for note in found.notes)


CAS = (
    '{{"counter-value" : "{}.000000", "unit" : "", "event" : "UNC_M_CAS_COUNT.{}", "event-runtime" : 8017286783, '
    '"pcnt-running" : 100.00, "metric-value" : {}, "metric-unit" : "MB/s  memory_bandwidth_{}"}}'
)


@pytest.mark.parametrize("brace", ["{", ""])
def test_json_with_a_line_without_event_or_brace(tmp_path, brace):
    """1,117,309 reads of 64 bytes in 1.00214 s are 71.36 MB/s; perf printed 124.96."""
    found = counters(
        tmp_path,
        CAS.format(1117309, "RD", 124.961911, "read"),
        brace + '"metric-value" : 237.237504, "metric-unit" : "MB/s  memory_bandwidth_total"}',
        CAS.format(1004052, "WR", 112.275593, "write"),
        '{"counter-value" : "1002140370.000000", "unit" : "ns", "event" : "duration_time", '
        '"event-runtime" : 1002140370, "pcnt-running" : 100.00, "metric-value" : 0.0, "metric-unit" : "(null)"}',
    )
    (row,) = found.rows
    dram = row.at("DRAM")
    assert dram is not None
    assert dram.read_bytes / row.time_s == pytest.approx(71.36e6, rel=1e-4)
    assert row.metrics["memory_bandwidth_read [B/s]"] == pytest.approx(124.961911e6)
    assert row.metrics["memory_bandwidth_total [B/s]"] == pytest.approx(237.237504e6)
    assert any("prints memory_bandwidth_read 124.96 MB/s" in note and "71.36" in note for note in found.notes)
    assert found.dropped == ()


def test_a_line_that_is_none_is_dropped_and_counted(tmp_path):
    found = counters(
        tmp_path, *plain("  1,000      cycles", "   what is this line about", "  ten      instructions")
    )
    assert found.rows[0].metrics["cycles"] == 1000
    assert [one.count for one in found.dropped] == [2]


def test_several_commands_in_a_file_are_rows(tmp_path):
    found = counters(
        tmp_path, *plain("  1,000      cycles", command="a"), *plain("  2,000      cycles", command="b")
    )
    assert [(row.name, row.metrics["cycles"]) for row in found.rows] == [("a", 1000), ("b", 2000)]


def test_nothing_counted_says_why(tmp_path):
    with pytest.raises(FileError) as caught:
        counters(tmp_path, "<not supported>,,cycles,0,100.00,,", "<not supported>,,instructions,0,100.00,,")
    assert "counted none of its 2 events" in str(caught.value)
    assert "perf_event_paranoid" in str(caught.value)


@pytest.mark.skipif(not SHARED.is_dir(), reason="the recorded samples of others are not beside the checkout")
def test_lines_that_others_quoted():
    rows = {row.name.partition(" ")[0]: row for row in load(SHARED / "perf_stat_quoted_samples.txt").rows}
    assert len(rows) == 8
    french = rows["csv-fr_FR-locale-slash-separator"]
    assert french.metrics["task-clock"] == pytest.approx(0.31e-3)
    assert french.instructions / french.metrics["cycles"] == pytest.approx(0.6826, abs=1e-4)
    assert rows["csv-fr_FR-locale-comma-separator"].metrics == {"cycles": 6_376_827_291}
    plain_times = rows["csv-C-locale"]
    assert plain_times.time_s == pytest.approx(1.20e-3 / 0.697)
    cas = rows["json-ok-metric-only-object"]
    assert cas.at("DRAM").read_bytes / cas.time_s == pytest.approx(71.36e6, rel=1e-4)
    assert rows["json-broken-missing-brace"].at("DRAM").read_bytes == 1_374_098 * 64


def test_shares_of_slots_are_kept(tmp_path):
    found = counters(tmp_path, *plain("  1,000      slots        #     25.5 %  tma_backend_bound"))
    assert found.rows[0].metrics["tma_backend_bound"] == pytest.approx(0.255)


def test_rows_without_a_time_are_named(tmp_path):
    found = counters(
        tmp_path,
        "## first",
        "5,,cycles,1,100.00,,",
        "## second",
        "5,,cycles,1,100.00,,",
        "7,ns,duration_time,1,100.00,,",
    )
    assert [(row.name, row.time_s) for row in found.rows] == [("first", None), ("second", pytest.approx(7e-9))]
    assert any(note.startswith("no time, and so no place in a profile: first;") for note in found.notes)


def test_a_clock_below_zero_is_no_time(tmp_path):
    found = counters(tmp_path, "-1.5,msec,cpu-clock,1,100.00,1.000,CPUs utilized", "5,,cycles,1,100.00,,")
    assert found.rows[0].time_s is None
    assert "cpu-clock" not in found.rows[0].metrics


def test_an_event_of_several_groups_is_counted_once(tmp_path):
    """`perf stat -e ref-cycles,ref-cycles` prints both: 549,432,900 and 545,358,967 are the same cycles."""
    found = counters(
        tmp_path,
        *plain(
            "       549,432,900      ref-cycles   (50.01%)",
            "       545,358,967      ref-cycles   (49.99%)",
            "     1,000,000,000      fp_arith_inst_retired.scalar_double      (50.00%)",
            "     3,000,000,000      fp_arith_inst_retired.scalar_double      (50.00%)",
            "             64.00 MiB  uncore_imc/cas_count_read/",
            "             64.00 MiB  uncore_imc/cas_count_read/",
            "             32.00 MiB  uncore_imc/cas_count_write/",
        ),
    )
    (row,) = found.rows
    assert row.metrics["ref-cycles"] == (549_432_900 + 545_358_967) / 2
    assert row.total_flop == 2e9
    dram = row.at("DRAM")
    assert dram is not None  # controllers that perf did not merge are added
    assert (dram.read_bytes, dram.write_bytes) == (2 * 64 * 2**20, 32 * 2**20)
    assert any(note.startswith("counted more than once") and "ref-cycles" in note for note in found.notes)


def test_control_groups_are_added(tmp_path):
    found = counters(
        tmp_path,
        *(f"100,,instructions,slice/{name},1000,100.00,," for name in ("one", "two")),
        "1000,ns,duration_time,1000,100.00,,",
    )
    assert found.rows[0].instructions == 200


def test_spaces_between_thousands_and_the_old_place_of_msec(tmp_path):
    """As older versions print it where French is set: a comma before the fraction, spaces between thousands."""
    found = counters(
        tmp_path,
        "",
        " Performance counter stats for './cfg small.cfg 1000':",
        "",
        "           26,554473 task-clock (msec)       #    0,965 CPUs utilized",
        "                  13 context-switches        #    0,490 K/sec",
        "         121 540 390 instructions            #    1,57  insns per cycle",
        "",
        "         0,027514561 seconds time elapsed",
    )
    (row,) = found.rows
    assert (row.instructions, row.time_s, found.dropped) == (121_540_390, 0.027514561, ())
    assert row.metrics["task-clock"] == pytest.approx(0.026554473)
    assert row.metrics["context-switches"] == 13


def test_several_objects_on_a_line(tmp_path):
    """As some versions of perf write -j with -M: each is a reading."""
    read, write = (
        f'{{"counter-value" : "{count}.000000", "unit" : "", "event" : "UNC_M_CAS_COUNT.{way}", '
        '"event-runtime" : 8017286783, "pcnt-running" : 100.00}'
        for count, way in ((1000, "RD"), (500, "WR"))
    )
    found = counters(
        tmp_path,
        f'{read} {{"metric-value" : 237.237504, "metric-unit" : "MB/s  memory_bandwidth_total"}} {write}',
        '{"counter-value" : "1000000", "unit" : "ns", "event" : "duration_time", "event-runtime" : 1000000, '
        '"pcnt-running" : 100.00}',
    )
    dram = found.rows[0].at("DRAM")
    assert dram is not None
    assert (dram.read_bytes, dram.write_bytes) == (64_000, 32_000)


def test_whole_cpus_of_both_kinds_are_added(tmp_path):
    """System-wide each kind of core has its own CPUs, and extrapolated counts add up."""
    found = counters(
        tmp_path,
        "",
        " Performance counter stats for 'system wide':",
        "",
        "       300,000,000      cpu_atom/instructions/      #  0.7 instructions  insn_per_cycle  (59.84%)",
        "             TopdownL1 (cpu_core)                 #     10.3 %  tma_bad_speculation",
        "     2,000,000,000      cpu_core/instructions/      #  2.1 instructions  insn_per_cycle  (50.21%)",
        "",
        "       1.000000000 seconds time elapsed",
    )
    (row,) = found.rows
    assert (row.instructions, found.dropped) == (2.3e9, ())
    assert row.metrics["tma_bad_speculation"] == pytest.approx(0.103)
    assert any("extrapolated by perf" in note for note in found.notes)


@pytest.mark.parametrize(
    ("value", "unit", "seconds"),
    [("0.524149", "", 0.524149e-3), ("524149", "", 0.524149e-3), ("0.524149", "msec", 0.524149e-3)],
)
def test_the_clock_of_the_cpu_without_its_unit(tmp_path, value, unit, seconds):
    """An older version's 524149 ns of run time; at 0.500 CPUs utilized twice that elapsed."""
    found = counters(
        tmp_path, f"{value},{unit},task-clock,524149,100.00,0.500,CPUs utilized", "3,,faults,524149,100.00,,"
    )
    (row,) = found.rows
    assert row.metrics["task-clock"] == pytest.approx(seconds)
    assert row.time_s == pytest.approx(2 * seconds)
