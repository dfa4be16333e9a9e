"""A simulation of caches as a picture: what every level answered, and why it missed."""

from __future__ import annotations

from typing import Any

from rooflab.types.simulation import LevelCounts, Simulation
from rooflab.units import percent, si
from rooflab.views.common import axes, bars
from rooflab.views.common.theme import LIGHT, Theme

_KINDS = ("compulsory", "capacity", "conflict")


def chart(simulation: Simulation, *, theme: Theme = LIGHT, width: int = 720) -> Any:
    """Hits and misses of each level (misses by kind where those are known); then the bytes between levels."""
    colours = {
        "hits": theme.caches[1],
        "misses": theme.memory,
        "compulsory misses": theme.memory,
        "capacity misses": theme.point,
        "conflict misses": theme.caches[0],
    }
    levels = (*simulation.levels, *simulation.tlbs)
    parts, texts = [], {}
    for level in levels:
        parts += requests(level.name, level)
        rate = level.hit_rate
        texts[level.name] = "no requests" if rate is None else f"{percent(rate, 1)} hits of {level.requests:,}"
    panels = [
        bars.Panel([each.name for each in levels], parts, texts, "requests", bars.COUNT, colours),
    ]
    moved, written = [], {}
    flow = {"read": theme.caches[2], "written": theme.caches[0]}
    for level in simulation.levels:
        name, read, wrote = f"beyond {level.name}", level.read_bytes, level.write_bytes
        moved.append(bars.Part(name, 0.0, read, "read", f"{si(read, 'B')} read"))
        moved.append(bars.Part(name, read, read + wrote, "written", f"{si(wrote, 'B')} written"))
        written[name] = si(read + wrote, "B")
    panels.append(bars.Panel(list(written), moved, written, "bytes", axes.si_label("B"), flow))
    sentence = f"{simulation.accesses:,} accesses, simulated exactly; bytes: to and from what is beyond"
    if not simulation.complete:
        sentence += "; stopped early: counts are of what ran"
    return bars.chart(simulation.name, sentence, panels, theme, width)


def requests(row: str, level: LevelCounts) -> list[bars.Part]:
    """The parts of a row of one level's requests: hits, then misses, by kind where those are known."""
    parts = [bars.Part(row, 0.0, level.hits, "hits", f"{level.hits:,} hits")]
    start = float(level.hits)
    if level.compulsory is None:
        return [*parts, bars.Part(row, start, start + level.misses, "misses", f"{level.misses:,} misses")]
    for kind in _KINDS:
        count = getattr(level, kind) or 0
        parts.append(bars.Part(row, start, start + count, f"{kind} misses", f"{count:,} {kind} misses"))
        start += count
    return parts
