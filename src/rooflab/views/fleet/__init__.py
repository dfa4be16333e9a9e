"""A fleet as people see it: which node is slow and the evidence, nodes side by side, strips of quantities."""

from __future__ import annotations

from rooflab.views.common.page import Drawing
from rooflab.views.common.sheet import room
from rooflab.views.fleet.chart import chart
from rooflab.views.fleet.sheet import lines, sheet_of

show, html, WRITERS = room(sheet_of, lines, picture=Drawing("How fast each node is", chart))
