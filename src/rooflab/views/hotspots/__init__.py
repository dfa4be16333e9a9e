"""Hotspots as people see them: functions, loops and lines by their time, with what takes each apart."""

from __future__ import annotations

from rooflab.views.common.drawn import Drawing
from rooflab.views.common.sheet import room
from rooflab.views.hotspots.chart import chart
from rooflab.views.hotspots.sheet import lines, sheet_of

show, html, WRITERS = room(sheet_of, lines, picture=Drawing("Where the time goes", chart))
