"""A machine as people see it: its roofs in the terminal, on a page, as a picture; the catalogue and the ladder."""

from rooflab.views.machine.files import WRITERS
from rooflab.views.machine.page import html
from rooflab.views.machine.terminal import show

__all__ = ["WRITERS", "html", "show"]
