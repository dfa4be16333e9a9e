"""Where the time of a run went on each device: busy, and idle with the cause."""

from __future__ import annotations

import statistics
from typing import Literal

import msgspec

_WARM_UP = 1.2  # times the usual step, from where the first is one of its own

IdleCause = Literal[
    "launches",  # the host had not launched the next kernel yet
    "synchronisation",  # the host had waited for the device, and began again
    "copy",  # the host had waited for a copy to or from the device, or still prepared one
    "data loader",  # the host waited for data
    "between kernels",  # the next kernel was queued: the device's own pause
    "between operations",  # of the host, where operations run on the host itself: its runtime
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


class Queue(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Launches that waited for the device to begin with them.

    Attributes:
        median, most: how many, when one more was made.
        depths: how many on average, in equal parts of the device's time.
    """

    median: float
    most: int
    depths: tuple[float, ...]


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
        queue: of launches; None where they are not recorded.
        parts: what it did in equal parts of its time, as shares of each part: "compute", "collective", "copy" (of
            the latter two what nothing named before them ran beside), then "idle: …" by cause; they add up to 1.
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
    queue: Queue | None = None
    parts: dict[str, tuple[float, ...]] = {}

    @property
    def idle_s(self) -> float:
        """When nothing ran."""
        return self.span_s - self.busy_s

    @property
    def busy_share(self) -> float | None:
        """Busy over span; None for a device that did nothing."""
        return self.busy_s / self.span_s if self.span_s > 0 else None

    @property
    def hidden_copy_share(self) -> float | None:
        """The share of the copies' time beside which something computed; None without copies."""
        return max(0.0, 1 - self.exposed_copy_s / self.copy_s) if self.copy_s > 0 else None

    @property
    def hidden_collective_share(self) -> float | None:
        """The share of the collectives' time beside which something computed; None without collectives."""
        return max(0.0, 1 - self.exposed_collective_s / self.collective_s) if self.collective_s > 0 else None


class Step(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One step of a run's loop: how long it took, how long devices were busy meanwhile.

    A step that the program marked is the host's time; one that was found by its kernels is from the first of them
    to the first of the next.
    """

    name: str
    start_s: float
    duration_s: float
    busy_s: float


class Period(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A sequence of kernels that comes again and again: steps, or layers of one.

    Attributes:
        kernels: in the sequence.
        repeats: how often it comes.
        share: of all kernels that are in one of them.
    """

    kernels: int
    repeats: int
    share: float


class Timeline(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the time went.

    Attributes:
        devices: with an activity, by number.
        steps: in order.
        period: that the steps were found by; None where the program marked them, or where there are none.
    """

    devices: tuple[DeviceTime, ...]
    steps: tuple[Step, ...] = ()
    period: Period | None = None

    @property
    def usual_step_s(self) -> float | None:
        """The median of the steps after the first, which may have warmed up; None without such."""
        later = sorted(step.duration_s for step in self.steps[1:])
        return statistics.median(later) if later else None

    @property
    def warm_up_s(self) -> float | None:
        """How much longer the first step took than usual; None unless it is beyond what the others vary by."""
        usual = self.usual_step_s
        if usual is None or len(self.steps) < 3:
            return None
        slowest = max(step.duration_s for step in self.steps[1:])
        first = self.steps[0].duration_s
        return first - usual if first > max(_WARM_UP * usual, slowest) else None
