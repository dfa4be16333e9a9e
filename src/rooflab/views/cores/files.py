"""The files that a simulation of several cores is written to."""

from __future__ import annotations

from rooflab.types.core_simulation import CoreSimulation
from rooflab.views.common import drawing, page, sheet
from rooflab.views.common.files import Writer, json_writer
from rooflab.views.cores.chart import chart
from rooflab.views.cores.picture import drawing as picture_of
from rooflab.views.cores.picture import pictures
from rooflab.views.cores.sheet import sheet_of

_DRAWINGS = (page.Drawing("Requests and lines lost", chart),)


def html(simulation: CoreSimulation) -> str:
    """The page of `simulation`: what came of it, its first operations as a picture, tables."""
    charts = page.charts(simulation, _DRAWINGS)
    return sheet.html(sheet_of(simulation), charts, pictures(simulation))


# JSON holds everything; the pictures are the first operations one by one.
WRITERS: dict[str, Writer] = {
    ".json": json_writer,
    ".md": lambda simulation: sheet.markdown(sheet_of(simulation)).encode(),
    ".html": lambda simulation: html(simulation).encode(),
    **drawing.writers(picture_of),
}
