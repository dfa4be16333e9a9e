"""What did limit it? A run's time by what limited it, in the order that people need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rooflab.types.limit import Limit

if TYPE_CHECKING:
    from rooflab.types.machine import Machine
    from rooflab.types.profile import ProfileRow
    from rooflab.types.timeline import Timeline

_ORDER = {"overhead-bound": 0, "memory-bound": 1, "balanced": 2, "compute-bound": 3, None: 4}


def limits_of(rows: Sequence[ProfileRow], times: Timeline, machine: Machine | None) -> tuple[Limit, ...]:
    """Overhead by its cause, then each level of memory near to far, then engines, then what is not known.

    What binds a prediction limits no more of a row than the prediction allows, its upper end: what a row took
    beyond that is not known. Of a row whose kernels were counted all of its time is explained.
    """
    seconds: dict[tuple[str | None, str | None], float] = {}
    for device in times.devices:
        for idle in device.idle:
            key = ("overhead-bound", idle.cause)
            seconds[key] = seconds.get(key, 0.0) + idle.seconds
    for row in rows:
        for key, part in (((row.bound, row.binds), row.explained_s), ((None, None), row.time_s - row.explained_s)):
            seconds[key] = seconds.get(key, 0.0) + part
    levels = [] if machine is None else [level.name for level in machine.levels]

    def place(key: tuple[str | None, str | None]) -> tuple[int, int, float]:
        level = levels.index(key[1]) if key[1] in levels else len(levels)
        return _ORDER[key[0]], level, -seconds[key]

    return tuple(
        Limit(bound=bound, binds=binds, seconds=seconds[bound, binds])  # pyright: ignore[reportArgumentType]
        for bound, binds in sorted(seconds, key=place)
        if seconds[bound, binds] > 0
    )


def largest(limits: Sequence[Limit]) -> Limit | None:
    """The limit that took most; None where what is not known took more than any that is."""
    most = max(limits, key=lambda one: one.seconds, default=None)
    return most if most is not None and most.bound is not None else None
