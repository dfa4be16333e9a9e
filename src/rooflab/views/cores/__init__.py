"""A simulation of several cores as people see it: what they did to each other's caches."""

from rooflab.views.common.sheet import room
from rooflab.views.cores.files import WRITERS, html
from rooflab.views.cores.sheet import sheet_of

show = room(sheet_of).show

__all__ = ["WRITERS", "html", "show"]
