"""A curve in one line of text: bars of eight heights."""

from __future__ import annotations

from collections.abc import Sequence

_BARS = "▁▂▃▄▅▆▇█"


def bars(values: Sequence[float]) -> str:
    """A bar for each of `values`, which are not negative, the most as high as a line."""
    most = max(values, default=0.0)
    if most <= 0:
        return _BARS[0] * len(values)
    return "".join(_BARS[min(int(value / most * len(_BARS)), len(_BARS) - 1)] for value in values)
