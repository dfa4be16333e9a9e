"""The time of each device as a picture: what ran when, and why nothing did."""

from __future__ import annotations

from typing import Any

from rooflab.errors import RooflabError
from rooflab.types.profile import Profile
from rooflab.types.timeline import DeviceTime
from rooflab.units import percent
from rooflab.views.common import axes
from rooflab.views.common.axes import PERCENT
from rooflab.views.common.bars import TIME
from rooflab.views.common.marks import legend_columns
from rooflab.views.common.theme import LIGHT, Theme, config

_HEIGHT = 84
_MOST = 8  # devices in one picture


def timeline(profile: Profile, *, theme: Theme = LIGHT, width: int = 720) -> Any:
    """What each device of `profile` did over time: shares of equal parts, of compute, copies and idle causes.

    Raises:
        RooflabError: no timeline in it, or no time.
    """
    import altair as alt

    devices = () if profile.timeline is None else profile.timeline.devices
    drawn = [one for one in devices if one.parts][:_MOST]
    if not drawn:
        raise RooflabError(f"{profile.name}: holds no times of activities, so no timeline")
    colours = _colours(theme, drawn)
    rows = [_rows(one) for one in drawn]
    names = [f"device {one.device}" if len(drawn) > 1 else "share" for one in drawn]
    legend = alt.Legend(
        title=None, orient="top", columns=legend_columns(list(colours), width), symbolType="square", offset=4
    )
    scale = alt.Scale(domain=list(colours), range=list(colours.values()))
    planes = []
    for one, values, name in zip(drawn, rows, names, strict=True):
        last = one is drawn[-1]
        end_s = one.span_s
        planes.append(
            alt.Chart(alt.Data(values=values))
            .mark_rect(stroke=None)
            .encode(
                x=alt.X(
                    "from:Q",
                    title="time since the first activity" if last else None,
                    scale=alt.Scale(domain=[0, end_s], nice=False),
                    axis=alt.Axis(labelExpr=TIME, tickCount=max(3, width // 120), grid=False, labels=last),
                ),
                x2="to:Q",
                y=alt.Y(
                    "low:Q",
                    title=name,
                    scale=alt.Scale(domain=[0, 1], nice=False),
                    axis=alt.Axis(values=[0, 0.5, 1], labelExpr=PERCENT, grid=False),
                ),
                y2="high:Q",
                color=alt.Color("what:N", scale=scale, legend=legend),
                tooltip=[alt.Tooltip("what:N"), alt.Tooltip("share of the part:N")],
            )
            .properties(width=width, height=_HEIGHT)
        )
    left = len([one for one in devices if one.parts]) - len(drawn)
    subtitle = "What ran, and why nothing did, in equal parts of the time"
    words = axes.title_of("Timeline", f"{subtitle}; {left} more devices are left out" if left else subtitle, width)
    if len(planes) == 1:
        return planes[0].properties(title=words, config=config(theme))
    return alt.vconcat(*planes, spacing=10).properties(title=words, config=config(theme))


def _rows(device: DeviceTime) -> list[dict[str, object]]:
    """A rectangle for each share of each part, from the ground up; equal neighbours are one."""
    count = len(next(iter(device.parts.values())))
    width = device.span_s / count
    rows: list[dict[str, object]] = []
    ground = [0.0] * count
    for name, shares in device.parts.items():
        begun: dict[str, Any] | None = None
        for number, share in enumerate(shares):
            low, high = ground[number], min(ground[number] + share, 1.0)
            ground[number] = high
            if begun is not None and (begun["low"], begun["high"]) == (low, high):
                begun["to"] = (number + 1) * width
                continue
            begun = {"what": name, "from": number * width, "to": (number + 1) * width, "low": low, "high": high}
            begun["share of the part"] = percent(share)
            if share:
                rows.append(begun)
    return rows


def _colours(theme: Theme, devices: list[DeviceTime]) -> dict[str, str]:
    """By what was done: work in the caches' colours, idle in greys and the alarm's, those that occur."""
    known = {
        "compute": theme.caches[1],
        "collective": theme.caches[0],
        "copy": theme.caches[2],
        "idle: launches": theme.point,
        "idle: synchronisation": theme.memory,
        "idle: copy": theme.caches[3],
        "idle: data loader": theme.ink,
        "idle: between kernels": theme.muted,
        "idle: between operations": theme.muted,
        "idle: unknown": theme.grid,
    }
    seen = {name for one in devices for name in one.parts}
    return {name: colour for name, colour in known.items() if name in seen}
