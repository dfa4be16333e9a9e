"""A simulation of several cores as people see it: what they did to each other's caches."""

from __future__ import annotations

from rooflab.views.common.sheet import room
from rooflab.views.cores.sheet import sheet_of

show, html, WRITERS = room(sheet_of)
