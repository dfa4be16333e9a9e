"""One program's variants as people see them: predictions side by side."""

from __future__ import annotations

from rooflab.views.common.files import writers
from rooflab.views.common.sheet import markdown, room
from rooflab.views.variants.chart import chart
from rooflab.views.variants.page import html
from rooflab.views.variants.sheet import lines, sheet_of

show = room(sheet_of, lines).show
WRITERS = writers(html, lines, chart, markdown=lambda variants: markdown(sheet_of(variants)))

__all__ = ["WRITERS", "html", "show"]
