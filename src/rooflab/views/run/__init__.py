"""A command that was run as people see it: its time, cores, faults and memory, its point under the roofs."""

from __future__ import annotations

from rooflab.views.common.drawn import Drawing
from rooflab.views.common.sheet import room
from rooflab.views.run.chart import chart
from rooflab.views.run.sheet import lines, sheet_of

show, html, WRITERS = room(sheet_of, lines, picture=Drawing("Where it stands", chart))
