"""Names of roofs: along a slanted roof or at the end of a line to it, on a flat one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rooflab.views.common import axes, labels
from rooflab.views.common.theme import Theme, text_width

if TYPE_CHECKING:
    import altair as alt

    from rooflab.views.common.axes import Plane

Segment = tuple[labels.Vertex, labels.Vertex]
_STEP = 12  # pixels from one place that is tried to the next


def slanted(key: str, texts: Sequence[str], line: Segment, lowest: Segment) -> labels.Label:
    """The name of the roof `line`: along it, else right of the `lowest` roof with a thin line that leads to it."""
    (x0, y0), (x1, y1) = line
    length = math.hypot(x1 - x0, y1 - y0) or 1.0
    angle = round(math.degrees(math.atan2(y1 - y0, x1 - x0)), 3)
    across, down = (x1 - x0) / length, (y1 - y0) / length

    def places(text: str) -> tuple[labels.Box, ...]:
        half, off = text_width(text) / 2 + 8, axes.TEXT_HEIGHT / 2 + 3
        return tuple(
            # Off the line at a right angle to it: (down, -across) points up and left of a rising line.
            axes.box(text, x0 + along * across - side * down, y0 + along * down + side * across, angle)
            for along in range(int(half), max(int(length - half), int(half) + 1), _STEP)
            for side in (-off, off)
        )

    choices = tuple((text, places(text)) for text in dict.fromkeys(texts))
    return labels.Label(key, choices, callouts=_callouts(texts[0], line, lowest))


def _callouts(text: str, line: Segment, lowest: Segment) -> tuple[labels.Callout, ...]:
    """`text` right of the lowest roof, level with a place on `line`, from below upward."""
    (_, bottom), (_, top) = line
    half = text_width(text) / 2 + 2
    found = []
    for row in range(int(bottom) - 12, int(top), -_STEP):
        at, edge = _across(line, row), _across(lowest, row)
        for gap in (14, 30, 60):
            start = max(at, edge) + gap
            box = axes.box(text, start + half, row)
            found.append(labels.Callout(text, box, ((at, row), (start - 2, row))))
    return tuple(found)


def _across(line: Segment, down: float) -> float:
    """Where `line`, or its continuation, is `down` pixels below the top."""
    (x0, y0), (x1, y1) = line
    return x0 + (x1 - x0) * (down - y0) / ((y1 - y0) or 1.0)


def flat(key: str, texts: Sequence[str], line: Segment, away: Sequence[float] = ()) -> labels.Label:
    """The name of the flat roof `line`, from its right end on, above or below it, or `away` pixels further."""
    (left, y), (right, _) = line
    above = axes.TEXT_HEIGHT / 2 + 2
    heights = (-above, above, *(sign * (above + far) for far in away for sign in (-1, 1)))

    def places(text: str) -> tuple[labels.Box, ...]:
        half = text_width(text) / 2 + 4
        shifts = range(0, max(1, int(right - left - 2 * half)), _STEP)
        return tuple(axes.box(text, right - half - dx, y + dy) for dx in shifts for dy in heights)

    return labels.Label(key, tuple((text, places(text)) for text in dict.fromkeys(texts)))


def leaders(placed: Sequence[labels.Placed], space: Plane, theme: Theme) -> list[alt.Chart]:
    """A layer of the thin lines from labels to what they name; none where every label lies at its own."""
    import altair as alt

    rows = []
    for number, label in enumerate(placed):
        for end in label.leader or ():
            x, y = space.data(*end)
            rows.append({"x": x, "y": y, "label": number})
    if not rows:
        return []
    style = {"strokeWidth": 0.8, "color": theme.muted}
    base = alt.Chart(alt.Data(values=rows))
    dots = alt.Chart(alt.Data(values=rows[::2])).mark_point(filled=True, size=12, color=theme.muted, opacity=1)
    return [base.mark_line(**style).encode(detail="label:N"), dots]
