"""Predictions side by side."""

from __future__ import annotations

import json

import rooflab
from rooflab.views.report import comparison


def variants():
    report = rooflab.op("add", (1 << 26,), (1 << 26,))
    names = ("h200", "h100-sxm")
    return [(name, report.on(name)) for name in names]


def test_each_variant_has_a_line_and_its_speed_against_the_first():
    found = variants()
    table = comparison.table(found)
    assert [row[0] for row in table.rows] == ["h200", "h100-sxm"]
    ratio = found[0][1].time_s / found[1][1].time_s
    assert [row[3] for row in table.rows] == ["1 ×", f"{ratio:.3g} ×"]
    assert {row[4] for row in table.rows} == {"memory: HBM"}


def test_a_time_that_leaves_operations_out_is_no_speed_up():
    report = rooflab.op("matmul", (64, 64), (64, 64), dtype="fp8")
    found = [(name, report.on(name)) for name in ("h200", "a100-sxm-80gb")]
    assert not comparison.partial(found[0][1])
    assert comparison.partial(found[1][1])
    assert comparison.table(found).rows[1][3] == "–"


def test_the_terminal_and_the_json_hold_the_same(capsys):
    found = variants()
    comparison.show(found)
    text = capsys.readouterr().out
    assert text.index("Coverage 100 %") < text.index("h100-sxm")
    plain = json.loads(json.dumps(comparison.to_dict(found)))
    assert [line["on"] for line in plain["variants"]] == ["h200", "h100-sxm"]
    assert plain["variants"][0]["time_s"] == found[0][1].time_s
    assert len(plain["reports"]) == 2
