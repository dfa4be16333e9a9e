"""Speed-up over cores as it is drawn and tabled: predicted, measured, what is lost to what."""

from __future__ import annotations

import json

import msgspec
import pytest

import rooflab
from rooflab.errors import RooflabError
from rooflab.types.loop import LoopReport, Region, Scaled
from rooflab.views.loop import charts, tables


@pytest.fixture(scope="module")
def bare(root):
    return LoopReport.from_dict(
        json.loads((root / "tests" / "samples" / "loop" / "stencil.json").read_text("utf-8"))
    )


@pytest.fixture(scope="module")
def spread(bare):
    one = bare.run().median_s
    return msgspec.structs.replace(
        bare,
        regions=(Region(line=3, last_line=5, variable="i", entries=40, trips=400),),
        scaling=(
            Scaled(threads=1, time_s=one, speedup=1.0, measured_s=one),
            Scaled(
                threads=2,
                time_s=one / 1.8,
                speedup=1.8,
                limit="fork and join",
                lost_s={"fork and join": 1e-4},
                measured_s=one / 1.5,
            ),
            Scaled(threads=4, time_s=one / 1.7, speedup=1.7, limit="DRAM", lost_s={"DRAM": 1e-3}),
        ),
    )


def test_a_row_for_each_number_of_threads(spread):
    table = tables.scaling(spread)
    assert [row[0] for row in table.rows] == ["1", "2", "4"]
    assert table.rows[1][3:] == ("1.8 ×", "1.5 ×", "fork and join 100 µs")
    # not measured, and no faster
    assert table.rows[2][2] == table.rows[2][4] == "–"
    assert "start 40 times" in table.note
    assert "No faster beyond 2 threads" in table.note


def test_simulated_traffic_stands_beside_the_times(spread):
    one, two, four = spread.scaling
    two = msgspec.structs.replace(two, memory_bytes=24_000_000, between_bytes=0)
    table = tables.scaling(msgspec.structs.replace(spread, scaling=(one, two, four)))
    assert table.columns[-2:] == ("memory traffic", "between cores")
    assert [row[-2:] for row in table.rows] == [("–", "–"), ("24.0 MB", "0 B"), ("–", "–")]
    assert "memory traffic" not in tables.scaling(spread).columns


def test_measured_points_stand_beside_the_line(spread):
    drawn = charts.scaling(spread).to_dict()
    rows = [layer["data"]["values"] for layer in drawn["layer"]]
    assert [row["speedup"] for row in rows[1]] == [1.0, 1.8, 1.7]
    assert [row["speedup"] for row in rows[3]] == pytest.approx([1.0, 1.5])


def test_without_prange_there_is_nothing_to_show(bare):
    assert tables.scaling(bare) is None
    with pytest.raises(RooflabError, match="no loop over prange"):
        charts.scaling(bare)


def test_what_the_ends_of_a_predicted_time_are_is_said(bare, root):
    report = msgspec.structs.replace(bare, machine=rooflab.machine(root / "examples" / "zen4-guest.toml"))
    (said,) = charts.times(report).to_dict()["title"]["subtitle"]
    assert "from where all overlaps to where nothing does" in said
    first, *others = report.predictions
    first = msgspec.structs.replace(first, low_s=0.8 * first.time_s, high_s=1.2 * first.time_s)
    (said,) = charts.times(msgspec.structs.replace(report, predictions=(first, *others))).to_dict()["title"][
        "subtitle"
    ]
    assert "where four of five such times lie" in said
