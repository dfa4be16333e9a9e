"""A sweep of tile sizes as people see it: traffic and time over the size."""

from rooflab.views.tiles.files import WRITERS
from rooflab.views.tiles.page import html
from rooflab.views.tiles.terminal import show

__all__ = ["WRITERS", "html", "show"]
