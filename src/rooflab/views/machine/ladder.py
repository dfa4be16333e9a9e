"""A machine's ladder as people see it: its memory hierarchy from registers to the internet."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from rooflab.errors import RooflabError
from rooflab.machines.ladder import Rung
from rooflab.types.machine import Machine
from rooflab.views.common import bars
from rooflab.views.common import sheet as sheets
from rooflab.views.common.files import Writer, json_text, picture_writers
from rooflab.views.common.page import Drawing, charts
from rooflab.views.common.sheet import Sheet
from rooflab.views.common.table import UNKNOWN, Table, capacity, lasting, quantity
from rooflab.views.common.theme import LIGHT, Theme

_WIDE = 450  # pixels of a plane that has room for the rate beside the time


def sheet_of(machine: Machine, rungs: Sequence[Rung]) -> Sheet:
    """What is shown of the `rungs` of `machine`: what each step away costs."""
    rows = [
        (
            rung.name,
            capacity(rung.capacity_bytes),
            quantity(rung.bytes_per_s, "B/s"),
            rung.basis or UNKNOWN,
            lasting(rung.latency_s),
            lasting(rung.time_s),
            UNKNOWN if rung.slower is None else f"{rung.slower:.3g} ×",
        )
        for rung in rungs
    ]
    columns = ("level", "capacity", "bandwidth", "basis", "latency", "1 GB takes", "slower")
    note = (
        "Slower: times the level before. What lies beyond the machine's own levels and links is typical "
        "equipment, assumed. Dashes are unknown, not zero."
    )
    if machine.kind == "system" and machine.compute_units:
        note = f"As one {machine.compute_unit} of {machine.compute_units} sees it. {note}"
    table = Table("From near to far", columns, tuple(rows), note=note)
    return Sheet(machine.name, "ladder", sentences=_far(rungs), tables=(table,))


def _far(rungs: Sequence[Rung]) -> tuple[str, ...]:
    """How much longer the last step takes than the first, of those whose bandwidth is known."""
    known = [rung for rung in rungs if rung.time_s]
    if len(known) < 2:
        return ()
    first, last = known[0], known[-1]
    times = float(f"{(last.time_s or 0.0) / (first.time_s or 1.0):.3g}")
    way = f"1 GB takes {lasting(first.time_s)} from {first.name} and {lasting(last.time_s)} from {last.name}"
    return (f"{way}: {times:,.0f} times as long.",)


def chart(machine: Machine, rungs: Sequence[Rung], *, theme: Theme = LIGHT, width: int = 720) -> Any:
    """What each step away costs: latency, and the time to move 1 GB, on logarithmic axes.

    Raises:
        RooflabError: nothing is known of any rung.
    """
    names = list(dict.fromkeys(rung.name for rung in rungs))
    colours = {
        "measured": theme.caches[1],
        "of a datasheet": theme.caches[2],
        "derived": theme.caches[0],
        "reported": theme.memory,
        "typical, assumed": theme.muted,
    }
    kinds = dict(zip(("measured", "datasheet", "derived", "reported", "assumed"), colours, strict=True))
    panels = []
    for title, value in (("latency of one access", "latency_s"), ("time for 1 GB", "time_s")):
        parts, texts = [], {}
        for rung in rungs:
            seconds = getattr(rung, value)
            if not seconds:
                texts[rung.name] = UNKNOWN
                continue
            source = rung.latency_source if value == "latency_s" and rung.latency_source else rung.source
            text = lasting(seconds)
            if value == "time_s" and width > _WIDE:
                text += f"  ({quantity(rung.bytes_per_s, 'B/s')})"
            parts.append(bars.Part(rung.name, 0.0, seconds, kinds[source.kind], text))
            texts[rung.name] = text
        if parts:
            panels.append(bars.Panel(names, parts, texts, title, bars.TIME, colours, log=True))
    if not panels:
        raise RooflabError(f"{machine.name}: no latency and no bandwidth of any level is known, so no ladder")
    subtitle = "From near to far; a dash: unknown; each number's source is in the JSON file"
    return bars.chart(f"Memory of {machine.name}", subtitle, panels, theme, width)


def writers(machine: Machine) -> dict[str, Writer]:
    """The files that the rungs of `machine` are written to."""
    return {
        ".json": lambda rungs: json_text(as_dict(machine, rungs)).encode(),
        ".html": lambda rungs: html(machine, rungs).encode(),
        **picture_writers(functools.partial(chart, machine)),
    }


def as_dict(machine: Machine, rungs: Sequence[Rung]) -> dict[str, object]:
    """The ladder as plain data: unknown is None."""
    held = [rung._asdict() for rung in rungs]
    return {"type": "Ladder", "schema": 1, "machine": machine.name, "rungs": held}


def html(machine: Machine, rungs: Sequence[Rung]) -> str:
    """The page of the `rungs` of `machine`: the picture, then the table."""
    drawings = (Drawing("Latency and time of each step away", functools.partial(chart, machine)),)
    shown = sheet_of(machine, rungs)._replace(name=f"Memory ladder of {machine.name}")
    return sheets.html(shown, charts(rungs, drawings))
