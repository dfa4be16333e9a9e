"""A miss-ratio curve as people see it: misses by capacity."""

from __future__ import annotations

from rooflab.views.common.sheet import room
from rooflab.views.miss_curve.sheet import sheet_of

show, html, WRITERS = room(sheet_of)
