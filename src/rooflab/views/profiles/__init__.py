"""Profiles of several files as people see them: side by side, and what ranks waited for."""

from __future__ import annotations

from rooflab.types.profiles import Profiles
from rooflab.views.common.sheet import room
from rooflab.views.profiles.chart import roofline
from rooflab.views.profiles.sheet import lines, sheet_of


def _page(profiles: Profiles) -> str:
    """The page of `profiles`: each file in turn, after what is said of all; a sheet where none was read."""
    from rooflab.views.common import page, sheet
    from rooflab.views.profile.page import pages

    shown = sheet_of(profiles)
    if not profiles.profiles:
        return sheet.html(shown)
    drawing = page.Drawing("All files under their roofs", roofline, (440, 360))
    stills = page.stills(profiles, [drawing]) if len(profiles.profiles) + len(profiles.machines) > 1 else []
    return pages(profiles.name, "several profiles", profiles.profiles, shown, stills)


show, html, WRITERS = room(sheet_of, lines, roofline, own_page=_page)
