"""Predictions of one program side by side: the table, the terminal, the files, and back."""

from __future__ import annotations

import json

import pytest

import rooflab
from rooflab.errors import UnknownNameError
from rooflab.views.variants import sheet


@pytest.fixture(scope="module")
def sums():
    return rooflab.variants(rooflab.op("add", (1 << 26,), (1 << 26,)), ["h200", "h100-sxm"])


def test_each_variant_has_a_line_and_its_speed_against_the_first(sums):
    table = sheet.table(sums)
    assert [row[0] for row in table.rows] == ["h200", "h100-sxm"]
    ratio = sums["h200"].time_s / sums["h100-sxm"].time_s
    assert [row[3] for row in table.rows] == ["1 ×", f"{ratio:.3g} ×"]
    assert {row[4] for row in table.rows} == {"memory: HBM"}


def test_a_time_that_leaves_operations_out_is_no_speed_up():
    report = rooflab.op("matmul", (64, 64), (64, 64), dtype="fp8")
    variants = rooflab.variants(report, ["h200", "a100-sxm-80gb"])
    assert variants["h200"].prediction is not None
    assert variants["a100-sxm-80gb"].prediction is None
    assert sheet.table(variants).rows[1][3] == "–"


def test_what_ifs_are_variants_of_each_machine(sums):
    report = sums.reports[0]
    variants = rooflab.variants(report, ["h200", "l4"], ["bandwidth=2x", {"clock": 2}], mode="eager")
    assert variants.names == (
        *("h200", "h200, bandwidth=2x", "h200, clock=2"),
        *("l4", "l4, bandwidth=2x", "l4, clock=2"),
    )
    assert {each.setting.mode for each in variants.reports} == {"eager"}
    assert variants["h200, bandwidth=2x"].setting.what_if == {"bandwidth": 2.0}
    assert variants["h200, bandwidth=2x"].time_s == report.on("h200", mode="eager", what_if="bandwidth=2x").time_s


def test_a_batch_is_met_by_analyzing_again():
    def at_batch(size):
        return rooflab.op("relu", (size, 1 << 20))

    variants = rooflab.variants(at_batch(8), ["h200"], ["batch=64,bandwidth=2x"], at_batch=at_batch)
    assert [report.flop for report in variants.reports] == [8 << 20, 64 << 20]
    assert variants.reports[1].setting.what_if == {"bandwidth": 2.0}


def test_an_unknown_variant_names_near_ones(sums):
    with pytest.raises(UnknownNameError, match=r"unknown variant of add .*'h100'; did you mean .*h100-sxm"):
        sums["h100"]


def test_the_terminal_and_the_json_hold_the_same(sums, capsys, tmp_path):
    sums.show()
    text = capsys.readouterr().out
    assert text.index("Coverage 100 %") < text.index("h100-sxm")
    path = tmp_path / "sums.json"
    sums.save(path, tmp_path / "sums.html", tmp_path / "sums.csv")
    raw = json.loads(path.read_text(encoding="utf-8"))
    assert [line["on"] for line in raw["variants"]] == ["h200", "h100-sxm"]
    assert raw["variants"][0]["time_s"] == sums.reports[0].time_s
    assert len(raw["reports"]) == 2
    assert rooflab.load(path) == sums
    assert (tmp_path / "sums.csv").read_text(encoding="utf-8").startswith("on,machine,time_s")
