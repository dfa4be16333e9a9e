"""An answer of serve as people see it: times at its load and others, where each step's time goes, memory."""

from __future__ import annotations

from rooflab.views.common.page import Drawing
from rooflab.views.common.sheet import room
from rooflab.views.serving.chart import bars_of, over_load, over_time
from rooflab.views.serving.sheet import lines, sheet_of

show, html, WRITERS = room(
    sheet_of,
    lines,
    picture=Drawing("TTFT and TPOT over the load", over_load),
    more=(Drawing("Where time and memory go", bars_of), Drawing("The stream over time", over_time)),
)
