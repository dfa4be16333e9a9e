"""A loop as people see it: its traffic and times at every level, its source line by line."""

from __future__ import annotations

from typing import Any

from rooflab.views.loop.terminal import show

__all__ = ["WRITERS", "html", "show"]


def __getattr__(name: str) -> Any:
    """What makes pages and files: imported when one is asked for."""
    if name not in ("WRITERS", "html"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from rooflab.views.loop import files, page

    return files.WRITERS if name == "WRITERS" else page.html
