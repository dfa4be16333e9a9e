"""Where the time of a run went on each device: busy, and idle with the cause."""

from __future__ import annotations

from typing import Literal

import msgspec

IdleCause = Literal[
    "launches",  # the host had not launched the next kernel yet
    "synchronisation",  # the host had waited for the device, and began again
    "data loader",  # the host waited for data
    "between kernels",  # the next kernel was queued: the device's own pause
    "unknown",  # the launch is not recorded
]


class Idle(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Idle time of one cause.

    Attributes:
        seconds: all its gaps together.
        gaps: how many.
        longest_s, at_s: the longest, and when it began.
        before: the kernel that ended the longest.
    """

    cause: IdleCause
    seconds: float
    gaps: int
    longest_s: float
    at_s: float
    before: str


class DeviceTime(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The time of one device, from the start of its first activity to the end of its last.

    Attributes:
        span_s: that time.
        busy_s: when anything ran: the union of the activities, not their sum.
        kernels_s: sum of the durations of its kernels, copies and memsets left out.
        kernels: how many.
        compute_s, copy_s, collective_s: unions of what computes, of copies and memsets, of collectives.
        exposed_copy_s, exposed_collective_s: of those, what nothing that computes ran beside.
        idle: by cause, most first.
        queued: median number of launches that waited for the device when one was made; None where launches are
            not recorded.
    """

    device: int
    span_s: float
    busy_s: float
    kernels_s: float
    kernels: int
    compute_s: float
    copy_s: float
    collective_s: float
    exposed_copy_s: float
    exposed_collective_s: float
    idle: tuple[Idle, ...]
    queued: float | None = None

    @property
    def idle_s(self) -> float:
        """When nothing ran."""
        return self.span_s - self.busy_s

    @property
    def busy_share(self) -> float | None:
        """Busy over span; None for a device that did nothing."""
        return self.busy_s / self.span_s if self.span_s > 0 else None


class Step(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One step of a loop that the profiled program marked: how long the host took, how long devices were busy."""

    name: str
    start_s: float
    duration_s: float
    busy_s: float


class Timeline(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the time went.

    Attributes:
        devices: with an activity, by number.
        steps: in order.
    """

    devices: tuple[DeviceTime, ...]
    steps: tuple[Step, ...] = ()
