"""A result as a notebook's cell shows it: its page, its charts as pictures, in a frame of its own."""

from __future__ import annotations

from html import escape

_HEIGHT_PX = 900


def frame(title: str, page: str) -> str:
    """HTML of a frame that holds the whole `page`; nothing is loaded from elsewhere.

    The page brings its own style: in a frame it does not touch the notebook's.
    """
    style = f"width: 100%; height: {_HEIGHT_PX}px; border: 0"
    return f'<iframe title="{escape(title)}" style="{style}" srcdoc="{escape(page)}"></iframe>'
