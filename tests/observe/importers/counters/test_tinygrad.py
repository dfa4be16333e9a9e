"""tinygrad's lines of kernels: logs of several versions, both bandwidths, noise between, digits that are too few.

The samples were written by tinygrad 0.14 (CPU by its X86 renderer; NULL with DEBUG=4) and 0.10.3 (CPU) of one
program: relu(a·b) of 1024x1024 (NULL: 512x512) four times, a sum; only paths of files were changed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflab.errors import FileError
from rooflab.observe.importers.counters import tinygrad

SAMPLES = Path(__file__).parents[3] / "samples" / "profiles" / "tinygrad"
TODAY = "*** CUDA       {n} {name:46s} arg  3 mem   0.02 GB tm {time}/     9.04ms ({flop} GFLOPS {rates} GB/s)"


def log(folder, *lines):
    path = folder / "out.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tinygrad.load(path)


def line(name="r_64_4", time="   100.00us", flop="    500", rates="  10|429   ", n=1):
    return TODAY.format(name=name, time=time, flop=flop, rates=rates, n=n)


def only(counters):
    (row,) = counters.rows
    return row


def test_both_bandwidths_are_kept_apart(tmp_path):
    """100 µs at 10 GB/s of memory and 429 GB/s of loads and stores, 500 GFLOPS."""
    row = only(log(tmp_path, line()))
    assert row.time_s == pytest.approx(100e-6)
    assert row.total_flop == pytest.approx(500e9 * 100e-6)
    assert row.at("DRAM").nbytes == pytest.approx(10e9 * 100e-6)
    assert row.at("L1").nbytes == pytest.approx(429e9 * 100e-6)
    assert (row.at("DRAM").basis, row.at("L1").basis) == ("compulsory", "accessed")


def test_a_recorded_log_of_a_product():
    """relu of 1024³ multiply-adds: 2·1024³ and 1024² more, from rates of three digits."""
    counters = tinygrad.load(SAMPLES / "cpu_0.10.3.txt")
    product = next(row for row in counters.rows if row.name == "r_256_256_256_4_4_4")
    assert product.runs == 4
    assert product.total_flop == pytest.approx(2 * 1024**3 + 1024**2, rel=0.01)
    assert product.at("DRAM") is None  # printed as 0.0: 12.6 MB in 1.4 s
    assert product.at("L1").nbytes == pytest.approx(2.15e9, rel=0.04)
    copy = next(row for row in counters.rows if row.name.startswith("copy 4,"))
    assert (copy.flop, copy.at("DRAM").nbytes) == ((), 4)


def test_a_rate_that_was_rounded_away_is_not_zero():
    counters = tinygrad.load(SAMPLES / "cpu_0.14.txt")
    product = next(row for row in counters.rows if row.name == "r_128_256_2_4_4_256_4")
    assert (product.runs, product.flop, product.traffic) == (4, None, ())
    assert any("too small for its digits" in note for note in counters.notes)
    assert not counters.dropped  # "*** epoch 0: loss 0.25 arg" is no kernel's line


def test_source_code_between_the_lines_and_times_that_nothing_took():
    counters = tinygrad.load(SAMPLES / "null_debug4_0.14.txt")
    product = next(row for row in counters.rows if row.name == "r_128_128_4_4_128_4")
    assert product.total_flop == pytest.approx(2 * 512**3 + 512**2, rel=0.01)
    assert any("made up" in note for note in counters.notes)


@pytest.mark.parametrize(
    ("text", "flop", "memory"),
    [
        # 0.8 as it printed: one bandwidth, commas.
        (
            "*** CPU        1 <interpreted 4096>                    arg   3 mem  0.00 GB tm   1000.00us/ "
            "    1.59ms (    0.33 GFLOPS,    0.25 GB/s)",
            0.33e6,
            0.25e6,
        ),
        # 0.9: no number of arguments.
        (
            "*** PYTHON    26 r_64_16_4n2                              mem  0.00 GB tm      1.00ms/ 26434.20ms "
            "(     2.00 GFLOPS    1.5|2.5     GB/s) ",
            2e6,
            1.5e6,
        ),
        # 0.7: sizes and operations, no device. Built from its source's layout, not written by it.
        (
            "***    12 r_256_16_16                           arg   3 sz [16, 4]           [16]         OPs    "
            "  2M/   0.01G  mem  0.02 GB tm     10.00us/     1.02ms (  200.00 GFLOPS,   50.00 GB/s)",
            2e6,
            0.5e6,
        ),
        # Fast devices: tera.
        (
            "*** NV        34 r_64                             arg  3 mem   0.10 GB tm     10.00us/     9.00ms "
            "(    150 TFLOPS   12|300    TB/s)",
            1.5e9,
            120e6,
        ),
    ],
)
def test_layouts_of_other_versions(tmp_path, text, flop, memory):
    row = only(log(tmp_path, "hello", text, "world"))
    assert row.total_flop == pytest.approx(flop)
    assert row.at("DRAM").nbytes == pytest.approx(memory)


def test_colours_and_bars_of_progress(tmp_path):
    coloured = "\x1b[32m*** CUDA       1\x1b[0m r\x1b[90m_\x1b[0m\x1b[34m64\x1b[0m"
    rest = " arg  2 mem   0.00 GB tm \x1b[33m    12.60ms\x1b[0m/    15.25ms (     90 GFLOPS   20|30     GB/s)"
    row = only(log(tmp_path, "compiling:  50%|█| 1/2\r" + coloured + " " * 30 + rest))
    assert (row.name, row.time_s) == ("r_64", pytest.approx(12.6e-3))


def test_runs_are_one_row_and_devices_are_not(tmp_path):
    other = line(n=3).replace("*** CUDA ", "*** CUDA:1 ")
    counters = log(tmp_path, line(), line(time="   300.00us", n=2), other)
    assert [(row.name, row.runs) for row in counters.rows] == [("r_64_4 on CUDA", 2), ("r_64_4 on CUDA:1", 1)]
    assert counters.rows[0].time_s == pytest.approx(200e-6)
    assert counters.rows[0].metrics["slowest run (s)"] == pytest.approx(300e-6)


def test_copies_by_their_size(tmp_path):
    """Newer versions print 2^20 bytes as 1.00 MB, older ones 10^6 as 1.00M."""
    new = line(name="copy  2.00 MB,    CUDA <- CPU", flop="      0", rates="   0|0      ")
    old = line(name="copy  2.00M,    CUDA <- CPU", flop="      0", rates="   0|0      ")
    assert [row.at("DRAM").nbytes for row in log(tmp_path, new, old).rows] == [2 * 2**20, 2e6]


def test_a_line_without_its_time_is_dropped_and_counted(tmp_path):
    untimed = "*** CUSTOM     1 custom_random                            mem  0.00 GB "
    counters = log(tmp_path, untimed, line(), line(time="    -1.00us"), line(flop="    nan"))
    assert [one.count for one in counters.dropped] == [2]
    assert only(counters).runs == 2


def test_nothing_that_ran(tmp_path):
    with pytest.raises(FileError, match="DEBUG=2"):
        log(tmp_path, "opened device CUDA from pid:12")


def test_other_logs_are_not_taken():
    assert not tinygrad.sniff(b"*** epoch 0: loss 0.25 arg\n*** Error 1 in mem 3 GB\n")
