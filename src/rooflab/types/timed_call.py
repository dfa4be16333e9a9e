"""The answer to "how long does this call take here, and is that good?": its times, warm and cold, judged."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from rooflab.types.own_time import OwnTime
from rooflab.types.report import Report
from rooflab.types.result import Result, convert
from rooflab.units import duration

SCHEMA = 1

Caches = Literal["warm", "cold"]


class CallTimes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Seconds of one call, in one state of the caches.

    Attributes:
        caches: "warm" as the call before left them, "cold" emptied before each call.
        median_s: of the blocks' medians.
        low_s, high_s: where another run's median will lie: the least and the largest of the blocks' medians, 1 %
            beyond; None where there are fewer than 3 blocks.
        best_s: the quickest sample: what nothing disturbed.
        calls: that were timed.
        blocks_s: the median of each block, in the order they were taken.
        own: the median held against its prediction; None without one.
    """

    caches: Caches
    median_s: float
    best_s: float
    calls: int
    blocks_s: tuple[float, ...]
    low_s: float | None = None
    high_s: float | None = None
    own: OwnTime | None = None

    @property
    def spread(self) -> float | None:
        """Width of the interval as a share of the median; None without one."""
        if self.low_s is None or self.high_s is None or not self.median_s:
            return None
        return (self.high_s - self.low_s) / self.median_s


class Surroundings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the machine did beside the calls; None where the system does not say.

    Attributes:
        cpus: that the process may use.
        clock_before_hz, clock_after_hz: of one core under load, before the first and after the last call.
        others_share, stolen_share: of those CPUs' time, what other processes had, and other guests of the host.
        threads: of libraries that have threads of their own, by name.
    """

    cpus: int
    clock_before_hz: float | None = None
    clock_after_hz: float | None = None
    others_share: float | None = None
    stolen_share: float | None = None
    threads: dict[str, int] = {}


class TimedCall(Result, msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A call that was timed here.

    Attributes:
        name: of what was called.
        device: "CPU", or the GPU whose events gave the times.
        warm: caches as the call before left them.
        cold: caches emptied before each call; None where it was not asked for or did not fit into the limit.
        first_s: the first call that was timed, which pays for what later ones find done.
        warm_up_calls, warm_up_s: before the warm calls were timed.
        stable: whether the warm-up's last blocks agreed within 3 %; None where the calls are too long to say.
        returns_s: until the call returns, where its work is done later; None where it is done then.
        waited_for: what makes the work happen, or waits for it; "" where the call does it all.
        empty_s: calling a function that does nothing: part of every time.
        report: what the call asks for, operation by operation, predicted with warm caches where there is a
            machine; its measured time is the warm one. None where it could not be counted.
        uncounted: why there is no report; "" where there is one.
        surroundings: what else the machine did.
        warnings: what a reader must know before trusting the times.
        notes: conventions.
    """

    NEWEST = SCHEMA
    WHAT = "a timed call"
    DERIVED = ("time_s",)

    name: str
    device: str
    warm: CallTimes
    first_s: float
    warm_up_calls: int
    warm_up_s: float
    surroundings: Surroundings
    cold: CallTimes | None = None
    stable: bool | None = None
    returns_s: float | None = None
    waited_for: str = ""
    empty_s: float | None = None
    report: Report | None = None
    uncounted: str = ""
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    schema: int = SCHEMA

    @property
    def time_s(self) -> float:
        """The median of the warm calls."""
        return self.warm.median_s

    @property
    def states(self) -> tuple[CallTimes, ...]:
        """Warm, then cold where it was timed."""
        return (self.warm,) if self.cold is None else (self.warm, self.cold)

    def _summary(self) -> str:
        name = self.name if len(self.name) <= 60 else f"{self.name[:59]}…"
        cold = "" if self.cold is None else f", {duration(self.cold.median_s)} with cold caches"
        return f"{name}: {duration(self.time_s)}{cold}"

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionaries, lists and numbers, a report as its own file has it; the warm median is said too."""
        raw = {**super().to_dict(), "time_s": self.time_s}
        if self.report is not None:
            raw["report"] = self.report.to_dict()
        return raw

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> TimedCall:
        """The timed call that `to_dict` was called on (see `Result.from_dict`)."""
        held = raw.get("report") if isinstance(raw, dict) else None
        timed = convert(cls, {**raw, "report": None} if held is not None else raw)
        return timed if held is None else msgspec.structs.replace(timed, report=Report.from_dict(held))
