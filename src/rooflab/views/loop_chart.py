"""A loop on the roofline of its machine: one point for each level, at that level's intensity."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rooflab.errors import RooflabError
from rooflab.types.loop import LoopReport
from rooflab.types.machine import Point, Source
from rooflab.views import chart
from rooflab.views.theme import LIGHT, Theme

if TYPE_CHECKING:
    import altair as alt


def roofline(report: LoopReport, *, theme: Theme = LIGHT, width: int = 720, height: int = 440) -> alt.LayerChart:
    """One core's roofs with the loop under each: FLOP per byte that the level serves, FLOP/s as measured.

    Raises:
        RooflabError: a report without a machine, without FLOP or without a measured time.
    """
    if report.machine is None:
        raise RooflabError(f"{report.name}: no machine, so no roofs to draw; give machine= (or --machine)")
    run = report.run()
    if not report.flop or run is None:
        what = "FLOP" if run is not None else "measured time"
        raise RooflabError(f"{report.name}: no {what}, so no point to draw under the roofs; save it as .json")
    ours = Source("measured", f"rooflab loop: {report.where}; bytes simulated")
    points = tuple(
        Point(
            name=f"{report.name}: {each.level}",
            flop=report.flop,
            bytes=each.nbytes,
            time_s=run.median_s,
            level=each.level,
            scope="core",
            threads=1,
            spread=run.spread,
            runs=run.runs,
            source=ours,
        )
        for each in report.points
        if each.nbytes
    )
    drawn = msgspec.structs.replace(report.machine, points=points, name=f"{report.name} on {report.machine.name}")
    return chart.roofline(drawn, "core", theme=theme, width=width, height=height)
