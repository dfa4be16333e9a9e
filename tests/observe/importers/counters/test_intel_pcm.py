"""PCM's CSV: samples and lines are built from the documented schema (pcm.cpp), not written by the tool."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflab.errors import FileError
from rooflab.observe.importers import load

SAMPLES = Path(__file__).parents[3] / "samples" / "profiles" / "intel_pcm"


def written(folder, *lines):
    path = folder / "pcm.log"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return load(path)


def test_pcm_with_its_banner():
    """Three intervals of 2.007 s: 20.5, 21.5 and 22.5 GB read; 5,000, 5,100 and 5,200 million instructions."""
    found = load(SAMPLES / "pcm.csv")
    assert found.device is not None
    assert found.device.name == "Intel(R) Xeon(R) Gold 5218"
    (row,) = found.rows
    assert (row.runs, row.time_s) == (3, pytest.approx(2.007))
    dram = row.at("DRAM")
    assert dram is not None
    assert (dram.read_bytes, dram.write_bytes) == (pytest.approx(21.5e9), pytest.approx(11.25e9))
    assert row.instructions == pytest.approx(5.1e9)
    assert row.metrics["Proc Energy (Joules)"] == pytest.approx(241.1)
    assert row.metrics["Socket 1 READ"] == pytest.approx(10.75e9)
    # Two domains have a column C6res%: of the cores and of the package.
    assert row.metrics["System Core C-States C6res%"] == 40
    assert row.metrics["System Pack C-States C6res%"] == 0
    assert any("3 intervals are one row" in note for note in found.notes)


def test_pcm_memory_over_midnight_of_a_minute():
    """Four intervals of a second; sockets read 4.15 and 4.2 GB/s, MB of 10⁶; a missing channel is empty."""
    (row,) = load(SAMPLES / "pcm_memory.csv").rows
    assert (row.runs, row.time_s) == (4, pytest.approx(1.0))
    dram = row.at("DRAM")
    assert dram is not None
    assert (dram.read_bytes, dram.write_bytes) == (pytest.approx(8.35e9), pytest.approx(3.035e9))
    assert row.metrics["SKT1 Ch0Read"] == pytest.approx(2100e6)
    assert "SKT0 Ch2Read" not in row.metrics


def test_half_a_second_moves_half_the_bytes(tmp_path):
    found = written(
        tmp_path,
        ",,SKT0,SKT0,SKT0,System,System,System",
        "Date,Time,Mem Read (MB/s),Mem Write (MB/s),Memory (MB/s),Read,Write,Memory",
        "2026-3-4,9:59:59.750,1000,500,1500,1000,500,1500",
        "2026-3-4,10:0:0.250,3000,500,3500,3000,500,3500",
    )
    (row,) = found.rows
    assert row.time_s == pytest.approx(0.5)
    assert row.at("DRAM").read_bytes == pytest.approx(2000e6 * 0.5)


def test_memory_on_the_package_is_apart_and_a_total_that_differs_is_said(tmp_path):
    found = written(
        tmp_path,
        ",,SKT0,SKT0,SKT0,SKT0,SKT0,SKT0,System,System,System",
        "Date,Time,Mem Read (MB/s),Mem Write (MB/s),Memory (MB/s),HBM Read (MB/s), HBM Write (MB/s), HBM (MB/s),"
        "Read,Write,Memory",
        "2026-03-04,10:00:00.0,100,50,150,4000,2000,6000,4100,2050,7000",
    )
    (row,) = found.rows
    assert (row.at("HBM").read_bytes, row.at("DRAM").read_bytes, row.time_s) == (4e9, 1e8, 1.0)
    assert any("as those of a second" in note for note in found.notes)
    assert any("prints 7,000 MB/s" in note and "6,150" in note for note in found.notes)


OLD = ("System;;;;;;;;", "Date;Time;EXEC;IPC;L3CLK;READ;WRITE;INST;TIME(ticks);")


def test_old_versions_meant_powers_of_1024(tmp_path):
    """With the columns of their time; the domain stands over its first column only."""
    found = written(
        tmp_path,
        *OLD,
        "2014-02-05;13:38:04;0.1;1.0;0.2;2;1;10;100;",
        "2014-02-05;13:38:06;0.1;1.0;0.2;4;1;30;100;",
    )
    (row,) = found.rows
    assert (row.at("DRAM").read_bytes, row.at("DRAM").write_bytes) == (3 * 2**30, 2**30)
    assert row.instructions == 20 * 2**20
    assert row.time_s == 2


def test_semicolons_without_that_column_are_said_to_be_unsure(tmp_path):
    found = written(
        tmp_path,
        "System;;;;;;",
        "Date;Time;EXEC;IPC;READ;WRITE;INST",
        "2017-04-14;13:52:31,359;0,25;1;0,761;0,134;66,8",
    )
    (row,) = found.rows
    assert row.at("DRAM").read_bytes == pytest.approx(0.761e9)
    assert row.time_s is None
    assert any("GB of 2³⁰" in note for note in found.notes)


def test_the_time_of_one_interval_by_its_ticks(tmp_path):
    """3,410 million ticks of 3.41 GHz."""
    found = written(
        tmp_path,
        "Nominal core frequency: 3410000000 Hz",
        "System,System,System,System,System,System,System,",
        "Date,Time,IPC,READ,WRITE,INST,TIME(ticks),",
        "2026-03-04,10:00:01.000,1,1.5,0.5,66.8,3410,",
    )
    assert found.rows[0].time_s == pytest.approx(1.0)


def test_sockets_stand_in_for_the_system(tmp_path):
    found = written(
        tmp_path,
        "System,System,Socket 0,Socket 0,Socket 0,Socket 1,Socket 1,Socket 1,",
        "Date,Time,IPC,READ,WRITE,IPC,READ,WRITE,",
        "2026-03-04,10:00:01.000,1,1.5,0.5,1,2.5,1.5,",
        "what is this",
        "2026-03-04,10:00:03.000,1,1.5,0.5,1,2.5,N/A,",
    )
    (row,) = found.rows
    assert (row.at("DRAM").read_bytes, row.at("DRAM").write_bytes) == (4e9, 2e9)
    assert [one.count for one in found.dropped] == [1]


def test_a_table_without_an_interval_says_so(tmp_path):
    with pytest.raises(FileError) as caught:
        written(tmp_path, *OLD, "2014-02-05;13:38")
    assert "PCM's table has no interval; 1 lines" in str(caught.value)
