"""A simulation of caches as people see it: what every level did, by array."""

from __future__ import annotations

from rooflab.views.common.page import Drawing
from rooflab.views.common.sheet import room
from rooflab.views.simulation.chart import chart
from rooflab.views.simulation.sheet import lines, sheet_of

show, html, WRITERS = room(sheet_of, lines, picture=Drawing("Hits and misses", chart))
