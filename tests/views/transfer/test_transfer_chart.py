"""The picture of a transfer: stages where they lie in time, what is unknown left empty."""

from __future__ import annotations

import pytest

import rooflab
from rooflab.views.transfer.chart import chart


def parts(spec: dict, panel: int) -> dict[str, dict]:
    """The rows of the bars of a panel, by name."""
    return {row["row"]: row for row in spec["vconcat"][panel]["layer"][0]["data"]["values"]}


@pytest.fixture(scope="module")
def moved():
    rates = {"disk": "1 GB/s", "bus": "10 GB/s"}
    return rooflab.transfer("10 GB", ("disk", "bus"), rates=rates, chunk="1 GB")


def test_stages_side_by_side_begin_with_the_first_chunk(moved):
    spec = chart(moved).to_dict()
    bars = parts(spec, 0)
    assert (bars["disk"]["low"], bars["disk"]["high"]) == pytest.approx(
        (0, 10), rel=1e-3
    )  # 10 GB at 1 GB/s, and latencies
    assert bars["bus"]["low"] == pytest.approx(1, rel=1e-3)  # a chunk of 1 GB has passed the disk
    assert bars["whole way"]["high"] == pytest.approx(moved.time_s)
    assert bars["disk"]["group"] == "binds"
    assert bars["bus"]["group"] == "other stages"


def test_an_unknown_stage_has_words_and_no_bar():
    found = rooflab.transfer("10 GB", ("disk", "DRAM"), rates={"disk": "1 GB/s"})
    spec = chart(found).to_dict()
    assert "DRAM" not in parts(spec, 0)
    texts = {row["row"]: row["text"] for row in spec["vconcat"][0]["layer"][-1]["data"]["values"]}
    assert texts["DRAM"] == "rate unknown, left out"


@pytest.mark.parametrize("suffix", ["svg", "png", "pdf", "html", "json"])
def test_every_suffix_writes(moved, tmp_path, suffix):
    path = tmp_path / f"a.{suffix}"
    moved.save(path, style="paper")
    assert path.stat().st_size > 500
