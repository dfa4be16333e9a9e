"""Timings from files: what is read, what is left out and why, what is refused."""

from __future__ import annotations

import json

import pytest

import rooflab
from rooflab.errors import FileError
from rooflab.model.calibrate import timings


@pytest.fixture
def file(tmp_path):
    def write(text, name="timings.csv"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_csv_rows_are_operations_with_their_settings(file):
    found = timings.read(
        file(
            "kind,shapes,dtype,time,causal,framework\n"
            "matmul,64x32 32x16,bf16,187 us,,\n"
            "attention,1x8x128x64,fp16,0.5 ms,true,torch\n"
        )
    )
    first, second = found.timed
    assert (first.title, first.time_s) == ("matmul 64x32 32x16 bf16", pytest.approx(187e-6))
    assert first.report.flop == 2 * 64 * 32 * 16
    assert second.time_s == pytest.approx(0.5e-3)
    assert second.report.rows[0].op.attrs["causal"] is True
    assert (first.report.rows[0].op.name, second.report.rows[0].op.name) == ("matmul", "aten.attention")
    assert found.dropped == ()


@pytest.mark.parametrize(
    ("column", "cell"), [("time_s", "0.002"), ("time_ms", "2"), ("time_us", "2000"), ("time_ns", "2e6")]
)
def test_a_number_in_a_column_that_names_its_unit(file, column, cell):
    (one,) = timings.read(file(f"kind,shapes,{column}\nadd,1000,{cell}\n")).timed
    assert one.time_s == pytest.approx(2e-3)
    assert one.report.graph.tensors[0].dtype == "fp32"


def test_json_takes_shapes_as_a_list_and_settings_beside_or_in_attrs(file):
    rows = [
        {"kind": "sum", "shapes": ["100x10"], "dims": 1, "time": "3 us"},
        {"kind": "sum", "shapes": "100x10", "attrs": {"dims": 1}, "time_us": 3},
    ]
    first, second = timings.read(file(json.dumps(rows), "t.json")).timed
    assert first.report.rows[0].op.attrs == second.report.rows[0].op.attrs
    assert first.time_s == second.time_s


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("matmull,8x8 8x8,fp32,1 us", "line 3: unknown operation 'matmull'; did you mean matmul"),
        ("add,8 8,fp32,-1 us", "line 3: time is -1 us, expected a positive time"),
        ("add,8 8,fp32,12", "line 3: '12' has no unit, expected a number and a unit"),
        ("add,8 8,fp32,3 GB", "line 3: '3 GB' is in byte, expected s"),
        ("add,8 8,fp32,", "line 3: got no time, expected one of time (such as '187 us'), time_s"),
        ("add,8 8,fp33,1 us", "line 3: unknown dtype 'fp33'"),
        ("add,8 9,fp32,1 us", "line 3: add: 8 and 9 do not broadcast"),
        (",8 8,fp32,1 us", "line 3: no kind, expected the name of an operation, such as matmul"),
        ("add,8 8,fp32,1 us,extra", "line 3: got 5 cells, expected 4: put quotes around a cell with a comma"),
    ],
)
def test_a_row_that_cannot_be_read_is_left_out_with_its_reason(file, line, reason):
    found = timings.read(file(f"kind,shapes,dtype,time\nadd,8 8,fp32,1 us\n{line}\n"))
    assert len(found.timed) == 1
    assert len(found.dropped) == 1
    assert found.dropped[0].startswith(reason)


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("", "t.csv", "its first line has no column kind, expected kind,shapes,dtype,time"),
        ("a,b\n1,2\n", "t.csv", "its first line has no column kind"),
        ("kind,shapes,time\n", "t.csv", "no row can be used: it is empty"),
        ("kind,shapes,time\nadd,8,-1 s\n", "t.csv", "no row can be used: line 2: time is -1 s"),
        ("{", "t.json", "not valid JSON"),
        ('{"a": 1}', "t.json", "got a JSON dict, expected a list of timings or a report"),
        (
            "[1]",
            "t.json",
            "no row can be used: row 1: got 1, expected an object with kind,",
        ),
        (
            '[{"kind": "add", "shapes": "8", "time": "1 us", "framework": "paddle"}]',
            "t.json",
            "no row can be used: row 1: framework is 'paddle', expected numpy or torch",
        ),
    ],
)
def test_a_file_without_a_usable_row_is_refused_with_the_first_reason(file, text, name, message):
    path = file(text, name)
    with pytest.raises(FileError) as caught:
        timings.read(path)
    assert str(caught.value).startswith(f"{path}: {message}")
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileError, match=r"no\.csv: no such file; expected timings: kind,shapes"):
        timings.read(tmp_path / "no.csv")


def test_a_reports_rows_with_observed_times(file):
    raw = rooflab.op("add", 1000).to_dict()
    raw["rows"][0]["observation"] = {"time_s": 2e-6}
    (one,) = timings.read(file(json.dumps(raw), "report.json")).timed
    assert (one.rows, one.time_s, one.title) == ((0,), 2e-6, "add (row 1)")


@pytest.mark.parametrize("observation", [None, {"time_s": -1.0}])
def test_a_report_without_an_observed_time_is_refused(file, observation):
    raw = rooflab.op("add", 1000).to_dict()
    raw["rows"][0]["observation"] = observation
    with pytest.raises(FileError, match="none of the report's 1 rows has an observed time that can be used"):
        timings.read(file(json.dumps(raw), "report.json"))
