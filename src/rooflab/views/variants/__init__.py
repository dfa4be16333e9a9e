"""One program's variants as people see them: predictions side by side."""

from __future__ import annotations

from rooflab.views.common.files import writers
from rooflab.views.common.sheet import room
from rooflab.views.variants.page import html
from rooflab.views.variants.sheet import csv_text, sheet_of

show = room(sheet_of, csv_text).show
WRITERS = writers(html, csv_text)

__all__ = ["WRITERS", "html", "show"]
