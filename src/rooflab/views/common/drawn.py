"""A chart of a page before it is drawn: its title, what draws it, and how high."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import altair as alt


class Drawing(NamedTuple):
    """A chart of a page.

    Attributes:
        title: of the chart, for those who cannot see it.
        draw: takes the result, `theme`, `width` and `height`; returns None, or raises a RooflabError, where there
            is nothing to draw.
        heights: pixels of the plane on a wide and on a narrow page, a medium one between them; None where `draw`
            knows by itself.
    """

    title: str
    draw: Callable[..., alt.LayerChart | alt.VConcatChart | None]
    heights: tuple[int, int] | None = None
