"""One HTML page that shows a sweep of the teaching model: the chart and its values."""

from __future__ import annotations

from rooflab.types.lab import Sweep
from rooflab.views.common import page
from rooflab.views.lab import terminal
from rooflab.views.lab.chart import chart
from rooflab.views.lab.roofline import roofline

_DRAWINGS = (
    page.Drawing("What takes how long", chart, (380, 300)),
    page.Drawing("The same as a roofline", roofline, (380, 300)),
)


def html(sweep: Sweep) -> str:
    """One page with the chart and the table, which needs no network."""
    return page.render(
        sweep.name,
        "lab",
        facts=(terminal.turning(sweep),),
        charts=page.charts(sweep, _DRAWINGS),
        tables=(terminal.table(sweep)._replace(title="Values"),),
    )
