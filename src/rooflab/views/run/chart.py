"""A run as a picture: its point under the roofs where it was counted, else where its time went."""

from __future__ import annotations

from typing import Any

from rooflab.types.run import Run
from rooflab.units import duration
from rooflab.views.common.theme import LIGHT, Theme


def chart(run: Run, *, theme: Theme = LIGHT, width: int = 720) -> Any:
    """The roofline of what was counted; without a machine or counters, time and CPU time of each execution."""
    from rooflab.views.common import bars

    profile = run.profile
    if profile is not None and profile.machine is not None and any(row.placement for row in profile.rows):
        from rooflab.views.profile.chart import roofline

        return roofline(profile, theme=theme, width=width)
    colours = {
        "on the clock": theme.muted,
        "CPU, in the program": theme.point,
        "CPU, in the kernel": theme.caches[1],
    }
    rows, parts, texts = [], [], {}
    for number, one in enumerate(run.usage):
        of = f" of run {number + 1}" if len(run.usage) > 1 else ""
        clock, cpu = f"time{of}", f"CPU time{of}"
        rows += [clock, cpu]
        tip = f"{duration(one.user_s)} in the program, {duration(one.system_s)} in the kernel"
        parts += [
            bars.Part(clock, 0.0, one.wall_s, "on the clock", duration(one.wall_s)),
            bars.Part(cpu, 0.0, one.user_s, "CPU, in the program", tip),
            bars.Part(cpu, one.user_s, one.cpu_s, "CPU, in the kernel", tip),
        ]
        texts |= {clock: duration(one.wall_s), cpu: duration(one.cpu_s)}
    panel = bars.Panel(rows, parts, texts, "time", bars.TIME, colours)
    return bars.chart(run.name[:80], f"{run.cores:.2f} cores busy on average", (panel,), theme, width)
