"""A miss-ratio curve as people see it: misses by capacity."""

from __future__ import annotations

from rooflab.views.common.page import Drawing
from rooflab.views.common.sheet import room
from rooflab.views.miss_curve.chart import chart
from rooflab.views.miss_curve.sheet import lines, sheet_of

show, html, WRITERS = room(sheet_of, lines, picture=Drawing("Misses over capacity", chart, (340, 260)))
