"""Measured times on the roofline: a cross where each operation was measured, joined to where it is predicted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rooflab.units import si
from rooflab.views.common.theme import Theme

if TYPE_CHECKING:
    from rooflab.views.report.roofline import Mark

SIDE = 10.0  # pixels of a cross
SAID = "crosses: measured"


def attained(mark: Mark) -> float | None:
    """FLOP a second by the measured time, on the strip bytes a second; None where it was not measured."""
    line = mark.line
    work = line.flop or line.nbytes
    return work / line.measured_s if work and line.measured_s else None


def layers(marks: Iterable[Mark], theme: Theme, *, strip: bool = False) -> list[Any]:
    """Layers of the crosses, and of the lines that join them; none where nothing was measured."""
    import altair as alt

    rows = []
    for mark in marks:
        value = attained(mark)
        if value is not None:
            at = (value, mark.y, mark.x, mark.y) if strip else (mark.x, value, mark.x, mark.y)
            tip = {"operation": mark.name, "measured": si(mark.line.measured_s, "s")}
            rows.append({**dict(zip(("x", "y", "x2", "y2"), at, strict=True)), **tip})
    if not rows:
        return []
    base: Any = alt.Chart(alt.Data(values=rows))
    joined = base.mark_rule(strokeWidth=1, strokeDash=[2, 2], color=theme.ink, clip=True)
    joined = joined.encode(**({"x2": "x2:Q"} if strip else {"y2": "y2:Q"}))
    tips = [alt.Tooltip("operation:N"), alt.Tooltip("measured:N")]
    crosses = base.mark_point(
        shape="cross", size=SIDE * 7, color=theme.ink, strokeWidth=1.4, filled=False, clip=True
    )
    return [joined, crosses.encode(tooltip=tips)]
