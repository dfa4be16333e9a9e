"""A simulation of several cores as a picture: where each found its data, and what it lost to the others."""

from __future__ import annotations

from typing import Any

from rooflab.types.core_simulation import CoreSimulation
from rooflab.views.common import bars
from rooflab.views.common.theme import LIGHT, Theme

MOST = 64  # cores drawn; the tables have all


def chart(simulation: CoreSimulation, *, theme: Theme = LIGHT, width: int = 720) -> Any:
    """Requests of each core by the cache that answered; then lines that other cores' stores took from it."""
    shown = simulation.cores[:MOST]
    names = [f"core {number}" for number in range(len(shown))]
    levels = [level.name for level in shown[0].levels]
    # "beyond": another core's cache, a shared one or the memory.
    colours = dict(zip((f"{level} hits" for level in levels), theme.caches[1:] * 2, strict=False))
    colours["beyond"] = theme.memory
    asked, texts, lost, told = [], {}, [], {}
    kinds = {"true sharing": theme.caches[1], "false sharing": theme.point, "never accessed again": theme.muted}
    for name, core in zip(names, shown, strict=True):
        start = 0.0
        for level in core.levels:
            asked.append(bars.Part(name, start, start + level.hits, f"{level.name} hits", f"{level.hits:,} hits"))
            start += level.hits
        misses = core.levels[-1].misses
        asked.append(bars.Part(name, start, start + misses, "beyond", f"{misses:,} beyond"))
        texts[name] = f"{misses:,} beyond"
        start = 0.0
        rest = core.invalidations - core.true_sharing - core.false_sharing
        for kind, count in zip(kinds, (core.true_sharing, core.false_sharing, rest), strict=True):
            lost.append(bars.Part(name, start, start + count, kind, f"{count:,} {kind}"))
            start += count
        told[name] = f"{core.invalidations:,}"
    panels = [bars.Panel(names, asked, texts, "requests, by the cache that answered", bars.COUNT, colours)]
    if simulation.invalidations:
        title = "lines lost to other cores' stores"
        panels.append(bars.Panel(names, lost, told, title, bars.COUNT, kinds))
    more = len(simulation.cores) - len(shown)
    rest_said = f"; {more:,} more cores in the tables" if more > 0 else ""
    sentence = f"{simulation.protocol.upper()}, {simulation.accesses:,} accesses{rest_said}"
    return bars.chart(simulation.name, sentence, panels, theme, width)
