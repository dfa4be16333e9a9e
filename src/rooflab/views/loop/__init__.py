"""A loop as people see it: its traffic and times at every level, its source line by line."""

from rooflab.views.loop.files import WRITERS
from rooflab.views.loop.page import html
from rooflab.views.loop.terminal import show

__all__ = ["WRITERS", "html", "show"]
