"""A checkup as people see it: what this environment lacks, what that means and what to do; what it grants."""

from __future__ import annotations

from rooflab.views.checkup.sheet import lines, sheet_of
from rooflab.views.checkup.terminal import show
from rooflab.views.common.sheet import room

_, html, WRITERS = room(sheet_of, lines)

__all__ = ["WRITERS", "html", "show"]
