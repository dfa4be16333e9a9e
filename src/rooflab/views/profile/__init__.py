"""A profile as people see it: what limited the run, each operation measured, predicted and counted."""

from __future__ import annotations

from rooflab.views.common.sheet import room
from rooflab.views.profile.chart import roofline
from rooflab.views.profile.rows import csv_text
from rooflab.views.profile.sheet import sheet_of

show, html, WRITERS = room(sheet_of, csv_text, roofline)
