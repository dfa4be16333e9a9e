"""Text on pages: escaped whatever it holds, commands as code; a chart's title said once."""

from __future__ import annotations

import rooflab
from rooflab.types.transfer import Stage, Transfer
from rooflab.views.common import page
from rooflab.views.machine import roofline
from rooflab.views.transfer.sheet import table


def test_commands_are_code_and_all_else_is_escaped():
    assert page.prose("run `perf stat -j <a>` & load") == "run <code>perf stat -j &lt;a&gt;</code> &amp; load"
    assert page.prose("`<script>`") == "<code>&lt;script&gt;</code>"
    assert page.prose("one ` alone") == "one ` alone"


def test_a_chart_on_a_page_is_headed_by_the_page():
    machine = rooflab.machine("h200-sxm")
    (drawn,) = page.charts(machine, (page.Drawing("Roofline", roofline.roofline, (460, 330)),))
    assert drawn["title"] == "Roofline"
    assert drawn["says"].startswith("Attained, else theoretical")
    assert all("title" not in spec for spec in drawn["specs"].values())
    # A file of its own names its machine.
    assert machine.name in str(roofline.roofline(machine).to_dict()["title"])


def test_a_latency_that_nobody_states_is_unknown_and_costs_nothing():
    moved = rooflab.transfer("1 GB", ["PCIe", "HBM"], machine="h200-sxm")
    assert isinstance(moved, Transfer)
    stage = moved.stages[0].stage
    # H200's file states no latency of its PCIe link: None, and the first chunk takes its bytes ÷ bandwidth alone.
    assert stage.latency_s is None
    assert moved.stages[0].first_s == 8e6 / stage.bytes_per_s
    told = "\n".join("  ".join(row) for row in table(moved).rows)
    assert "0 s" not in told
    assert "taken as none" in table(moved).note
    assert Stage(name="x", bytes_per_s=1.0).latency_s is None
