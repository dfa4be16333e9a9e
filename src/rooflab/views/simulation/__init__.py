"""A simulation of caches as people see it: what every level did, by array; small ones access by access."""

from rooflab.views.simulation.files import WRITERS, html, show

__all__ = ["WRITERS", "html", "show"]
