"""The timeline of a profile as a picture: its rectangles are the shares of the parts, each in its place."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

import rooflab
from rooflab.errors import RooflabError
from rooflab.views.profile.timeline import timeline

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(scope="module")
def profile():
    return rooflab.load(EXAMPLES / "gpt2-h200-trace.json.gz")


def rectangles(profile):
    drawn = timeline(profile).to_dict()
    planes = drawn.get("vconcat", [drawn])
    return [plane["data"]["values"] for plane in planes]


def test_the_areas_are_the_shares_of_the_time(profile):
    (device,) = profile.timeline.devices
    (rows,) = rectangles(profile)
    area = {}
    for row in rows:
        assert 0 <= row["from"] < row["to"] <= device.span_s * (1 + 1e-9)
        assert 0 <= row["low"] < row["high"] <= 1
        area[row["what"]] = area.get(row["what"], 0.0) + (row["to"] - row["from"]) * (row["high"] - row["low"])
    assert area["compute"] == pytest.approx(device.compute_s, rel=1e-3)
    assert area["idle: launches"] == pytest.approx(device.idle[0].seconds, rel=1e-3)
    assert sum(area.values()) == pytest.approx(device.span_s, rel=1e-3)


def test_several_devices_have_a_plane_each_and_those_left_out_are_said(profile):
    (device,) = profile.timeline.devices
    many = tuple(msgspec.structs.replace(device, device=number) for number in range(11))
    whole = msgspec.structs.replace(profile.timeline, devices=many)
    wide = msgspec.structs.replace(profile, timeline=whole)
    assert len(rectangles(wide)) == 8
    assert "3 more devices are left out" in str(timeline(wide).to_dict()["title"])


def test_a_profile_without_times_has_none():
    counters = rooflab.load(EXAMPLES / "h200-kernels.csv.gz")
    with pytest.raises(RooflabError, match="holds no times of activities, so no timeline"):
        timeline(counters)


@pytest.mark.slow
def test_it_is_on_the_page(profile, tmp_path):
    profile.save(tmp_path / "p.html")
    assert "Timeline" in (tmp_path / "p.html").read_text()
