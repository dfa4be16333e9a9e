"""Profiles of several files as people see them: side by side, and what ranks waited for."""

from __future__ import annotations

from rooflab.views.common.sheet import room
from rooflab.views.profiles.chart import roofline
from rooflab.views.profiles.sheet import lines, sheet_of

show, html, WRITERS = room(sheet_of, lines, roofline)
