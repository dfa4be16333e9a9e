"""A transfer as a picture: how long each stage takes by itself beside the whole, and at which pace."""

from __future__ import annotations

from typing import Any

from rooflab.errors import RooflabError
from rooflab.types.transfer import Transfer
from rooflab.units import duration, si
from rooflab.views.common import axes, bars
from rooflab.views.common.theme import LIGHT, Theme

WHOLE = "whole way"


def chart(transfer: Transfer, *, theme: Theme = LIGHT, width: int = 720) -> Any:
    """Seconds of each stage by itself and of the whole way; then what each stage attains of its bandwidth.

    Raises:
        RooflabError: no stage has a known rate.
    """
    known = [each for each in transfer.stages if each.time_s is not None]
    if not known:
        raise RooflabError(f"{transfer.name}: no stage with a known rate, so no picture")
    names = _names(transfer)
    colours = {"binds": theme.point, "other stages": theme.caches[1], WHOLE: theme.ink}
    times, texts, start = [], {}, 0.0
    for name, each in zip(names, transfer.stages, strict=True):
        if each.time_s is None:
            texts[name] = "rate unknown, left out"
            continue
        # Side by side a stage begins with the first chunk of those before it; in turn after all of them.
        group = "binds" if each.stage.name == transfer.binds else "other stages"
        tip = f"{duration(each.time_s)} by itself"
        times.append(bars.Part(name, start, start + each.time_s, group, tip))
        texts[name] = duration(each.time_s)
        start += (each.first_s or 0.0) if transfer.overlap else each.time_s
    times.append(bars.Part(WHOLE, 0.0, transfer.time_s, WHOLE, duration(transfer.time_s)))
    texts[WHOLE] = f"{'' if transfer.complete else '> '}{duration(transfer.time_s)}"
    rates = [
        bars.Part(name, 0.0, each.bytes_per_s, _group(each, transfer), f"{si(each.bytes_per_s, 'B/s')} attained")
        for name, each in zip(names, transfer.stages, strict=True)
        if each.bytes_per_s
    ]
    written = {part.row: si(part.high, "B/s") for part in rates}
    how = "side by side: each begins with the first chunk" if transfer.overlap else "in turn: each moves all first"
    panels = (
        bars.Panel([*names, WHOLE], times, texts, "time", bars.TIME, colours),
        bars.Panel(names, rates, written, "attained by each stage", axes.si_label("B/s"), colours, log=True),
    )
    return bars.chart(f"{si(transfer.nbytes, 'B')} on its way", f"Stages {how}", panels, theme, width)


def _group(each: Any, transfer: Transfer) -> str:
    return "binds" if each.stage.name == transfer.binds else "other stages"


def _names(transfer: Transfer) -> list[str]:
    """The stages, numbered where two have one name."""
    names = [each.stage.name for each in transfer.stages]
    return [f"{n + 1} {name}" if names.count(name) > 1 else name for n, name in enumerate(names)]
