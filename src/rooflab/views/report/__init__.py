"""A report as people see it: its operations in the terminal, on a page, under the roofs of its machine."""

from rooflab.views.report.files import WRITERS, cell, html
from rooflab.views.report.terminal import show

__all__ = ["WRITERS", "cell", "html", "show"]
