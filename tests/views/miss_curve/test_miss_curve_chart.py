"""The picture of a miss-ratio curve."""

from __future__ import annotations

import pytest

import rooflab
from rooflab.errors import RooflabError
from rooflab.types.simulation import MissCurve
from rooflab.views.miss_curve.chart import chart, corners


def test_corners_lie_on_the_curve_and_end_where_nothing_more_is_saved():
    curve = rooflab.miss_curve(rooflab.streams.sequential(10_000, passes=3))
    points = corners(curve)
    assert [x for x, _ in points] == sorted(x for x, _ in points)
    assert points[0] == (64.0, pytest.approx(curve.miss_ratio(64)))
    assert points[-1][1] == pytest.approx(curve.compulsory / curve.requests)
    # 10,000 B are 157 lines of 64 B: at 156 lines all three passes miss, at 157 the first alone.
    ratio = dict(points)
    assert ratio[157 * 64] == pytest.approx(curve.compulsory / curve.requests)
    assert max(y for x, y in points if x < 157 * 64) == min(y for x, y in points if x < 157 * 64)


def test_no_requests_no_picture():
    with pytest.raises(RooflabError, match="no requests"):
        chart(MissCurve(name="x", line_bytes=64, requests=0, compulsory=0, distances=(), counts=()))


@pytest.mark.parametrize("suffix", ["svg", "png", "pdf", "html"])
def test_every_suffix_writes(tmp_path, suffix):
    curve = rooflab.miss_curve(rooflab.streams.sequential(10_000, passes=3))
    curve.save(tmp_path / f"a.{suffix}")
    assert (tmp_path / f"a.{suffix}").stat().st_size > 500
