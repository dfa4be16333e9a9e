"""A sweep of the teaching model as people see it: curves in the terminal, a chart, a page."""

from rooflab.views.lab.files import WRITERS
from rooflab.views.lab.page import html
from rooflab.views.lab.terminal import show

__all__ = ["WRITERS", "html", "show"]
