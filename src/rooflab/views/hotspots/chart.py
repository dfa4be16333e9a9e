"""Hotspots as a picture: functions by their own time, and that of what they call."""

from __future__ import annotations

from typing import Any

from rooflab.errors import RooflabError
from rooflab.types.hotspots import Hotspots, Spot
from rooflab.units import duration, percent
from rooflab.views.common.theme import LIGHT, Theme
from rooflab.views.hotspots.sheet import place, seconds

_MOST = 15  # bars
_LEAST = 0.005  # of all samples, for a bar


def chart(found: Hotspots, *, theme: Theme = LIGHT, width: int = 720) -> Any:
    """A bar for each function: its own time, then that of what it called.

    Raises:
        RooflabError: nothing was sampled.
    """
    from rooflab.views.common import bars

    if not found.functions:
        raise RooflabError("no picture: nothing was sampled")
    colours = {"in itself": theme.point, "in what it called": theme.caches[1]}
    names, parts, texts = [], [], {}
    longest = sorted(found.functions, key=lambda one: -one.own)
    for spot in [one for one in longest if found.share(one.own) >= _LEAST][:_MOST] or longest[:1]:
        name = _name(spot, names)
        own, whole = seconds(found, spot.own), seconds(found, spot.samples)
        names.append(name)
        parts += [
            bars.Part(name, 0.0, own, "in itself", f"{place(spot)}: {duration(own)} in itself"),
            bars.Part(
                name, own, whole, "in what it called", f"{place(spot)}: {duration(whole)} with what it called"
            ),
        ]
        texts[name] = percent(found.share(spot.own))
    panel = bars.Panel(names, parts, texts, "time of its threads", bars.TIME, colours)
    return bars.chart(found.name[:80], f"{found.samples:,} samples, {found.hz:g} a second", (panel,), theme, width)


def _name(spot: Spot, taken: list[str]) -> str:
    """The function's name, with its place where another has the same."""
    return spot.name if spot.name not in taken else f"{spot.name} ({place(spot)})"
