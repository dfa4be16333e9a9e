"""One program's variants as people see them: predictions side by side."""

from __future__ import annotations

from rooflab.views.common.sheet import room
from rooflab.views.variants.sheet import csv_text, sheet_of

show, html, WRITERS = room(sheet_of, csv_text)
