"""A program as people see it: its operations and tensors as a graph, by module, as a picture, a page and DOT."""

from rooflab.views.graph.files import WRITERS, html, show

__all__ = ["WRITERS", "html", "show"]
