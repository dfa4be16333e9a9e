"""A command that was run as people see it: its time, cores, faults and memory, its point under the roofs."""

from __future__ import annotations

from rooflab.types.run import Run
from rooflab.views.common.drawn import Drawing
from rooflab.views.common.sheet import room
from rooflab.views.run.chart import chart
from rooflab.views.run.sheet import lines, recorded, sheet_of


def _page(run: Run) -> str:
    """The page of `run`: that of its profile where a framework's profiler recorded one."""
    from rooflab.views.common import page, sheet

    if recorded(run) is None:
        shown = sheet_of(run)
        return sheet.html(shown, page.charts(run, (_PICTURE,)))
    import msgspec

    from rooflab.views.profile.page import pages

    profiles = (run.profile,) if run.profile is not None else run.profiles.profiles if run.profiles else ()
    own = sheet_of(msgspec.structs.replace(run, profile=None, profiles=None))
    # That page says of one file what it says first: what the system saw is read with the conventions.
    said = own._replace(notes=(*own.warnings, *own.sentences, *own.notes)) if len(profiles) == 1 else own
    return pages(own.name, "a run", profiles, said)


_PICTURE = Drawing("Where it stands", chart)
show, html, WRITERS = room(sheet_of, lines, picture=_PICTURE, own_page=_page)
