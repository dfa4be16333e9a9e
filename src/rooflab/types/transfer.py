"""How long data is on its way to a device, stage by stage."""

from __future__ import annotations

from typing import Any

import msgspec

from rooflab.types.advice import Advices
from rooflab.types.result import Positive, Result, convert
from rooflab.units import duration, si


class Stage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One step of the way.

    Attributes:
        name: as it was asked for; `where` says what stands behind the number.
        bytes_per_s: its bandwidth for what enters it, all threads together; None where nobody states it.
        latency_s: of one request, which moves one chunk; None where nobody states it: taken as none, and said.
        threads: how many requests are under way at once.
        expands: bytes that leave it for each that enters (3 for data compressed to a third).
    """

    name: str
    bytes_per_s: float | None
    latency_s: float | None = None
    threads: int = 1
    expands: float = 1.0
    where: str = "given"


class Passed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A stage with what went through it.

    Attributes:
        nbytes: that entered it.
        bytes_per_s: attained, latencies included; None where its rate is unknown, as are the times.
        first_s: until its first chunk has passed; `time_s` until all have, by itself.
    """

    stage: Stage
    nbytes: float
    bytes_per_s: float | None = None
    first_s: float | None = None
    time_s: float | None = None


class Feed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A device fed by a transfer.

    Attributes:
        samples_per_s: what it gets to compute on, at most; `supply_per_s` what arrives.
        device_samples_per_s: what it could compute.
        idle: share of its time that it waits.
        binds: the stage, or "device".
    """

    samples_per_s: float
    supply_per_s: float
    device_samples_per_s: Positive
    idle: float
    binds: str


class Home(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A place that could hold the data.

    Attributes:
        name: "memory of one GPU", "memory of all 8", "host memory", "disks".
        capacity_bytes: of it; None where nobody states it.
        nbytes: what it would have to hold: on the device the bytes that arrive.
        where: whose number the capacity is.
    """

    name: str
    capacity_bytes: Positive | None
    nbytes: float
    where: str

    @property
    def share(self) -> float | None:
        """Of the capacity, over 1 where the data do not fit; None where that is unknown."""
        return None if self.capacity_bytes is None else self.nbytes / self.capacity_bytes


class Transfer(Result, msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long data is on its way.

    Attributes:
        nbytes: at the start of the way.
        overlap: whether the stages work side by side.
        stages: in order, each by itself.
        time_s: until all has arrived, at least (`complete`); `fill_s` of it until the first chunk has.
        bytes_per_s: `nbytes` / `time_s`.
        steady_bytes_per_s: of an endless transfer, counted at the start of the way.
        binds: the slowest stage.
        feed: of the device at the end, where it was asked for.
        homes: where the data could lie, near to far, and whether they fit; none without a machine and a host.
        advice: changes, each with the time of the changed way; None where it was not asked for.
    """

    WHAT = "a transfer"
    DERIVED = ("unknown", "complete")

    nbytes: float
    overlap: bool
    stages: tuple[Passed, ...]
    time_s: float
    fill_s: float
    bytes_per_s: float
    steady_bytes_per_s: float
    binds: str
    feed: Feed | None = None
    homes: tuple[Home, ...] = ()
    advice: Advices | None = None
    schema: int = 1

    @property
    def unknown(self) -> tuple[str, ...]:
        """Stages whose rate nobody states: left out of the time."""
        return tuple(each.stage.name for each in self.stages if each.time_s is None)

    @property
    def complete(self) -> bool:
        """Whether every stage's rate is known: else the time is a least one, and every rate a highest one."""
        return not self.unknown

    @property
    def name(self) -> str:
        """What goes where."""
        return f"{si(self.nbytes, 'B')} through {', '.join(each.stage.name for each in self.stages)}"

    def _summary(self) -> str:
        least = "" if self.complete else "> "
        return f"{si(self.nbytes, 'B')}: {least}{duration(self.time_s)}, bound by {self.binds}"

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionaries, lists and numbers; `unknown` and `complete` follow from the stages."""
        return {**super().to_dict(), "unknown": list(self.unknown), "complete": self.complete}

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> Transfer:
        """The transfer that `to_dict` was called on (see `Result.from_dict`)."""
        return convert(cls, raw)
