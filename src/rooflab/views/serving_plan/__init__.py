"""A plan of serving as people see it: the best of each layout, the front, why each loses its time."""

from __future__ import annotations

from rooflab.views.common.page import Drawing
from rooflab.views.common.sheet import room
from rooflab.views.serving_plan.chart import bars_of, front_of
from rooflab.views.serving_plan.sheet import lines, sheet_of

show, html, WRITERS = room(
    sheet_of,
    lines,
    picture=Drawing("For the user and for the owner", front_of, (420, 320)),
    more=(Drawing("Why each loses its time", bars_of),),
)
