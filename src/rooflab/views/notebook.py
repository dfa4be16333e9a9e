"""A machine or a report as a notebook's cell shows it: the page, in a frame of its own."""

from __future__ import annotations

from html import escape

from rooflab.types.machine import Machine
from rooflab.types.report import Report

_HEIGHT_PX = 900


def frame(shown: Machine | Report) -> str:
    """HTML of a frame that holds the whole page of `shown`; nothing is loaded from elsewhere.

    The page brings its own style and its copy of Vega: in a frame neither touches the notebook's.
    """
    if isinstance(shown, Report):
        from rooflab.views import report_page

        page = report_page.render(shown)
    else:
        from rooflab.views import page as machine_page

        page = machine_page.render(shown)
    return framed(shown.name, page)


def framed(name: str, page: str) -> str:
    """HTML of a frame that holds the whole `page` of what is called `name`."""
    style = f"width: 100%; height: {_HEIGHT_PX}px; border: 0"
    return f'<iframe title="{escape(name)}" style="{style}" srcdoc="{escape(page)}"></iframe>'
