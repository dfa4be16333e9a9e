"""A timed call as people see it: its times warm and cold, how good that is, the blocks that they come from."""

from __future__ import annotations

from rooflab.views.common.page import Drawing
from rooflab.views.common.sheet import room
from rooflab.views.timed_call.chart import blocks, chart, roofs
from rooflab.views.timed_call.sheet import lines, sheet_of

_PAGE = room(
    sheet_of,
    lines,
    picture=Drawing("Its blocks", blocks, (300, 220)),
    more=(Drawing("Roofline", roofs, (460, 330)),),
)
show, html = _PAGE.show, _PAGE.html
# A picture file is the roofline where the call was counted on a machine, else the blocks.
WRITERS = room(sheet_of, lines, picture=Drawing("Where it stands", chart)).writers | {
    ".html": _PAGE.writers[".html"]
}
