"""rocprofv3's counter_collection.csv, built from the documented headings, not written by the tool."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflab.errors import FileError
from rooflab.observe.importers.counters.rocprofv3_counters import load

SAMPLE = Path(__file__).parents[3] / "samples" / "profiles" / "rocprofv3_counters" / "counter_collection.csv"
HEADER = (
    "Correlation_Id,Dispatch_Id,Agent_Id,Process_Id,Grid_Size,Kernel_Name,Workgroup_Size,"
    "Counter_Name,Counter_Value"
)


def written(folder: Path, *lines: str) -> Path:
    path = folder / "c.csv"
    path.write_text("\n".join([HEADER, *lines]) + "\n", encoding="utf-8")
    return path


def test_each_dispatch_gets_its_counters():
    """16,384 waves of 64 add once and multiply-add twice: (1 + 2 · 2) · 2²⁰ FLOP; sizes are in KiB."""
    found = load(SAMPLE)
    axpy, add = found.rows
    assert axpy.name == "axpy(float*, float const*, int)"
    assert [(one.dtype, one.count) for one in axpy.flop or ()] == [("fp32", 5 * 2**20)]
    dram = axpy.at("DRAM")
    assert dram is not None
    assert (dram.read_bytes, dram.write_bytes) == (8 * 2**20, 4 * 2**20)
    assert axpy.time_s == pytest.approx(10e-6)
    assert (axpy.grid, axpy.block) == ((4096,), (256,))
    assert (add.total_flop, add.time_s) == (2**20, pytest.approx(20e-6))
    assert any("2 devices are in it: Agent 4, Agent 5" in note for note in found.notes)
    assert not found.dropped


def test_the_same_again_is_kept_once_and_another_value_is_counted(tmp_path):
    found = load(
        written(
            tmp_path,
            "1,1,1,9,64,k,64,SQ_INSTS,10",
            "1,1,1,9,64,k,64,SQ_INSTS,10",
            "1,1,1,9,64,k,64,SQ_INSTS,11",
            "1,1,1,9,64,k,64,SQ_WAVES,nan",
            "1,x,1,9,64,k,64,SQ_WAVES,1",
        )
    )
    (row,) = found.rows
    assert row.instructions == 10
    assert row.time_s is None
    assert [one.count for one in found.dropped] == [2, 1]
    assert any("rates are not known" in note for note in found.notes)


def test_processes_number_their_dispatches_each(tmp_path):
    found = load(written(tmp_path, "1,1,1,9,64,k,64,SQ_INSTS,10", "1,1,1,8,64,k,64,SQ_INSTS,20"))
    assert [row.instructions for row in found.rows] == [10, 20]


def test_no_counter(tmp_path):
    path = written(tmp_path, "1,1,1,9,64,k,64,SQ_INSTS,")
    with pytest.raises(FileError, match="no line of rocprofv3's table") as caught:
        load(path)
    assert str(caught.value).startswith(str(path))
