"""The page of a report as it is written: names, numbers, verdict, size."""

from __future__ import annotations

import json
import re

import msgspec
import pytest

import rooflab
from rooflab.types.advice import Advice, Advices
from rooflab.types.work import Graph, Op, TensorSpec
from rooflab.views.common import advice
from rooflab.views.report import page, tables, verdict
from rooflab.views.report.embed import embedded
from rooflab.work import counting
from support.report_pages import EVIL, program


def test_names_are_escaped_and_data_cannot_end_the_script(advised):
    text = page.html(advised)
    assert EVIL not in text
    assert "<img src=x" not in text
    assert "<b>" not in text.partition("</style>")[2]
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    held = json.loads(found[1])
    assert EVIL in held["programs"][0]["lines"]["name"]


def test_the_numbers_on_the_page_are_those_of_the_report(mixed):
    held = embedded([("here", mixed)])
    lines, columns = held["programs"][0]["lines"], held["predictions"][0]["columns"]
    # Each row once: sums over the lines are sums over the rows.
    assert sorted(number for rows in lines["rows"] for number in rows) == list(range(len(mixed.rows)))
    assert sum(columns["time_s"]) == pytest.approx(sum(row.prediction.time_s for row in mixed.rows), rel=1e-8)
    assert sum(lines["flop"]) == pytest.approx(mixed.flop, rel=1e-8)
    assert sum(lines["bytes"]) == pytest.approx(mixed.nbytes, rel=1e-8)
    hbm = sum(row.prediction.memory_s["HBM"] for row in mixed.rows)
    assert sum(columns["memory_s"]["HBM"]) == pytest.approx(hbm, rel=1e-8)


def test_a_total_of_what_could_be_followed_is_not_shown_as_whole():
    followed = program().on("h200-sxm")
    coverage = msgspec.structs.replace(followed.coverage, unknown=("the values of ids decide what runs",))
    partial = msgspec.structs.replace(
        followed, coverage=coverage, prediction=None, predicted_part=followed.prediction
    )
    (held,) = embedded([("here", partial)])["predictions"]
    assert held["missing"] == "1 part of it not followed"
    assert verdict.headline(partial) == "What limits it is not known: 1 part of it not followed"
    (time, bound, floor) = tables.times(partial)
    assert time[1].startswith("> ")
    assert bound[1].endswith("(1 part of it not followed)")
    assert floor[1].startswith("> ")


def test_unknown_is_null_and_never_nought():
    held = embedded([("here", program(odd=True).on("h200-sxm"))])
    at = held["programs"][0]["lines"]["name"].index("my::sampling")
    columns = held["predictions"][0]["columns"]
    assert columns["time_s"][at] is None
    assert held["programs"][0]["lines"]["flop"][at] is None
    assert held["predictions"][0]["missing"] == "1 operation without a prediction"


def test_equal_programs_are_stored_once():
    both = rooflab.variants(program(), ["h200-sxm", "a100-sxm-80gb"])
    held = embedded(list(zip(both.names, both.reports, strict=True)))
    assert [len(held["programs"]), len(held["predictions"])] == [1, 2]
    assert [each["program"] for each in held["predictions"]] == [0, 0]


def test_the_verdict_is_of_what_is_known(mixed):
    assert verdict.headline(program()).endswith("what limits it depends on the machine, and none is given")
    odd = program(odd=True).on("h200-sxm")
    assert verdict.headline(odd) == "What limits it is not known: 1 operation without a prediction"
    assert verdict.distance(odd).startswith("More than ")
    assert f"{mixed.time_s / mixed.prediction.floor_s:.2f} × its floor" in verdict.distance(mixed)


def test_the_verdict_of_nothing_is_that_nothing_limits_it():
    nothing = counting.report(Graph(framework="hand", tensors=(), ops=()), "empty").on("h200-sxm")
    assert verdict.headline(nothing) == "Nothing limits it: no operation of it computes or moves anything"


def test_a_thousand_rows_take_less_than_three_megabytes():
    text = page.html(program(334).on("h200-sxm", mode="graph"))
    assert len(text.encode()) < 3e6


def test_equal_operations_leave_room_for_other_machines():
    """2,004 rows of 3 distinct operations: other machines can be chosen, and the page stays small."""
    tensors = tuple(TensorSpec((256, 64), "bf16", 32768.0, storage=number) for number in range(2))
    ops = tuple(
        Op(name=name, kind="pointwise", inputs=(0,), outputs=(1,), attrs={"function": name})
        for name in ("relu", "gelu", "silu") * 668
    )
    report = counting.report(Graph(framework="hand", tensors=tensors, ops=ops), "alike")
    report = report.on("h200-sxm", mode="graph")
    assert len(report.rows) == 2004
    names = [name for name, _ in page.elsewhere(report)]
    assert "NVIDIA A100 SXM 80GB" in names
    assert len(page.html(report).encode()) < 3e6


def test_a_page_without_other_machines_says_why():
    """400 products of as many shapes, their norms and copies: above 1,000 distinct operations."""
    report = program(400).on("h200-sxm", mode="graph")
    assert page.elsewhere(report) == []
    assert "No other machine to choose in this file: 1,201 distinct operations on 1,201 rows" in page.html(report)


def test_compiling_and_a_graph_are_said_to_overlap():
    one = Advice(rule="compile", change="c", evidence=(), before_s=4.0, after_s=1.0, effort="line")
    other = msgspec.structs.replace(one, rule="cuda-graph", after_s=2.0)
    said = [card["overlaps"] for card in advice.cards(Advices(each=(one, other))).cards]
    assert [text.partition(":")[0] for text in said] == ["Overlaps with 2", "Overlaps with 1"]
    assert all("Both together: 1.00" in text for text in said)
