"""A transfer as people see it: its stages, what binds, how long a device waits."""

from __future__ import annotations

from rooflab.views.common.page import Drawing
from rooflab.views.common.sheet import room
from rooflab.views.transfer.chart import chart
from rooflab.views.transfer.sheet import lines, sheet_of

show, html, WRITERS = room(sheet_of, lines, picture=Drawing("Time and rate of each stage", chart))
