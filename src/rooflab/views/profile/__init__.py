"""A profile as people see it: what limited the run, each operation measured, predicted and counted."""

from __future__ import annotations

from typing import TextIO

from rooflab.types.profile import Profile
from rooflab.views.common import sheet as sheets
from rooflab.views.common.advice import TOP
from rooflab.views.common.page import Drawing
from rooflab.views.common.sheet import room
from rooflab.views.profile.chart import roofline
from rooflab.views.profile.instructions import instruction_roofline
from rooflab.views.profile.rows import lines
from rooflab.views.profile.sheet import sheet_of
from rooflab.views.profile.timeline import timeline

_TIMELINE = Drawing("Timeline", timeline)
_INSTRUCTIONS = Drawing("Instruction roofline", instruction_roofline, (460, 330))


def _page(profile: Profile) -> str:
    """The page of `profile`; what it needs is imported for it alone, as the terminal needs none of it."""
    from rooflab.views.profile.page import html as page

    return page(profile)


def show(profile: Profile, file: TextIO | None = None, *, advice: int | None = TOP) -> None:
    """Print `profile`, with `advice` changes that would help; None for all of them."""
    sheets.show(sheet_of(profile, advice), file)


_, html, WRITERS = room(sheet_of, lines, roofline, (_TIMELINE, _INSTRUCTIONS), own_page=_page)
