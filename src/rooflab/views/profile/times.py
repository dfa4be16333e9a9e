"""What is said of a profile's time beside busy and idle: overlap, launch queues, steps."""

from __future__ import annotations

from rooflab import units
from rooflab.types.timeline import DeviceTime, Timeline
from rooflab.views.common.table import UNKNOWN, Table
from rooflab.views.common.text_bars import bars

_SHOWN = 12  # steps; the files hold all


def sentences(times: Timeline) -> list[str]:
    """Overlap and launch queue of each device, and the steps in a few words."""
    several = len(times.devices) > 1
    lines = [line for one in times.devices for line in (_overlap(one, several), _queue(one, several)) if line]
    usual = times.usual_step_s
    if usual is None:
        return lines
    if times.period is not None:
        lines.append(
            f"No step is marked, but a period was found: {times.period.kernels} kernels that come "
            f"{times.period.repeats} times, {units.percent(times.period.share, 1)} of all: steps, or layers of "
            "one."
        )
    what = "steps" if times.period is None else "repeats"
    each = f"{len(times.steps)} {what}, {units.duration(usual)} each (median)"
    if times.warm_up_s is None:
        return [*lines, f"{each}."]
    first = units.duration(times.steps[0].duration_s)
    return [*lines, f"{each} after the first, which took {first}: it warmed up, leave it out of any mean."]


def _overlap(one: DeviceTime, several: bool) -> str:
    hidden = (("copies", one.hidden_copy_share), ("collectives", one.hidden_collective_share))
    parts = [
        f"{units.percent(share)} of its {name}" for name, share in hidden if share is not None and share >= 0.005
    ]
    if not parts:
        return ""
    return f"{_named(one, several)} computed beside {' and '.join(parts)}."


def _queue(one: DeviceTime, several: bool) -> str:
    if one.queue is None:
        return ""
    waiting = f"{one.queue.median:g} kernels waited in the queue when one more was launched (median)"
    most = max(one.queue.depths, default=0.0)
    # One that waits alone is no queue: a launch found none before it.
    alone = most < 1 or not one.queue.most
    over = "" if alone else f"; over time {bars(one.queue.depths)}, at most {one.queue.most}"
    name = f"Device {one.device}: " if several else ""
    return f"{name}{waiting}{over}."


def _named(one: DeviceTime, several: bool) -> str:
    return f"Device {one.device}" if several else "The device"


def steps(times: Timeline) -> Table:
    """A line for each of the first steps."""
    usual = times.usual_step_s
    rows = tuple(
        (
            step.name,
            units.duration(step.duration_s),
            units.duration(step.busy_s),
            units.percent(step.busy_s / step.duration_s, 1) if step.duration_s > 0 else UNKNOWN,
            UNKNOWN if not usual else f"{step.duration_s / usual:.2f} ×",
        )
        for step in times.steps[:_SHOWN]
    )
    more = len(times.steps) - _SHOWN
    note = f"{more} more: the files have all." if more > 0 else ""
    return Table("Steps", ("step", "time", "busy", "of it", "against the median"), rows, note=note)
